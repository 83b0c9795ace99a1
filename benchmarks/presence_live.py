"""Who was present in live streams: what a step costs and writes, however many people are remembered."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.report import ROOT, Table, progress
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_store import write_history
from veilstream.live.definition import StreamDefinition
from veilstream.live.presence import MEMORY_BYTES, PresenceBook
from veilstream.live.spool import Spool
from veilstream.live.spooled import SpooledStream

PEOPLE: Final = (10**6, 10**7)
COMING: Final = 500_000
"""People of a step while the history grows."""
OF_A_STEP: Final = (1_000, 100_000)
MEASURED: Final = 12
MEGABYTE: Final = 1 << 20
STREAM: Final = "visits"
DEFINITION: Final[dict[str, Any]] = {
    "user": "id", "time": "t", "start": 0, "every": 1, "epsilon": 1, "window": "user", "presence": 3, "domain": {},
    "mechanism": "uniform", "clock": "manual",
}  # fmt: skip


def live(people: Sequence[int] = PEOPLE) -> list[Table]:
    """Steps of a live stream that remembers so many people."""
    rows: list[list[str]] = []
    for remembered in people:
        found = _measured(remembered)
        for size in OF_A_STEP:
            one = found[str(size)]
            rows.append(
                [
                    f"{remembered:,}",
                    f"{size:,}",
                    f"{one['seconds'] * 1e3:,.1f}",
                    f"{one['whole'] * 1e3:,.0f}",
                    f"{one['written'] / 1e3:,.0f}",
                    f"{one['whole_bytes'] / 1e3:,.0f}",
                    f"{found['peak'] / MEGABYTE:,.0f}",
                    f"{found['stored'] / MEGABYTE:,.0f}",
                    f"{found['reopen']:.1f}",
                ]
            )
            progress(" | ".join(rows[-1]))
    return [
        Table(
            "Who was present in a live stream",
            "SQLite, c = 3 for ever, so that nobody is forgotten; histories take up to "
            f"{MEMORY_BYTES // MEGABYTE} MB in memory and go on in files. {MEASURED} steps of so many people each, "
            "half of whom came before: the median of the processor time that looking them up and storing them takes, "
            "beside what it takes to write the whole history as one value, as earlier versions did, and what a step "
            "adds to the log of the database. In the end: by how much the process has grown, the file of the spool, "
            "and processor seconds to open it again.",
            [
                "people remembered",
                "of a step",
                "step, ms",
                "one value, ms",
                "written, kB",
                "one value, kB",
                "peak, MB",
                "spool, MB",
                "reopen, s",
            ],
            rows,
        )
    ]


def _measured(people: int) -> dict[str, Any]:
    """What a process of its own measured."""
    code = f"from benchmarks.presence_live import measure; measure({people})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(people: int) -> None:
    """Remember so many people, take some steps more, and print what that took."""
    definition = StreamDefinition.from_json({**DEFINITION, "name": STREAM})
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".presence-") as folder, Spool(Path(folder) / "s") as spool:
        stream = spool.define(definition, 0)
        before, book, step = _peak(), PresenceBook(spool, stream), 0
        for start in range(0, people, COMING):
            _close(spool, book, step, np.arange(start, min(people, start + COMING), dtype=np.int64))
            step += 1
        for size in OF_A_STEP:
            seconds: list[float] = []
            written: list[int] = []
            for _ in range(MEASURED):
                _checkpoint(Path(folder) / "s")
                known = np.arange(step, people, 2 * people // size, dtype=np.int64)[: size // 2]
                coming = np.concatenate([known, people + step * size + np.arange(size - len(known), dtype=np.int64)])
                used = time.process_time()
                _close(spool, book, step, coming)
                seconds.append(time.process_time() - used)
                written.append((Path(folder) / "s-wal").stat().st_size)
                step += 1
            found[str(size)] = {"seconds": float(np.median(seconds)), "written": float(np.median(written))}
        found["peak"] = _peak() - before
        _checkpoint(Path(folder) / "s")
        found["stored"] = (Path(folder) / "s").stat().st_size
        used = time.process_time()
        again = _opened(spool, stream, step)
        found["reopen"] = time.process_time() - used
        used, content = time.process_time(), BytesIO()
        write_history(content, again)
        whole = time.process_time() - used
        for size in OF_A_STEP:
            found[str(size)] |= {"whole": whole, "whole_bytes": len(content.getvalue())}
    print(json.dumps(found))


def _opened(spool: Spool, stream: SpooledStream, done: int) -> PresenceHistory:
    empty = PresenceHistory(stream.definition.guarantee, stream.key, MEMORY_BYTES, spool.folder)
    return spool.present(stream, done, empty).history


def _close(spool: Spool, book: PresenceBook, step: int, people: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    book.counting(Rows(people * 7919, None, np.zeros(len(people), dtype=np.int64)), step)
    spool.forget({STREAM: step}, 0, {STREAM: book.stored(step)})


def _checkpoint(path: Path) -> None:
    """Let the log of the database begin anew, so that its size is what is written from now on."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
