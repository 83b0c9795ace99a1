"""Streams of histograms for measurements: generated ones with a known pattern, and real ones where their files are."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

from veilstream.errors import BrokenFile
from veilstream.evaluate.datasets import dataset

DATA: Final = Path(
    os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
)


@dataclass(frozen=True, slots=True)
class Workload:
    """Counts, steps × bins; ``shape`` is the public shape of the bins."""

    name: str
    counts: NDArray[np.int64]
    shape: tuple[int, ...]


def census(steps: int, drift: bool, rate: float = 0.5, people: int = 500_000, bins: int = 1152) -> Workload:
    """People who leave and others who come, at ten different speeds in turn.

    Without ``drift`` those who come are drawn from the same population, as in the DSAT paper, so that only chance
    changes the histogram; with it they come from another mixture in each period.
    """
    rng = default_rng(2015)
    skew = np.sort(rng.pareto(1.2, bins) + 0.05)[::-1]
    mixture = rng.permutation(skew) / skew.sum()
    counts = rng.multinomial(people, mixture)
    speeds = rng.permutation(np.linspace(0.0, 2.0, 10))
    series = np.empty((steps, bins), dtype=np.int64)
    for t in range(steps):
        period = t * 10 // steps
        if drift and t and period != (t - 1) * 10 // steps:
            mixture = 0.8 * mixture + 0.2 * rng.permutation(skew) / skew.sum()
        moved = int(np.clip(rng.normal(rate * people / 2 * speeds[period], 316), 0, people))
        if drift:
            moved //= 10
        leaving = rng.multivariate_hypergeometric(counts, moved, method="marginals")
        counts = counts - leaving + rng.multinomial(moved, mixture)
        series[t] = counts
    name = "census, drifting" if drift else "census, stationary"
    return Workload(name, series, (96, bins // 96))


def taxis_generated(steps: int, taxis: int = 110_357, side: int = 10) -> Workload:
    """Taxis on a grid that drift to the centre by day and away from it by night."""
    rng = default_rng(2008)
    centre = np.exp(-((np.mgrid[:side, :side] - side / 2) ** 2).sum(axis=0) / side).ravel() + 0.02
    edge = 1 / centre
    counts = rng.multinomial(taxis, edge / edge.sum())
    series = np.empty((steps, side * side), dtype=np.int64)
    for t in range(steps):
        day = 0.5 - 0.5 * np.cos(2 * np.pi * t / 24)
        wanted = day * centre / centre.sum() + (1 - day) * edge / edge.sum()
        moving = rng.binomial(counts, 0.15 + 0.3 * day)
        counts = counts - moving + rng.multinomial(int(moving.sum()), wanted)
        series[t] = counts
    return Workload("taxis, generated", series, (side, side))


def taxis_real(side: int = 10) -> Workload:
    """T-Drive, one hour by minutes: each taxi counts where it was last seen."""
    fixes = pl.read_parquet(DATA / "tdrive_beijing_2008-02-02_16h.parquet")
    names = fixes.columns
    taxi, when, lon, lat = names[0], names[1], *sorted(names[2:], reverse=True)
    west, east, south, north = 116.2, 116.6, 39.8, 40.05
    inside = fixes.filter(pl.col(lon).is_between(west, east) & pl.col(lat).is_between(south, north))
    start = inside[when].min()
    table = inside.with_columns(
        minute=((pl.col(when) - start).dt.total_minutes()).clip(0, 59),
        cell=((pl.col(lat) - south) / (north - south) * side).cast(pl.Int64).clip(0, side - 1) * side
        + ((pl.col(lon) - west) / (east - west) * side).cast(pl.Int64).clip(0, side - 1),
    ).sort(when)
    latest: dict[int, int] = {}
    series = np.zeros((60, side * side), dtype=np.int64)
    for minute in range(60):
        rows = table.filter(pl.col("minute") == minute)
        latest.update(zip(rows[taxi], rows["cell"], strict=True))
        series[minute] = np.bincount(list(latest.values()), minlength=side * side)
    return Workload("taxis, Beijing", series, (side, side))


def influenza() -> Workload:
    """Weekly cases in ten regions by age."""
    series = dataset("ilinet-regions-long", DATA)[:600]
    return Workload("influenza", series, (series.shape[1],))


def bicycles() -> Workload:
    """Hourly counts of two directions on a bridge."""
    series = dataset("bicycles-hourly", DATA)[20_000:20_800]
    return Workload("bicycles", series, (series.shape[1],))


def requests() -> Workload:
    """Requests per minute at a web site, one bin."""
    return Workload("web requests", dataset("web-requests", DATA)[60_000:60_800], (1,))


def purchases() -> Workload:
    """Purchases per day by price, each customer once a day."""
    series = dataset("purchases", DATA)
    return Workload("purchases", series, (series.shape[1],))


def messages() -> Workload:
    """Messages among students, six hours a step, by the sender's number; each student once a step."""
    series = dataset("messages", DATA)[:600]
    return Workload("messages", series, (series.shape[1],))


GENERATED: Final[tuple[Callable[[], Workload], ...]] = (
    lambda: census(500, drift=False),
    lambda: census(500, drift=True),
    lambda: taxis_generated(500),
)
REAL: Final[tuple[Callable[[], Workload], ...]] = (taxis_real, influenza, bicycles, requests, purchases, messages)


def all_workloads() -> list[Workload]:
    """The generated ones, and those of the real ones whose files are there."""
    found = [make() for make in GENERATED]
    for make in REAL:
        try:
            found.append(make())
        except (BrokenFile, FileNotFoundError):
            continue
    return found
