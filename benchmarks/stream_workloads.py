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
    table = pl.read_csv(DATA / "ilinet_hhs_regions_weekly.csv.gz", infer_schema_length=None, null_values=["NA", "X"])
    ages = [name for name in ("age_0_4", "age_5_24", "age_25_49", "age_50_64", "age_65") if name in table.columns]
    weeks = table.filter(pl.col("year") >= 2010).select(
        "year", "week", "region", *(pl.col(a).cast(pl.Float64, strict=False).fill_null(0) for a in ages)
    )
    wide = weeks.pivot(on="region", index=["year", "week"], values=ages, aggregate_function="sum").sort("year", "week")
    series = wide.drop("year", "week").fill_null(0).to_numpy().astype(np.int64)
    return Workload("influenza", series[:600], (series.shape[1],))


def bicycles() -> Workload:
    """Hourly counts of two directions on a bridge, eight in a row as one histogram of the recent hours' sums."""
    table = pl.read_csv(DATA / "seattle_fremont_bridge_bikes_hourly.csv.gz")
    both = table.select(pl.exclude(table.columns[0]).cast(pl.Float64).fill_null(0).fill_nan(0)).to_numpy()
    return Workload("bicycles", both[20_000:20_800].astype(np.int64), (both.shape[1],))


def requests() -> Workload:
    """Requests per minute at a web site, one bin."""
    table = pl.read_csv(DATA / "worldcup98_requests_per_minute.csv.gz")
    series = table[table.columns[1]].to_numpy()[60_000:60_800]
    return Workload("web requests", series.astype(np.int64)[:, None], (1,))


def purchases() -> Workload:
    """Purchases per day by price, each customer once a day."""
    table = pl.read_csv(DATA / "cdnow_purchases.csv.gz", try_parse_dates=True)
    customer, day, value = table.columns[0], table.columns[1], table.columns[3]
    first = table.unique(subset=[customer, day], keep="first", maintain_order=True)
    step = (first[day] - first[day].min()).dt.total_days().to_numpy()
    band = np.searchsorted([10, 15, 20, 25, 30, 40, 60, 90, 150], first[value].to_numpy())
    series = np.zeros((int(step.max()) + 1, 10), dtype=np.int64)
    np.add.at(series, (step, band), 1)
    return Workload("purchases", series, (10,))


def messages() -> Workload:
    """Messages among students, six hours a step, by the sender's number; each student once a step."""
    table = pl.read_csv(DATA / "collegemsg_messages.csv.gz")
    src, when = table.columns[0], table.columns[2]
    step = ((table[when] - table[when].min()) // 21_600).to_numpy()
    pairs = np.unique(np.stack([step, table[src].to_numpy()], axis=1), axis=0)
    series = np.zeros((int(pairs[:, 0].max()) + 1, 20), dtype=np.int64)
    np.add.at(series, (pairs[:, 0], pairs[:, 1] // 100), 1)
    return Workload("messages", series[:600], (20,))


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
        except FileNotFoundError:
            continue
    return found
