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
from benchmarks.ledger_history import GUARANTEE, LEVEL, fill
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
    """The table of the suite."""
    each = (QUICK if quick else STEPS) // STREAMS
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent.parent, prefix=".population-") as name:
        ledger = Path(name) / "shared.db"
        for stream in (ALONE, *SHARING):
            fill(ledger, stream, each, publisher)
            progress(f"{stream}: written")
        before = _size(ledger)
        found = {
            "a budget of its own": (_reopened(ledger, ALONE), before),
            "one pool for 20, windows of 30 days": (_reopened(ledger, SHARING[-1]), before),
        }
        took, removed = _compacted(ledger, Path(name) / "archive.db")
        progress("compacted")
        found["the same, compacted"] = _reopened(ledger, SHARING[-1]), _size(ledger)
    usual = found["a budget of its own"][0]["later"]
    rows = [
        [
            label,
            f"{timed['reopen']:.2f}",
            f"{timed['reopen_processor']:.2f}",
            f"{timed['later'] * 1e3:.1f}",
            f"{timed['later'] / usual:.2f}",
            f"{size / 1e6:.0f}",
        ]
        for label, (timed, size) in found.items()
    ]
    return [
        Table(
            title=f"{STREAMS} hourly streams of {each:,} steps share a pool, in one ledger with one that does not",
            notes=(
                "SQLite, one bin, w = 24. Reopening is measured in a process of its own, from opening the ledger to "
                f"the return of the first feed, in seconds and in seconds of the processor; later feeds are the median "
                f"of {LATER}, in milliseconds of the processor. Compacting took "
                f"{removed:,} charges and the releases before them out of the ledger in {took:.0f} s of the processor, "
                "the archive of one stream, which is verified as it is written, included."
            ),
            columns=[
                "stream",
                "reopen and feed, s",
                "processor, s",
                "later feed, ms",
                "ratio",
                "size of the ledger, MB",
            ],
            rows=rows,
        )
    ]


def _size(ledger: Path) -> int:
    return sum(path.stat().st_size for path in ledger.parent.glob(f"{ledger.name}*"))


def _compacted(ledger: Path, file: Path) -> tuple[float, int]:
    """Compact the streams that share, the first with an archive; seconds of the processor, and charges taken away."""
    start = time.process_time()
    with vs.Ledger.open(ledger) as opened:
        plans = [plan_compaction(opened, stream) for stream in SHARING]
        archive(opened, plans[:1], file)
        for number, plan in enumerate(plans):
            compact(opened, plan, keep_releases=False, archived=number == 0)
    return time.process_time() - start, sum(plan.charges for plan in plans)


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
    start, used = time.perf_counter(), time.process_time()
    with publisher(Path(ledger), stream) as reopened:
        reopened.feed(np.array([LEVEL]))
        first = {"reopen": time.perf_counter() - start, "reopen_processor": time.process_time() - used}
        later: list[float] = []
        for _ in range(LATER):
            used = time.process_time()
            reopened.feed(np.array([LEVEL]))
            later.append(time.process_time() - used)
    print(json.dumps({**first, "later": float(np.median(later))}))
