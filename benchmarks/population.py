"""Streams that share one budget: reopening and the next step, against streams that have their budget for themselves."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import veilstream as vs
from benchmarks.ledger_history import GUARANTEE, LEVEL, fill
from benchmarks.report import Table, progress
from veilstream.mechanisms.streams.uniform import Uniform

STEPS: Final = 1_000_000
QUICK: Final = 20_000
STREAMS: Final = 20
LATER: Final = 60
HOURS: Final = vs.Calendar("1970-01-01", "2090-01-01", "1h")
WINDOWS: Final = {"none": None, "24h": "24h", "30d": "720h"}


def run(*, quick: bool = False) -> Sequence[Table]:
    """The table of the suite."""
    each = (QUICK if quick else STEPS) // STREAMS
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent.parent, prefix=".population-") as name:
        alone = Fraction(0)
        for label, window in WINDOWS.items():
            found = _measured(Path(name) / f"{label}.db", window, each)
            alone = alone or Fraction(found["later"])
            rows.append(
                [
                    "its own budgets" if window is None else f"one population, windows of {label}",
                    f"{found['reopen']:.2f}",
                    f"{found['later'] * 1e3:.1f}",
                    f"{float(Fraction(found['later']) / alone):.2f}",
                ]
            )
            progress(f"{label}: done")
    return [
        Table(
            title=f"{STREAMS} hourly streams of {each:,} steps in one ledger",
            notes=(
                "SQLite, one bin, w = 24. Reopening is measured in a process of its own, from opening the ledger to "
                f"the return of the first feed; later feeds are the median of {LATER}. All streams share the pool."
            ),
            columns=["ledger", "reopen and feed, s", "later feed, ms", "ratio"],
            rows=rows,
        )
    ]


def publisher(window: str | None, ledger: Path, stream: str) -> vs.Publisher[Any]:
    """A stream of hours, in a population unless there is no window."""
    residents = None if window is None else vs.Population("residents", STREAMS * 40, window=window)
    return vs.Publisher(1, GUARANTEE, Uniform(), ledger, stream=stream, calendar=HOURS, population=residents)


def _measured(ledger: Path, window: str | None, steps: int) -> dict[str, float]:
    for number in range(STREAMS):
        fill(ledger, f"s{number}", steps, partial(publisher, window))
    code = f"from benchmarks.population import reopen; reopen({window!r}, {str(ledger)!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def reopen(window: str | None, ledger: str) -> None:
    """Open the last stream, feed it, and print what that took."""
    with publisher(window, Path(ledger).with_name(f"warm {window}.db"), "warm") as warm:
        # What is imported and compiled once is not what a longer history costs.
        for _ in range(3):
            warm.feed(np.array([LEVEL]))
    start = time.perf_counter()
    with publisher(window, Path(ledger), f"s{STREAMS - 1}") as reopened:
        reopened.feed(np.array([LEVEL]))
        first = time.perf_counter() - start
        later: list[float] = []
        for _ in range(LATER):
            start = time.perf_counter()
            reopened.feed(np.array([LEVEL]))
            later.append(time.perf_counter() - start)
    print(json.dumps({"reopen": first, "later": float(np.median(later))}))
