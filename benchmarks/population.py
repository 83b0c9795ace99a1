"""Streams that share one budget: reopening and the next step, against streams that have their budget for themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import veilstream as vs
from benchmarks.ledger_history import GUARANTEE, LEVEL, begin, extend
from benchmarks.report import Table, progress
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.storage.ledger.archiving import archive
from veilstream.storage.ledger.compacting import compact, plan_compaction

STEPS: Final = 1_000_000
QUICK: Final = 60_000
STREAMS: Final = 20
LATER: Final = 60
HOURS: Final = vs.Calendar("1970-01-01", "2090-01-01", "1h")
WINDOW: Final = "720h"
ALONE: Final = "alone"
SHARING: Final = tuple(f"s{number}" for number in range(STREAMS))


def run(*, quick: bool = False) -> Sequence[Table]:
    """The tables of the suite."""
    each = (QUICK if quick else STEPS) // STREAMS
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent.parent, prefix=".population-") as name:
        ledger = _history(Path(name) / "long.db", each)
        return [long_history(ledger, each), _compacted(ledger)]


def _history(ledger: Path, each: int) -> Path:
    """A ledger with so many steps of each stream."""
    for stream in (ALONE, *SHARING):
        begin(ledger, stream, publisher)
    for stream in (ALONE, *SHARING):
        extend(ledger, stream, each)
        progress(f"{stream}: {each:,} steps written")
    return ledger


def long_history(ledger: Path, each: int) -> Table:
    found = {
        "a budget of its own": _reopened(ledger, ALONE),
        "one pool for 20, windows of 30 days": _reopened(ledger, SHARING[-1]),
    }
    usual = found["a budget of its own"]["later"]
    return Table(
        title=f"{STREAMS} hourly streams of {each:,} steps share a pool, in one ledger with one that does not",
        notes=(
            f"SQLite, one bin, w = 24, {_size(ledger) / 1e6:,.0f} MB in all. Reopening is measured in a process of its "
            "own, from opening the ledger to the return of the first feed, in seconds of the processor; "
            f"later feeds are the median of {LATER}, in milliseconds of the processor."
        ),
        columns=["stream", "reopen and feed, s", "later feed, ms", "ratio"],
        rows=[[label, *_times(timed), f"{timed['later'] / usual:.2f}"] for label, timed in found.items()],
    )


def _times(timed: dict[str, float]) -> list[str]:
    return [f"{timed['reopen']:.2f}", f"{timed['later'] * 1e3:.1f}"]


def _compacted(ledger: Path) -> Table:
    """Streams that share are compacted, the first with an archive."""
    before, size = _reopened(ledger, SHARING[-1]), _size(ledger)
    taken = [compact_stream(ledger, stream) for stream in SHARING]
    return compaction(ledger, before, size, taken)


def compact_stream(ledger: Path, stream: str) -> tuple[int, float]:
    """How many charges were taken away, and in how many seconds of the processor."""
    start = time.process_time()
    with vs.Ledger.open(ledger) as opened:
        plan = plan_compaction(opened, stream)
        if stream == SHARING[0]:
            archive(opened, [plan], ledger.with_name("archive.db"))
        compact(opened, plan, keep_releases=False, archived=stream == SHARING[0])
        if stream == SHARING[-1]:
            opened.shrink()
    took = time.process_time() - start
    progress(f"{plan}: {took:.1f} s")
    return plan.charges, took


def compaction(ledger: Path, before: dict[str, float], size: int, taken: Sequence[tuple[int, float]]) -> Table:
    """The table of what compacting the streams took and left."""
    removed, took = sum(charges for charges, _ in taken), sum(seconds for _, seconds in taken)
    rows = [["as written", f"{size / 1e6:.1f}", *_times(before)]]
    rows.append(["compacted", f"{_size(ledger) / 1e6:.1f}", *_times(_reopened(ledger, SHARING[-1]))])
    return Table(
        title=f"The {STREAMS} streams that share, compacted",
        notes=(
            f"Compacting took {removed:,} charges and the releases before them out of the ledger in {took:.0f} s of "
            "the processor, the archive of one stream, which is verified as it is written, included. What stays is "
            "what came after the last snapshot that no window needs, the stream with a budget of its own, and what the "
            "charges cost each window."
        ),
        columns=["ledger", "size, MB", "reopen and feed, s", "later feed, ms"],
        rows=rows,
    )


def _size(ledger: Path) -> int:
    return sum(path.stat().st_size for path in ledger.parent.glob(f"{ledger.name}*"))


def publisher(ledger: Path, stream: str) -> vs.Publisher[Any]:
    """A stream of hours, in a population unless it is the one that has its budget for itself."""
    residents = None if stream == ALONE else vs.Population("residents", STREAMS * 40, window=WINDOW)
    return vs.Publisher(1, GUARANTEE, Uniform(), ledger, stream=stream, calendar=HOURS, population=residents)


def _reopened(ledger: Path, stream: str) -> dict[str, float]:
    code = f"from benchmarks.population import reopen; reopen({str(ledger)!r}, {stream!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def reopen(ledger: str, stream: str) -> None:
    """Open a stream, feed it, and print what that took."""
    with publisher(Path(ledger).with_name(f"warm {stream}.db"), stream) as warm:
        # What is imported and compiled once is not what a longer history costs.
        for _ in range(3):
            warm.feed(np.array([LEVEL]))
    used = time.process_time()
    with publisher(Path(ledger), stream) as reopened:
        reopened.feed(np.array([LEVEL]))
        first = time.process_time() - used
        later: list[float] = []
        for _ in range(LATER):
            used = time.process_time()
            reopened.feed(np.array([LEVEL]))
            later.append(time.process_time() - used)
    print(json.dumps({"reopen": first, "later": float(np.median(later))}))
