"""Real and made streams for the model-based release: half of the real ones were tuned on, half were left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import polars as pl
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

from benchmarks.stream_workloads import DATA
from research.datasets import dataset

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """Counts, steps × bins, and the periods that its public calendar suggests."""

    name: str
    counts: Counts
    periods: tuple[int, ...] = ()


def _csv(name: str) -> pl.DataFrame:
    return pl.read_csv(DATA / name, infer_schema_length=None, null_values=["NA", "X"])


def _columns(table: pl.DataFrame, names: list[str]) -> Counts:
    numbers = table.select(pl.col(name).cast(pl.Float64).fill_nan(0).fill_null(0) for name in names).to_numpy()
    counts: Counts = np.rint(numbers).astype(np.int64)
    return counts


def _districts() -> Counts:
    table = _csv("flu_bavaria_bw_districts_weekly.csv.gz")
    return _columns(table, table.columns[1:])


def _unemployed() -> Counts:
    table = _csv("fred_unemployment_levels_monthly.csv.gz")
    whole = [name for name in table.columns[1:] if table[name].null_count() == 0 and not table[name].is_null().any()]
    return _columns(table, whole)


def _ages() -> Counts:
    table = _csv("ilinet_national_weekly.csv.gz")
    return _columns(table.tail(700), ["age_0_4", "age_5_24", "age_65"])


def _teenagers() -> Counts:
    table = _csv("us_unemployment_teen_sex_1948_1981.csv.gz")
    return _columns(table, [name for name in table.columns if name != "month"])


def _hourly_requests() -> Counts:
    minutes = dataset("web-requests", DATA)[: 60 * 24 * 35, 0]
    hours: Counts = minutes.reshape(-1, 60).sum(axis=1)[:, None]
    return hours


def _searches() -> Counts:
    table = _csv("dpbench_1d_histograms.csv.gz")
    name = next(name for name in table.columns if "SEARCH" in name.upper())
    return _columns(table, [name])[1000:2000]


def _recipients() -> Counts:
    table = _csv("collegemsg_messages.csv.gz")
    when, recipient = table[table.columns[2]].to_numpy(), table[table.columns[1]].to_numpy()
    day = (when - when.min()) // 86_400
    pairs = np.unique(np.stack([day, recipient], axis=1), axis=0)
    counts = np.zeros((int(day.max()) + 1, 8), dtype=np.int64)
    np.add.at(counts, (pairs[:, 0], pairs[:, 1] * 8 // 1900), 1)
    return counts


def _places() -> Counts:
    """Geolife users per hour of half a month, on a coarse grid of Beijing."""
    table = pl.read_parquet(DATA / "geolife_1min_182users.parquet")
    names = table.columns
    time = next(name for name in names if "time" in name or "ts" in name or "minute" in name)
    rows = table.filter(pl.col("lat").is_between(39.8, 40.1) & pl.col("lon").is_between(116.2, 116.5))
    stamps = rows[time].cast(pl.Datetime("us")).dt.epoch("s").to_numpy() // 3600
    first = int(np.quantile(stamps, 0.3))
    keep = (stamps >= first) & (stamps < first + 800)
    cell = np.floor((rows["lat"].to_numpy() - 39.8) / 0.05).astype(int) * 6
    cell += np.floor((rows["lon"].to_numpy() - 116.2) / 0.05).astype(int)
    triples = np.unique(
        np.stack([stamps - first, np.clip(cell, 0, 35), rows["user_id"].to_numpy().astype(int)], axis=1)[keep], axis=0
    )
    counts = np.zeros((800, 36), dtype=np.int64)
    np.add.at(counts, (triples[:, 0], triples[:, 1]), 1)
    return counts


TUNED: Final[dict[str, tuple[Callable[[], Counts], tuple[int, ...]]]] = {
    "influenza by region and age": (lambda: dataset("ilinet-regions-long", DATA)[:600], (52,)),
    "bicycles per hour": (lambda: dataset("bicycles-hourly", DATA)[20_000:20_800], (24, 168)),
    "web requests per minute": (lambda: dataset("web-requests", DATA)[60_000:60_800], ()),
    "purchases by price": (lambda: dataset("purchases", DATA), (7,)),
    "messages by sender": (lambda: dataset("messages", DATA)[:600], (4, 28)),
    "vehicles per 5 minutes": (lambda: dataset("vehicles", DATA)[:800], (288,)),
    "unemployed": (lambda: dataset("unemployment", DATA), (12,)),
    "influenza by district": (_districts, (52,)),
    "searches for a name": (_searches, ()),
}
"""Name -> how to read it and the periods of its calendar: mechanisms were chosen by looking at these."""
UNTOUCHED: Final[dict[str, tuple[Callable[[], Counts], tuple[int, ...]]]] = {
    "bicycles per day": (lambda: dataset("bicycles-daily", DATA)[:800], (7,)),
    "influenza by age": (_ages, (52,)),
    "unemployed by kind": (_unemployed, (12,)),
    "unemployed teenagers": (_teenagers, (12,)),
    "web requests per hour": (_hourly_requests, (24, 168)),
    "messages by recipient": (_recipients, (7,)),
    "people by place": (_places, (24, 168)),
}
"""Streams on which nothing was chosen."""


@cache
def real(name: str) -> Stream:
    """A stream by its name."""
    read, periods = (TUNED | UNTOUCHED)[name]
    return Stream(name, read(), periods)


def _walk(moves: NDArray[np.float64]) -> Counts:
    """Bins of 5 that jump to some thousands and walk by hundreds from there where ``moves`` is one."""
    steps = moves[:, None] * default_rng(22).normal(0, 300, (len(moves), 6))
    counts: Counts = np.abs(5 + 3000 * moves[:, None] + np.cumsum(steps, axis=0)).astype(np.int64)
    return counts


def stress(steps: int = 400) -> list[Stream]:
    """Streams that punish a schedule: what was quiet moves at once."""
    rng = default_rng(21)
    t = np.arange(steps)
    many = (steps, 20)

    def poisson(mean: NDArray[np.float64]) -> Counts:
        return rng.poisson(np.broadcast_to(mean, many)).astype(np.int64)

    def column(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(x, dtype=np.float64)[:, None]

    outbreak = np.where(t < 250, 0, 2000 * np.exp(-0.5 * ((t - 300) / 20.0) ** 2))
    spike = np.where(t % 40 == 17, 3000, 50)
    spikes = np.where(rng.random(steps) < 0.02, 5000, 100)
    return [
        Stream("outbreak from zero", poisson(column(outbreak))),
        Stream("short outbreak", poisson(column(np.where((t > 250) & (t < 262), 800, 0)))),
        Stream("shift from 100 to 5000", poisson(column(np.where(t < 230, 100, 5000)))),
        Stream("alternating", poisson(column(np.where(t % 2 == 0, 1000, 0)))),
        Stream("spikes", poisson(column(spikes))),
        Stream("a spike per window", poisson(column(spike))),
        Stream("all zero", np.zeros(many, dtype=np.int64)),
        Stream("Poisson 3", poisson(np.array([[3.0]]))),
        Stream("constant 200", np.full(many, 200, dtype=np.int64)),
        Stream("random walk", np.maximum(np.cumsum(rng.normal(0, 60, (steps, 1)), axis=0) + 3000, 0).astype(np.int64)),
        Stream(
            "nothing, then alternating", np.tile(np.where((t[:120] > 20) & (t[:120] % 2 == 0), 1000, 0)[:, None], 20)
        ),
        Stream("little, then a walk", _walk(np.where(t[:120] < 15, 0.0, 1.0))),
        Stream("one window", rng.poisson(400, (40, 5)).astype(np.int64)),
        Stream("three windows, moving", np.rint(500 + 300 * np.sin(np.arange(120) / 5))[:, None].astype(np.int64)),
    ]
