"""Batches over HTTP into the durable spool, against bare decoding and fsync; and the page's first picture."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.report import Table, machine, progress
from benchmarks.serve_process import Served, served, stream_toml
from veilstream.live import open_stream
from veilstream.live.clock import SettableClock, WallClock, moment
from veilstream.server.bodies import ARROW, CSV, NDJSON, PARQUET

ROWS, BATCHES, CLIENTS, BINS, ROUNDS = 50_000, 40, 4, 1_000, 3
PAGE_STEPS, PAGE_BINS = 10_000, 12


def rows(seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)  # noqa: TID251
    return pl.DataFrame({"id": draw.integers(0, 1 << 40, ROWS), "bin": draw.integers(0, BINS, ROWS)})


def encode(frame: pl.DataFrame, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == ARROW:
        table = frame.to_arrow()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    elif kind == NDJSON:
        frame.write_ndjson(file)
    elif kind == CSV:
        frame.write_csv(file)
    else:
        frame.write_parquet(file)
    return file.getvalue()


DECODE: dict[str, Callable[[bytes], object]] = {
    NDJSON: lambda body: pl.read_ndjson(io.BytesIO(body)),
    CSV: lambda body: pyarrow.csv.read_csv(pa.BufferReader(body)),
    ARROW: lambda body: pa.ipc.open_stream(pa.BufferReader(body)).read_all(),
    PARQUET: lambda body: pyarrow.parquet.read_table(pa.BufferReader(body), use_threads=False),
}


def floor_rate(bodies: list[bytes], kind: str, folder: Path) -> tuple[float, float]:
    """Events a second of decoding one body after another and an fsync of as many bytes as the spool stores for it.

    And events in a second of the processor.
    """
    stored = bytes(ROWS * 12)
    began, used = time.perf_counter(), time.process_time()
    with (folder / "floor").open("wb") as file:
        for body in bodies:
            DECODE[kind](body)
            file.write(stored)
            file.flush()
            os.fsync(file.fileno())
    events = ROWS * len(bodies)
    return events / (time.perf_counter() - began), events / (time.process_time() - used)


def processor_seconds(process: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def served_rate(bodies: list[bytes], kind: str, server: Served) -> tuple[float, float]:
    """Events a second from several clients at once until the last batch is durable; and a second of its processor."""
    headers = {"authorization": f"Bearer {server.token}", "content-type": kind}

    def client(mine: list[bytes]) -> None:
        with httpx.Client(base_url=server.url, headers=headers, timeout=120) as http:
            for body in mine:
                answer = http.post("/v1/streams/visits/events", content=body)
                assert answer.status_code == 202, answer.text

    began, used = time.perf_counter(), processor_seconds(server.process)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, [bodies[number::CLIENTS] for number in range(CLIENTS)]))
    events = ROWS * len(bodies)
    return events / (time.perf_counter() - began), events / (processor_seconds(server.process) - used)


def ingest_table(folder: Path) -> Table:
    """Each format, floor and server in turn: medians of several rounds."""
    lines: list[list[str]] = []
    with served(folder, stream_toml("visits", "1h", "60s", BINS, public=False)) as server:
        for kind in (PARQUET, ARROW, CSV, NDJSON):
            progress(f"ingest of {kind}")
            bodies = [encode(rows(number), kind) for number in range(BATCHES)]
            served_rate(bodies[:4], kind, server)
            rounds = [(floor_rate(bodies, kind, folder), served_rate(bodies, kind, server)) for _ in range(ROUNDS)]
            floors, rates = np.array([floor for floor, _ in rounds]), np.array([rate for _, rate in rounds])
            ratio, by_processor = np.median(rates / floors, axis=0)
            lines.append([kind, f"{np.median(rates[:, 0]):,.0f}", f"{np.median(floors[:, 0]):,.0f}", f"{ratio:.2f}"])
            lines[-1].append(f"{by_processor:.2f}")
    title = f"Durable ingest over HTTP, batches of {ROWS:,} rows, {CLIENTS} clients at once"
    notes = (
        "From sending until 202, which means durable. The floor decodes the same bodies with the same libraries, one "
        "after another, and after each appends as many bytes as the spool stores to a file and calls fsync; no "
        f"network, no identities, no bins. Medians of {ROUNDS} rounds, in turn. The last column is the same ratio in "
        f"events for a second of the processor, which does not hang on what else the machine does. {machine()}"
    )
    return Table(title, notes, ["format", "events/s", "bare decode + fsync", "ratio", "by processor"], lines)


def fill(folder: Path) -> None:
    """A stream of many steps that are all published."""
    minute = 60_000_000
    start = WallClock().now() // minute * minute - PAGE_STEPS * minute
    definition = {
        "user": "id",
        "domain": {"bin": [f"bin {n}" for n in range(PAGE_BINS)]},
        "start": moment(start),
        "every": "1m",
        "epsilon": "1",
        "window": 10,
        "delay": "2s",
        "public": True,
    }
    clock = SettableClock(start)
    with open_stream(folder / "budget.db", "steps", definition, clock=clock) as stream:
        clock.tick = start + PAGE_STEPS * minute + 10_000_000
        stream.close_due()


def page_table(folder: Path) -> Table:
    """From asking for the page until the chart of all steps is drawn, in Chromium on the same machine."""
    from playwright.sync_api import sync_playwright

    progress("filling a stream for the page")
    fill(folder)
    spans: list[float] = []
    with served(folder, "") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(5):
            page = browser.new_page()
            began = time.perf_counter()
            page.goto(f"{server.url}/streams/steps#chart")
            page.wait_for_selector(".uplot canvas")
            spans.append(time.perf_counter() - began)
            page.close()
        browser.close()
    title = f"The page's first picture, {PAGE_STEPS:,} steps of {PAGE_BINS} bins, loopback"
    notes = f"From asking for the page until the chart is drawn, in Chromium on the same machine. {machine()}"
    return Table(title, notes, ["first visit (s)", "best of five (s)"], [[f"{spans[0]:.2f}", f"{min(spans):.2f}"]])


def run() -> list[Table]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        return [ingest_table(Path(one)), page_table(Path(two))]
