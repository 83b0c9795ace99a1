"""A tidy table of releases as arrays of bins × steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.release.plot_options import Moment, find_labels
from veilstream.release.plots.labels import bin_names
from veilstream.release.sinks import NOISE_ENDS, OWN_COLUMNS

NICE_SECONDS = tuple(
    int(count * unit)
    for unit, counts in ((60, (1, 2, 5, 10, 15, 30)), (3600, (1, 2, 3, 6, 12)), (86400, (1, 2, 7, 14, 28, 91, 364)))
    for count in counts
)


@dataclass(frozen=True, slots=True)
class Released:
    """Values, ends of intervals and freshness of ``names`` × steps. ``times`` holds when each step begins and, last,
    when the last one ends, in microseconds of UTC or whole numbers; ``zone`` is None for the latter."""

    bins: pl.DataFrame
    names: list[str]
    all_bins: int
    times: NDArray[np.int64]
    zone: str | None
    value: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    fresh: NDArray[np.bool_]
    covers: str = ""
    """What intervals hold: the value before noise or the count; empty where the table does not say."""
    noise_alone: bool = False
    """Whether the table says that the method is biased, and its intervals are of the noise alone."""
    summed: int = 1
    """How many steps one column stands for."""

    @property
    def steps(self) -> int:
        return int(self.value.shape[1])

    def interval_name(self, level: float) -> str:
        """What an interval is called in a legend."""
        if self.noise_alone:
            return f"{level:.0%} interval of the noise alone, not of the count"
        return f"{level:.0%} interval" + (f" of the {self.covers}" if self.covers else "")

    @property
    def near_zero(self) -> str:
        """What is said of values whose interval holds zero."""
        return "are within noise of zero" if self.noise_alone else "cannot be told from zero"

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Released:
        """Some of the bins, in this order."""
        chosen = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            bins=self.bins[chosen.tolist()] if self.bins.width else self.bins,
            names=[self.names[row] for row in chosen],
            value=self.value[chosen],
            low=self.low[chosen],
            high=self.high[chosen],
            fresh=self.fresh[chosen],
        )

    def largest(self, count: int) -> NDArray[np.int64]:
        """The bins of the largest sums, in their own order."""
        order = np.argsort(-np.nansum(self.value, axis=1), kind="stable")[:count]
        return np.sort(order)


def arrange(frame: pl.DataFrame, *, start: Moment | None = None, end: Moment | None = None) -> Released:
    """The arrays of a table with the columns step, time, attributes, value, low, high and fresh.

    ``noise_low`` and ``noise_high`` may stand for low and high.
    """
    noise_alone = not {*NOISE_ENDS}.issubset(frame.columns) and {*NOISE_ENDS.values()}.issubset(frame.columns)
    if noise_alone:
        frame = frame.rename({noise: end for end, noise in NOISE_ENDS.items()})
    attributes = [name for name in frame.columns if name not in OWN_COLUMNS]
    frame = _cut(frame, start, end)
    if frame.is_empty():
        raise InvalidInputError(
            "plot: 0 releases to draw, at least 1 is needed; publish first or widen the range",
            outcome="nothing was drawn",
        )
    bins = frame.select(attributes).unique(maintain_order=True) if attributes else pl.DataFrame()
    steps = frame.select("step", "time").unique("step").sort("step")
    column = np.searchsorted(steps["step"].to_numpy(), frame["step"].to_numpy())
    if attributes:
        row = frame.join(bins.with_row_index("_row"), on=attributes, how="left", maintain_order="left")[
            "_row"
        ].to_numpy()
    else:
        row = np.zeros(len(frame), dtype=np.int64)
    shape = max(1, bins.height), steps.height
    tables = {name: np.full(shape, np.nan) for name in ("value", "low", "high")}
    for name, table in tables.items():
        table[row, column] = frame[name].cast(pl.Float64).to_numpy()
    fresh = np.zeros(shape, dtype=np.bool_)
    fresh[row, column] = frame["fresh"].to_numpy()
    zone, times = _times(steps["time"])
    return Released(
        bins,
        bin_names(bins),
        shape[0],
        _with_end(times),
        zone,
        tables["value"],
        tables["low"],
        tables["high"],
        fresh,
        str(frame["covers"][-1]) if "covers" in frame.columns else "",
        noise_alone,
    )


def choose(released: Released, bins: int | tuple[str, ...] | None, most: int) -> Released:
    """The bins that were asked for, or the largest ``most``."""
    if isinstance(bins, tuple):
        return released.take(find_labels(bins, released.names))
    count = most if bins is None else bins
    return released if count >= len(released.names) else released.take(released.largest(count))


def bucket_length(released: Released, most: int) -> int:
    """How many steps go together so that at most ``most`` columns remain: round numbers of minutes, hours or days."""
    needed = -(-released.steps // most)
    if needed <= 1:
        return 1
    if released.zone is not None:
        seconds = int(np.median(np.diff(released.times))) // 1_000_000
        nice = [length // seconds for length in NICE_SECONDS if seconds and length % seconds == 0]
        fitting = [count for count in nice if count >= needed]
        if fitting:
            return fitting[0]
    power = 10 ** (len(str(needed)) - 1)
    return next(int(count * power) for count in (1, 2, 5, 10) if count * power >= needed)


@dataclass(frozen=True, slots=True)
class Envelope:
    """``Released`` of bucket means, with the lowest and highest value of each bucket.

    The ends of a mean's interval are the means of the ends: right if the noises of a bucket are one and the same
    (repeated values), too wide if they are independent.
    """

    mean: Released
    least: NDArray[np.float64]
    most: NDArray[np.float64]


def envelope(released: Released, length: int) -> Envelope:
    """Every ``length`` steps as one."""
    first = np.arange(0, released.steps, length)
    sizes = np.diff(np.append(first, released.steps))

    def mean(table: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.add.reduceat(table, first, axis=1) / sizes)

    grouped = replace(
        released,
        times=np.append(released.times[first], released.times[-1]),
        value=mean(released.value),
        low=mean(released.low),
        high=mean(released.high),
        fresh=np.logical_or.reduceat(released.fresh, first, axis=1),
        summed=length,
    )
    return Envelope(
        grouped,
        np.minimum.reduceat(released.value, first, axis=1),
        np.maximum.reduceat(released.value, first, axis=1),
    )


def _cut(frame: pl.DataFrame, start: Moment | None, end: Moment | None) -> pl.DataFrame:
    column = frame["time"]
    if start is not None:
        frame = frame.filter(pl.col("time") >= _moment(start, column.dtype, "start"))
    if end is not None:
        frame = frame.filter(pl.col("time") < _moment(end, column.dtype, "end"))
    return frame


def _moment(moment: Moment, dtype: Any, name: str) -> Any:
    try:
        if not isinstance(dtype, pl.Datetime):
            return int(str(moment))
        given = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        if isinstance(given, date) and not isinstance(given, datetime):
            given = datetime(given.year, given.month, given.day)
        if not isinstance(given, datetime):
            raise ValueError
        series = pl.Series([given])
        if dtype.time_zone is None:
            return series.dt.replace_time_zone(None)[0]
        return (
            series.dt.replace_time_zone(dtype.time_zone, ambiguous="earliest")[0]
            if given.tzinfo is None
            else series.dt.convert_time_zone(dtype.time_zone)[0]
        )
    except ValueError:
        wanted = "a date or time such as 2024-01-31" if isinstance(dtype, pl.Datetime) else "a whole number"
        raise InvalidInputError(
            name=name, value=moment, limit=f"{wanted} is needed", outcome="nothing was drawn"
        ) from None


def _times(column: pl.Series) -> tuple[str | None, NDArray[np.int64]]:
    if isinstance(column.dtype, pl.Datetime):
        zone = column.dtype.time_zone or "UTC"
        return zone, column.dt.cast_time_unit("us").to_physical().to_numpy()
    return None, column.cast(pl.Int64).to_numpy()


def _with_end(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps are alike, so the last one is as long as most."""
    length = int(np.median(np.diff(times))) if len(times) > 1 else 1
    return np.append(times, times[-1] + length)
