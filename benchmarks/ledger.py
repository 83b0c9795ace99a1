"""A ledger that has grown: reopening, the next step, reading everything, against bare commits of the same rows."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

import veilstream as vs
from benchmarks.ledger_history import GUARANTEE, LEVEL, fill, publisher
from benchmarks.report import Table, progress
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger

STEPS: Final = 1_000_000
STREAMS: Final = 20
QUICK: Final = 50_000
LATER: Final = 300
HOURS: Final = 17_544
TABLES: Final = ("charges", "arrays", "steps", "chain")
ROUNDS: Final = 10
GROUP: Final = 100
SLOW: Final = 1 / 260
"""Seconds of a commit on a disk of 260 commits a second, for which the aims were set."""


def run(*, quick: bool = False) -> Sequence[Table]:
    """The tables of the suite."""
    steps = QUICK if quick else STEPS
    with disk_folder() as folder:
        grown = [
            _grown(folder, f"one stream of {steps:,} steps", 1, steps),
            _grown(folder, f"{STREAMS} streams of {steps // STREAMS:,} steps", STREAMS, steps // STREAMS),
        ]
        hours = hourly(folder, QUICK // 25 if quick else HOURS)
        group = _group(folder)
    return [
        Table(
            title="A ledger that has grown, one bin, w = 24",
            notes=(
                "SQLite. Reopening is measured in a process of its own, from opening the ledger to the return of the "
                "first feed, with the memory by which its peak grows. Later feeds are compared with commits of the "
                f"same rows to a copy of the same file by bare `sqlite3` ({LATER} of each, taken in turns). The last "
                "column is computed: the same work beyond the commit, on a disk of 260 commits a second."
            ),
            columns=[
                "ledger",
                "bytes a step",
                "reopen and feed, s",
                "memory, MB",
                "read all releases, s of processor",
                "later feed, ms",
                "of processor",
                "bare commit, ms",
                "ratio",
                "on a slow disk",
            ],
            rows=grown,
        ),
        hours,
        group,
    ]


@contextmanager
def disk_folder() -> Iterator[Path]:
    """A folder on the disk of the repository: /tmp may be memory, where a commit costs nothing."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).resolve().parent.parent, prefix=".ledger-") as name:
        yield Path(name)


def _grown(folder: Path, name: str, streams: int, steps: int) -> list[str]:
    ledger = folder / f"{streams}.db"
    for number in range(streams):
        fill(ledger, f"s{number}", steps)
        progress(f"{name}: stream {number + 1} of {streams} is filled")
    size = ledger.stat().st_size / (streams * steps)
    reopened = _in_a_process(ledger, f"s{streams - 1}")
    reading = _reading(ledger, streams * steps)
    feed, busy, bare = _later(folder, ledger)
    progress(f"{name}: {reopened['seconds']:.2f} s to reopen, {reading:.1f} s to read, {feed / bare:.2f} times bare")
    ledger.unlink()
    return [
        name,
        f"{size:.0f}",
        f"{reopened['seconds']:.2f}",
        f"{reopened['memory'] / 1e6:.0f}",
        f"{reading:.1f}",
        f"{feed * 1e3:.2f}",
        f"{busy * 1e3:.2f}",
        f"{bare * 1e3:.2f}",
        f"{feed / bare:.2f}",
        _on_a_slow_disk(feed, bare),
    ]


def _on_a_slow_disk(feed: float, bare: float) -> str:
    return f"{(feed - bare + SLOW) / SLOW:.2f}"


def _in_a_process(ledger: Path, stream: str) -> dict[str, float]:
    code = f"from benchmarks.ledger import reopen; reopen({str(ledger)!r}, {stream!r})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def reopen(ledger: str, stream: str) -> None:
    """Open a stream and feed one step; prints what it took."""
    with publisher(Path(ledger).with_name("warm.db"), "warm") as warm:
        # What is imported and compiled once is not what a longer history costs.
        for _ in range(3):
            warm.feed(np.array([LEVEL]))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    with publisher(Path(ledger), stream) as reopened:
        reopened.feed(np.array([LEVEL]))
        seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "memory": (after - before) * 1024}))


def _reading(ledger: Path, least: int) -> float:
    with Ledger.open(ledger) as opened:
        start = time.process_time()
        count = sum(1 for _ in opened.releases())
        seconds = time.process_time() - start
    assert count > least
    return seconds


def _later(folder: Path, ledger: Path) -> tuple[float, float, float]:
    """Seconds of a feed, of the processor in it, and of a bare commit of its rows to a copy of the ledger."""
    copy = folder / "bare.db"
    _copied(ledger, copy)
    feeds, busy, commits = 0.0, 0.0, 0.0
    with publisher(ledger, "s0") as later, closing(_bare(copy)) as bare, closing(sqlite3.connect(ledger)) as source:
        later.feed(np.array([LEVEL]))
        for _ in range(ROUNDS):
            last = _last(source)
            start, begun = time.perf_counter(), time.process_time()
            for _ in range(LATER // ROUNDS):
                later.feed(np.array([LEVEL]))
            feeds, busy = feeds + time.perf_counter() - start, busy + time.process_time() - begun
            written = _written(source, last)
            start = time.perf_counter()
            for rows in written:
                _commit(bare, rows)
            commits += time.perf_counter() - start
    copy.unlink()
    return feeds / LATER, busy / LATER, commits / LATER


def _copied(ledger: Path, copy: Path) -> None:
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _bare(path: Path) -> sqlite3.Connection:
    bare = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 4096"):
        bare.execute(f"PRAGMA {pragma}")
    return bare


def _last(source: sqlite3.Connection) -> dict[str, int]:
    return {table: source.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] for table in TABLES}


