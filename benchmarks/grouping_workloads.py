"""Streams shaped like those of the paper on retroactive grouping, and streams with one known kind of change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

DATA: Final = Path(
    os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
)
URLS: Final = 88_762
STATIONS: Final = 342
VISITS: Final = 8_107_643
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """Counts of one unit after the other; ``units`` may be called again for the same ones."""

    name: str
    bins: int
    steps: int
    units: Callable[[], Iterator[Counts]]


def world_cup(steps: int, urls: int = URLS) -> Stream:
    """Requests to a web site: Zipf over the URLs, real totals of 88 days cut into ``steps`` units of equal length.

    Without the file of totals, a made-up series of the same sum takes its place.
    """
    totals = _requests(steps)
    popularity = 1 / np.arange(1, urls + 1)
    popularity /= popularity.sum()

    def units() -> Iterator[Counts]:
        rng = default_rng(1998)
        for total in totals:
            yield rng.multinomial(int(total), popularity)

    return Stream("World Cup" if _file().exists() else "World Cup, made-up totals", urls, steps, units)


def _file() -> Path:
    return DATA / "worldcup98_requests_per_minute.csv.gz"


def _requests(steps: int) -> Counts:
    if not _file().exists():
        t = np.linspace(0, 88, steps)
        shape = (1 + np.sin(2 * np.pi * t) / 2) * np.exp(-(((t - 60) / 20) ** 2)) + 0.02
        made_up: Counts = np.rint(shape / shape.sum() * 1_352_804_107).astype(np.int64)
        return made_up
    table = pl.read_csv(_file(), try_parse_dates=True)
    minute = table["minute"].dt.epoch("s").to_numpy() // 60
    unit = (minute - minute[0]) * steps // (minute[-1] - minute[0] + 1)
    totals = np.zeros(steps, dtype=np.int64)
    np.add.at(totals, unit, table["requests"].to_numpy())
    return totals


def traffic(steps: int) -> Stream:
    """A week of visits to stations of a city: two rush hours on five days, quiet nights, 8,107,643 visits in all."""
    hour = np.arange(steps) * 168 / steps
    day, clock = hour // 24, hour % 24
    base = 0.03 + 0.5 * np.exp(-(((clock - 14) / 5) ** 2))
    work = (day < 5)[:, None]
    rng = default_rng(2012)
    morning = rng.beta(2, 2, STATIONS)
    peaks = [np.exp(-(((clock - centre) / 1.2) ** 2)) for centre in (8, 17.5)]
    rush = peaks[0][:, None] * morning + peaks[1][:, None] * (1 - morning)
    popularity = rng.lognormal(0, 1, STATIONS)
    rates = (base[:, None] * np.where(work, 1, 0.6) + 3 * rush * np.where(work, 1, 0.15)) * popularity
    counts = rng.multinomial(VISITS, (rates / rates.sum()).ravel()).reshape(steps, STATIONS)
    return Stream("Traffic", STATIONS, steps, lambda: iter(counts))


def changes(epsilon: float, steps: int = 528, bins: int = 60) -> dict[str, Counts]:
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
    for size in (3, 30):
        wave = 1.2 + np.sin(2 * np.pi * (t / 72 + rng.random(bins)))
        found[f"waves of {size}/ε, period 72"] = np.rint(size * unit * wave).astype(np.int64)
    found["0 and 100/ε in turn"] = np.rint((t % 2) * 100 * unit + np.zeros((steps, bins))).astype(np.int64)
    return found
