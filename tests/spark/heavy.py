"""Run by itself: one person with a hundred million rows, and how much memory the tasks of Python take for them."""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from tests.spark.support import KEY, alone, opened
from veilstream.data import Calendar, Categories, Domain
from veilstream.spark import local_session, snapshots

HEAVY, OTHERS, STEPS, BINS = 7, 1000, 4, 9
LIMITS: dict[str, Any] = {"bins_per_user": 2, "counts_per_user": 3}
SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"}


def parents() -> dict[int, int]:
    """Of every process its parent."""
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:
            continue
    return found


def workers() -> Iterator[int]:
    """The processes of Python that this one has started through Spark."""
    known = parents()
    for process in known:
        above = process
        while above not in {0, 1, os.getpid()}:
            above = known.get(above, 0)
        if above == os.getpid() != process:
            try:
                if b"pyspark" in Path(f"/proc/{process}/cmdline").read_bytes().partition(b"java")[0]:
                    yield process
            except OSError:
                continue


def most_memory(process: int) -> int:
    """The most bytes that a process has had in memory."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    told = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(told[0]) if told else 0


def main(rows: str) -> None:
    warnings.simplefilter("ignore")
    domain, calendar = Domain({"bin": Categories(range(BINS))}), Calendar(0, STEPS, 1)
    session = local_session(settings=SETTINGS)
    numbers: Any = session.range(0, int(rows), 1, 8)
    heavy = numbers.selectExpr(f"{HEAVY}L as user", f"id % {STEPS} as time", f"id % {BINS} as bin")
    others: Any = session.range(0, OTHERS, 1, 2)
    light = others.selectExpr("id + 100 as user", f"id % {STEPS} as time", f"id % {BINS} as bin")
    # Of equal rows of a person no more than three count, so that three of each stand for all.
    few = [(HEAVY, step, bin_) for step in range(STEPS) for bin_ in range(BINS) for _ in range(3)]
    few += [(number + 100, number % STEPS, number % BINS) for number in range(OTHERS)]
    table = pl.DataFrame(few, schema=["user", "time", "bin"], orient="row")
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max([peak[0], *map(most_memory, workers())])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        steps = snapshots(
            heavy.unionByName(light), domain=domain, calendar=calendar, user="user", time="time", key=KEY, **LIMITS
        )
        found = opened(steps)
    finally:
        done.set()
        watcher.join()
    equal = bool((found == alone(table, domain, calendar, **LIMITS)).all())
    print(json.dumps({"equal": equal, "rows": heavy.count(), "peak": peak[0]}))
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
