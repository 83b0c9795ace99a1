"""Real purchases and taxis over time, and what we and Tumult release of them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Rows:
    """One row of each person and step, with its step in a column ``step``, and what is measured of it."""

    about: str
    frame: pl.DataFrame
    user: str
    time: str
    value: str
    calendar: Calendar
    every: str
    low: float
    high: float

    @property
    def parts(self) -> list[NDArray[np.float64]]:
        """The values of every step."""
        return parts_of(self.frame, self.calendar.steps, self.value)


def purchases(every: str) -> pl.DataFrame:
    """One purchase of each customer and step, so that no library leaves anything out, with its step."""
    frame = pl.read_csv(DATA / "cdnow_purchases.csv.gz")
    steps = Calendar(START, END, every).step_of(frame["date"])
    frame = frame.with_columns(step=pl.Series(steps))
    return frame.unique(["customer_id", "step"], keep="first", maintain_order=True)


def purchase_rows(every: str) -> Rows:
    """What customers of a shop spend."""
    about, calendar = "CDNOW, {rows:,} purchases", Calendar(START, END, every)
    return Rows(about, purchases(every), "customer_id", "date", "dollar_value", calendar, every, LOW, HIGH)


def taxi_rows() -> Rows:
    """How far taxis are from the middle of Beijing, in kilometres, minute by minute of one hour."""
    calendar = Calendar("2008-02-02T16:00", "2008-02-02T17:00", "1m")
    frame = pl.read_parquet(DATA / "tdrive_beijing_2008-02-02_16h.parquet").sort("time", "taxi_id")
    north, east = (pl.col("lat") - 39.9087) * 110.57, (pl.col("lon") - 116.3975) * 111.32 * 0.767
    frame = frame.with_columns(km=(north**2 + east**2).sqrt(), step=pl.Series(calendar.step_of(frame["time"])))
    # The file has the next place of every taxi after the hour too.
    frame = frame.filter(pl.col("step").is_between(0, calendar.steps - 1))
    frame = frame.unique(["taxi_id", "step"], keep="first", maintain_order=True)
    about = "T-Drive, {rows:,} places of taxis in kilometres from the middle of Beijing"
    return Rows(about, frame, "taxi_id", "time", "km", calendar, "1m", 0.0, 30.0)


def parts_of(frame: pl.DataFrame, steps: int, value: str = "dollar_value") -> list[NDArray[np.float64]]:
    """The values of every step."""
    groups = {int(step): part[value].to_numpy() for (step,), part in frame.group_by(["step"])}
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
) -> list[Release]:
    """Our releases of purchases at every step; of a customer so many rows count, and ``most`` in a sum."""
    given = Rows("", frame, "customer_id", "date", "dollar_value", Calendar(START, END, every), every, LOW, HIGH)
    return releases_of(given, epsilon, measures, rows, most)


def releases_of(
    given: Rows,
    epsilon: float,
    measures: ValueMeasures,
    rows: int = 1,
    most: Fraction | None = None,
    mechanism: StreamMechanism[Any] | None = None,
) -> list[Release]:
    """Our releases at every step, with secure noise; of a person so many rows count, and ``most`` in a sum."""
    events = read_events(given.frame, user=given.user, time=given.time, by=[given.value])
    promise = Guarantee(epsilon, w=1)
    session = StreamSession(mechanism or STREAMS["uniform"](), promise, measures.parts, SecureNoise())
    with bound(events, Domain({}), given.calendar, measures=measures, counts_per_user=rows, most=most) as held:
        values = [session.step(snapshot, t) for t, snapshot in enumerate(held.snapshots())]
    return [Release("", t, t, value, Fraction(0), Fraction(0)) for t, value in enumerate(values)]
