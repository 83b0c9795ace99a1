"""Streams shaped like those of the paper on retroactive grouping, and streams with one known kind of change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

from research.datasets import dataset
from research.workloads import StationVisits, WebRequests
from veilstream.errors import UnreadableFileError

DATA: Final = Path(
    os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
)
URLS: Final = 88_762
REQUESTS: Final = 1_352_804_107
COPIES: Final = 20
WAVE_SIZES: Final = (6, 8, 10, 12, 15, 18, 22, 27)
WAVE_HALVES: Final = (10, 13, 16, 20, 25, 30, 40, 60)
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """Counts of one unit after the other; ``units`` may be called again for the same ones.

    Every bin stands there ``copies`` times, each with noise of its own: few bins give errors of little meaning.
    """

    name: str
    bins: int
    steps: int
    units: Callable[[], Iterator[Counts]]
    copies: int = 1


def world_cup(steps: int) -> Stream:
    """Requests to a web site: Zipf over the URLs, real totals of 88 days cut into ``steps`` units of equal length.

    Without the file of totals, a made-up series of the same sum takes its place.
    """
    try:
        name, per_minute = "World Cup", dataset("web-requests", DATA)
    except UnreadableFileError:
        day = np.linspace(0, 88, 88 * 24)
        shape = (1 + np.sin(2 * np.pi * day) / 2) * np.exp(-(((day - 60) / 20) ** 2)) + 0.02
        name, per_minute = "World Cup, made-up totals", np.rint(shape / shape.sum() * REQUESTS).astype(np.int64)
    requests = WebRequests.cut(per_minute, steps, URLS)
    return Stream(name, URLS, steps, lambda: requests.snapshots(seed=1998))


def traffic(steps: int) -> Stream:
    """A week of visits to the stations of a city."""
    week = StationVisits(steps)
    stations = week.shape[0]

    def units() -> Iterator[Counts]:
        return (np.tile(unit, COPIES) for unit in week.snapshots(seed=2012))

    return Stream("Traffic", stations * COPIES, steps, units, COPIES)


def square_waves(epsilon: float, steps: int = 528, bins: int = 500) -> dict[tuple[int, int], Counts]:
    """Bins that go up and down by so many noise scales 1/ε, every so many units: calm, and then wrong at once."""
    t = np.arange(steps)[:, None]
    return {
        (size, every): np.where((t // every) % 2 == 1, round(size / epsilon), np.zeros(bins, np.int64))
        for size in WAVE_SIZES
        for every in WAVE_HALVES
    }


def changes(epsilon: float, steps: int = 528, bins: int = 1000) -> dict[str, Counts]:
    """Bins that change in one way each, in sizes relative to the noise scale 1/ε."""
    rng = default_rng(2015)
    unit = 1 / epsilon
    t = np.arange(steps)[:, None]
    found: dict[str, Counts] = {"constant": np.full((steps, bins), 100)}
    for mean in (0.1, 5.0, 500.0):
        found[f"Poisson of mean {mean:g}"] = rng.poisson(mean, (steps, bins))
    for size in (0.1, 1, 10):
        walk = np.cumsum(rng.normal(0, size * unit, (steps, bins)), axis=0)
        found[f"random walk of {size:g}/ε"] = np.rint(np.abs(walk + 5000 * unit)).astype(np.int64)
    for size in (3, 10, 30, 1000):
        for every in (20, 200):
            level = np.cumsum(rng.random((steps, bins)) < 1 / every, axis=0) % 2
            found[f"jumps of {size}/ε, every {every} units"] = np.rint(level * size * unit).astype(np.int64)
    for size in (10, 15):
        high = np.rint(size * unit).astype(np.int64)
        found[f"up and down by {size}/ε, every 30 units"] = np.where((t // 30) % 2 == 1, high, np.zeros(bins, np.int64))
    for size in (3, 30):
        wave = 1.2 + np.sin(2 * np.pi * (t / 72 + rng.random(bins)))
        found[f"waves of {size}/ε, period 72"] = np.rint(size * unit * wave).astype(np.int64)
    found["0 and 100/ε in turn"] = np.rint((t % 2) * 100 * unit + np.zeros((steps, bins))).astype(np.int64)
    return found
