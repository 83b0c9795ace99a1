"""What it costs to remember who was present: in memory, in files under a bound of memory, and in live streams."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.presence_live import live
from benchmarks.presence_streams import KEY
from benchmarks.report import ROOT, Table, progress
from veilstream.data.bounding.choice import Limit, Rows, choose
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_spill import SECTION, record_type
from veilstream.data.bounding.presence_store import load_history, store_history
from veilstream.privacy.guarantee import Guarantee

PEOPLE: Final = 10**7
STEPS: Final = 10
MEGABYTE: Final = 1 << 20
BOUNDS: Final = (2048, 256, 64)
"""Of memory, in MB: the first holds everybody."""
RECORD: Final = ROOT / "build" / "benchmarks" / "presence-history.json"
"""What was measured already: delete it to measure anew."""
PROMISE: Final = Guarantee(1, w=40, presence=3)


def run() -> Sequence[Table]:
    """The tables of the suite."""
    return [*remembered(), *live()]


def remembered() -> list[Table]:
    """The same visits under each bound, every one in a process of its own."""
    rows: list[list[str]] = []
    for bound in BOUNDS:
        found = _recorded(bound)
        rows.append(
            [
                f"{bound:,} MB",
                f"{found['peak'] / MEGABYTE:,.0f}",
                f"{found['memory'] / MEGABYTE:,.0f}",
                f"{found['files'] / MEGABYTE:,.0f}",
                f"{STEPS * PEOPLE // 5 / found['seconds']:,.0f}",
                f"{found['seconds'] / found['choice']:.1f}",
                f"{found['stored'] / MEGABYTE:,.0f}",
                f"{found['store']:.1f}",
                f"{found['load']:.2f}",
            ]
        )
        progress(" | ".join(rows[-1]))
    large, width = 10**8, record_type(5).itemsize
    return [
        Table(
            "Remembering who was present",
            f"{PEOPLE:,} people who each come twice in {STEPS} steps, c = 3: {record_type(3).itemsize} bytes a person. "
            "'peak' is how much the process grew while it counted, with the rows of a step, of which there are "
            f"{PEOPLE // 5:,}; 'table' and 'files' are what it held in the end. The peer is the choice of rows within "
            "a step, which every release needs; all in seconds of the processor. The stored file is what a stream that "
            f"comes day by day takes along; it is used where it lies. By the same arithmetic {large:,} people at c = 5 "
            f"are {large * width / 1e9:.1f} GB on the disk, as much again while runs are merged, and "
            f"{large / SECTION * 16 / 1e6:.1f} MB for where sections begin.",
            [
                "bound",
                "peak, MB",
                "table, MB",
                "files, MB",
                "rows per second",
                "times the choice within a step",
                "stored, MB",
                "store, s",
                "load, s",
            ],
            rows,
        )
    ]


def _recorded(bound: int) -> dict[str, float]:
    """What a process of its own measured under this bound; looked up if it was measured before."""
    known: dict[str, dict[str, float]] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if str(bound) not in known:
        code = f"from benchmarks.presence_history import measure; measure({bound})"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
        known[str(bound)] = json.loads(done.stdout)
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(known), encoding="utf-8")
    return known[str(bound)]


def measure(bound: int) -> None:
    """Count everybody under a bound of memory in MB, and print what that took."""
    history = PresenceHistory(PROMISE, KEY, bound * MEGABYTE)
    before = _peak()
    seconds = 0.0
    for step in range(STEPS):
        rows = _rows(step)
        start = time.process_time()
        history.advance(step)
        history.counted(rows, step)
        seconds += time.process_time() - start
    found = {"seconds": seconds, "peak": _peak() - before, "memory": history.memory}
    found["files"] = len(history) * history.records.itemsize - history.memory
    start = time.process_time()
    choose(_rows(0), 1, Limit(), Key(KEY))
    found["choice"] = (time.process_time() - start) * STEPS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "presence"
        start = time.process_time()
        store_history(path, history)
        found |= {"store": time.process_time() - start, "stored": path.stat().st_size}
        start = time.process_time()
        load_history(path, PresenceHistory(PROMISE, KEY))
        found["load"] = time.process_time() - start
    print(json.dumps(found))


def _rows(step: int) -> Rows:
    """A fifth of the people, the same ones every fifth step."""
    people: NDArray[np.int64] = np.arange(step % 5, PEOPLE, 5, dtype=np.int64) * 7919
    return Rows(people, None, np.zeros(len(people), dtype=np.int64))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
