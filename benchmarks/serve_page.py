"""How soon the page of a stream shows its first picture, in Chromium."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.report import Table, machine, progress
from benchmarks.serve_process import served
from veilstream.live import open_stream
from veilstream.live.clock import SettableClock, WallClock, moment

STEPS, BINS, VISITS = 10_000, 12, 7
VIEWS = {"each bin (the view a reader comes to)": ("", BINS), "bins compared, with the brush": ("#chart", 2)}
"""Each view by its anchor and the number of its charts."""


def fill(folder: Path) -> None:
    """A stream of many steps that are all published."""
    minute = 60_000_000
    start = WallClock().now() // minute * minute - STEPS * minute
    definition = {
        "user": "id",
        "domain": {"bin": [f"bin {n}" for n in range(BINS)]},
        "start": moment(start),
        "every": "1m",
        "epsilon": "1",
        "window": 10,
        "delay": "2s",
        "public": True,
    }
    clock = SettableClock(start)
    with open_stream(folder / "budget.db", "steps", definition, clock=clock) as stream:
        clock.tick = start + STEPS * minute + 10_000_000
        stream.close_due()


def page_table(folder: Path) -> Table:
    """From asking for the page until the chart of all steps is drawn, in Chromium on the same machine."""
    progress("filling a stream for the page")
    fill(folder)
    lines: list[list[str]] = []
    with served(folder, "") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for view, (anchor, pictures) in VIEWS.items():
            spans: list[float] = []
            for _ in range(VISITS):
                # A context of its own: nothing is kept from one visit to the next.
                context = browser.new_context()
                page = context.new_page()
                began = time.perf_counter()
                page.goto(f"{server.url}/streams/steps{anchor}", wait_until="commit")
                page.locator(".uplot canvas").nth(pictures - 1).wait_for()
                page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
                spans.append(time.perf_counter() - began)
                context.close()
            lines.append([view, *(f"{span:.2f}" for span in (spans[0], float(np.median(spans)), max(spans)))])
        browser.close()
    title = f"The page's first picture, {STEPS:,} steps of {BINS} bins, loopback"
    notes = (
        f"From asking for the page until its charts are drawn, in Chromium on the same machine; {VISITS} visits of "
        "each view, each with an empty cache; the first of all comes to a server that nobody has asked before. Load "
        f"average {os.getloadavg()[0]:.1f} while it ran. {machine()}"
    )
    return Table(title, notes, ["view", "first visit (s)", "median (s)", "slowest (s)"], lines)


def run() -> list[Table]:
    # The page is not asked how fast a disk is: its stream is filled in memory where that is to be had.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        return [page_table(Path(folder))]