Rows = dict[str, list[tuple[object, ...]]]


def _written(source: sqlite3.Connection, last: dict[str, int]) -> list[Rows]:
    """What each commit since ``last`` wrote: a charge, a step, an entry, and an array if its content was new."""
    found: Rows = {
        table: source.execute(f"SELECT * FROM {table} WHERE rowid > ? ORDER BY rowid", (last[table],)).fetchall()
        for table in TABLES
    }
    new = {row[0]: row for row in found["arrays"]}
    values = 11
    return [
        {
            "arrays": [new[step[values]]] if step[values] in new else [],
            "charges": [charge],
            "steps": [step],
            "chain": [entry],
        }
        for charge, step, entry in zip(found["charges"], found["steps"], found["chain"], strict=True)
    ]


def _commit(bare: sqlite3.Connection, rows: Rows) -> None:
    bare.execute("BEGIN IMMEDIATE")
    bare.execute("UPDATE counter SET seq = seq + 1")
    for table, several in rows.items():
        for row in several:
            marks = ", ".join("?" * len(row))
            bare.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row)
    bare.execute("UPDATE secret_states SET t = t + 1 WHERE stream_id = 1")
    bare.execute("COMMIT")


def hourly(folder: Path, steps: int) -> Table:
    """A stream of two years of hours from its first step on, then opened again with nothing to do."""
    ledger, copy = folder / "hours.db", folder / "hours-bare.db"
    with publisher(ledger, "s0") as stream:
        stream.feed(np.array([LEVEL]))
        _copied(ledger, copy)
        feeds, commits = 0.0, 0.0
        with closing(_bare(copy)) as bare, closing(sqlite3.connect(ledger)) as source:
            for begin in range(1, steps, steps // ROUNDS):
                last, some = _last(source), min(steps, begin + steps // ROUNDS) - begin
                start = time.perf_counter()
                for _ in range(some):
                    stream.feed(np.array([LEVEL]))
                feeds += time.perf_counter() - start
                written = _written(source, last)
                start = time.perf_counter()
                for rows in written:
                    _commit(bare, rows)
                commits += time.perf_counter() - start
    progress(f"hours: {feeds:.0f} s of feeds, {commits:.0f} s of bare commits")
    return Table(
        title="Steps from the first one on",
        notes=f"{steps:,} steps of one bin, each durable, and bare commits of the same rows in turns with them.",
        columns=["steps", "feeds, s", "bare commits, s", "ratio", "on a slow disk"],
        rows=[
            [
                f"{steps:,}",
                f"{feeds:.1f}",
                f"{commits:.1f}",
                f"{feeds / commits:.2f}",
                _on_a_slow_disk(feeds / steps, commits / steps),
            ]
        ],
    )


def _group(folder: Path) -> Table:
    """A step of each of many streams, committed one by one and all together, in turns."""
    counts = np.array([LEVEL])
    alone, together, busy = 0.0, 0.0, 0.0
    with Ledger.open(folder / "group.db") as ledger:
        streams = [
            vs.Publisher(1, GUARANTEE, vs.STREAMS["uniform"](), ledger, stream=f"s{number}") for number in range(GROUP)
        ]
        feeds = [partial(stream.feed, counts) for stream in streams]
        feed_together(ledger, feeds)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for feed in feeds:
                feed()
            alone += time.perf_counter() - start
            start, begun = time.perf_counter(), time.process_time()
            feed_together(ledger, feeds)
            together, busy = together + time.perf_counter() - start, busy + time.process_time() - begun
    steps = GROUP * ROUNDS
    progress(f"group: {steps / together:.0f} steps a second together, {steps / alone:.0f} one by one")
    return Table(
        title="Steps of many streams in one commit",
        notes=(
            f"A step of each of {GROUP} streams of one bin, {ROUNDS} times, one commit each and one commit for all in "
            "turns. The last two columns are computed: steps a second on a disk of 260 commits a second."
        ),
        columns=[
            "streams",
            "one by one, steps/s",
            "together, steps/s",
            "processor ms a step together",
            "one by one on a slow disk",
            "together on a slow disk",
        ],
        rows=[
            [
                f"{GROUP}",
                f"{steps / alone:,.0f}",
                f"{steps / together:,.0f}",
                f"{busy / steps * 1e3:.2f}",
                f"{1 / (SLOW + busy / steps):,.0f}",
                f"{GROUP / (SLOW + GROUP * busy / steps):,.0f}",
            ]
        ],
    )
