"""Real purchases over time, and our releases of what is measured of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.presence_streams import DATA
from veilstream import STREAMS, Guarantee
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.measures import ValueMeasures
from veilstream.mechanisms.session import StreamSession
from veilstream.noise import SecureNoise
from veilstream.values.release import Release

LOW, HIGH = 0.0, 100.0
START, END = "1997-01-01", "1998-07-01"
EPSILONS: Final = (1.0, 0.1)


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


def releases(
    frame: pl.DataFrame,
    every: str,
    epsilon: float,
    measures: ValueMeasures,
    rows: int = 1,
    most: Fraction | None = None,
) -> list[Release]:
    """Our releases at every step, with secure noise; of a customer so many rows count, and ``most`` in a sum."""
    calendar, guarantee = Calendar(START, END, every), Guarantee(epsilon, w=1)
    events = read_events(frame, user="customer_id", time="date", by=["dollar_value"])
    session = StreamSession(STREAMS["uniform"](), guarantee, measures.parts, SecureNoise())
    with bound(events, Domain({}), calendar, measures=measures, counts_per_user=rows, most=most) as held:
        values = [session.step(snapshot, t) for t, snapshot in enumerate(held.snapshots())]
    return [Release("", t, t, value, Fraction(0), Fraction(0)) for t, value in enumerate(values)]
