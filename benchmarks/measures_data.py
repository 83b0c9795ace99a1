"""Real purchases over time, and what we and Tumult release of them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.presence_streams import DATA
from benchmarks.report import ROOT
from veilstream import STREAMS, Guarantee
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.measures import ValueMeasures
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.session import StreamSession
from veilstream.noise import SecureNoise
from veilstream.values.release import Release

LOW, HIGH = 0.0, 100.0
START, END = "1997-01-01", "1998-07-01"
EPSILONS: Final = (1.0, 0.1)
RECORDS: Final = ROOT / "build" / "measures-benchmark"
"""What Tumult found, which takes minutes and does not depend on our code."""


def purchases(every: str) -> pl.DataFrame:
    """One purchase of each customer and step, so that no library leaves anything out, with its step."""
    frame = pl.read_csv(DATA / "cdnow_purchases.csv.gz")
    steps = Calendar(START, END, every).step_of(frame["date"])
    frame = frame.with_columns(step=pl.Series(steps))
    return frame.unique(["customer_id", "step"], keep="first", maintain_order=True)


def parts_of(frame: pl.DataFrame, steps: int) -> list[NDArray[np.float64]]:
    """The values of every step."""
    groups = {int(step): part["dollar_value"].to_numpy() for (step,), part in frame.group_by(["step"])}
    return [np.asarray(groups.get(step, np.zeros(0)), dtype=np.float64) for step in range(steps)]


@lru_cache(maxsize=8)
def tumult(every: str, epsilon: float) -> dict[str, Any] | None:
    """What Tumult Analytics finds in one run; None without the interpreter that ``VEILSTREAM_TUMULT`` names."""
    record = RECORDS / f"tumult-{every}-{epsilon:g}.json"
    if record.exists():
        known: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        return known
    interpreter = os.environ.get("VEILSTREAM_TUMULT")
    if interpreter is None or every != "1mo":
        return None
    with tempfile.TemporaryDirectory() as folder:
        path, steps = Path(folder) / "rows.csv", Calendar(START, END, every).steps
        purchases(every).select("step", pl.col("dollar_value").alias("value")).write_csv(path)
        worker = str(Path(__file__).with_name("tumult_worker.py"))
        command = [interpreter, worker, str(path), str(steps), str(epsilon)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    RECORDS.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(found), encoding="utf-8")
    return found


def releases(
    frame: pl.DataFrame,
    every: str,
    epsilon: float,
    measures: ValueMeasures,
    rows: int = 1,
    most: Fraction | None = None,
    mechanism: StreamMechanism[Any] | None = None,
) -> list[Release]:
    """Our releases at every step, with secure noise; of a customer so many rows count, and ``most`` in a sum."""
    calendar, guarantee = Calendar(START, END, every), Guarantee(epsilon, w=1)
    events = read_events(frame, user="customer_id", time="date", by=["dollar_value"])
    session = StreamSession(mechanism or STREAMS["uniform"](), guarantee, measures.parts, SecureNoise())
    with bound(events, Domain({}), calendar, measures=measures, counts_per_user=rows, most=most) as held:
        values = [session.step(snapshot, t) for t, snapshot in enumerate(held.snapshots())]
    return [Release("", t, t, value, Fraction(0), Fraction(0)) for t, value in enumerate(values)]
