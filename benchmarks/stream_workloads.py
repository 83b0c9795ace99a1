"""Streams of histograms for measurements: generated ones, and real ones where their files are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

from research.datasets import dataset
from research.workloads import Census, TaxiGrid, as_array
from research.workloads.census import SHAPE, synthetic_population
from veilstream.errors import UnreadableFileError

DATA: Final = Path(
    os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
)
POPULATION: Final = 3_000_000
STEPS: Final = 500
TAXI_MINUTES: Final = 60
"""Nearly all fixes are of one hour; after it taxis stay where they were seen last."""
REAL: Final[dict[str, tuple[str, slice]]] = {
    "influenza": ("ilinet-regions-long", slice(600)),
    "bicycles": ("bicycles-hourly", slice(20_000, 20_800)),
    "web requests": ("web-requests", slice(60_000, 60_800)),
    "purchases": ("purchases", slice(None)),
    "messages": ("messages", slice(600)),
}
"""Name of a data set and which of its steps."""


@dataclass(frozen=True, slots=True)
class CountStream:
    """Counts, steps × bins."""

    name: str
    counts: NDArray[np.int64]


def census(drift: float, rate: float) -> NDArray[np.int64]:
    """The paper's census by age and education alone: 1,152 bins."""
    joint = synthetic_population().reshape(SHAPE).sum(axis=(1, 3, 4, 5))
    people = np.rint(joint * POPULATION).astype(np.int64)
    return as_array(Census(STEPS, rate=rate, drift=drift, population=people, shape=people.shape), seed=2015)


def taxis_generated(taxis: int = 110_357, side: int = 10) -> NDArray[np.int64]:
    """Taxis on a grid that drift to the centre by day and away from it by night."""
    rng = default_rng(2008)
    centre = np.exp(-((np.mgrid[:side, :side] - side / 2) ** 2).sum(axis=0) / side).ravel() + 0.02
    edge = 1 / centre
    counts = rng.multinomial(taxis, edge / edge.sum())
    series = np.empty((STEPS, side * side), dtype=np.int64)
    for t in range(STEPS):
        day = 0.5 - 0.5 * np.cos(2 * np.pi * t / 24)
        wanted = day * centre / centre.sum() + (1 - day) * edge / edge.sum()
        moving = rng.binomial(counts, 0.15 + 0.3 * day)
        counts = counts - moving + rng.multinomial(int(moving.sum()), wanted)
        series[t] = counts
    return series


def all_workloads() -> list[CountStream]:
    """The generated ones, and those of the real ones whose files are there."""
    found = [
        CountStream("census, stationary", census(drift=0, rate=0.5)),
        CountStream("census, drifting", census(drift=0.5, rate=0.05)),
        CountStream("taxis, generated", taxis_generated()),
    ]
    taxis = DATA / "tdrive_beijing_2008-02-02_16h.parquet"
    if taxis.is_file():
        found.append(CountStream("taxis, Beijing", as_array(TaxiGrid(taxis), seed=1, steps=TAXI_MINUTES)))
    for name, (source, steps) in REAL.items():
        try:
            found.append(CountStream(name, dataset(source, DATA)[steps]))
        except UnreadableFileError:
            continue
    return found
