"""From a column of times, however written, to instants counted in microseconds of UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import refuses
from veilstream.data.axes import as_integers
from veilstream.data.time_formats import RECOGNISED, epoch_unit, first_fit, from_epoch, unreadable_times
from veilstream.errors import InvalidInputError

OFFSET = r":\d{2}(?:\.\d+)?\s?(Z|z|[+-]\d{2}:?\d{2})$"


NANOSECONDS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "d": 86_400_000_000_000}
YEARS: Final = tuple(
    int(np.datetime64(day, "s").astype(np.int64)) * 1_000_000_000 for day in ("0001-01-02", "9999-12-30")
)
"""The first and last instants that have a date in every zone, in nanoseconds since 1970."""


class Clock(StrEnum):
    """How a column states its zone; one column must not mix two of these."""

    NAIVE = "without a zone"
    AWARE = "with a zone or offset"
    NUMBER = "whole numbers"


@dataclass(frozen=True, slots=True)
class Instants:
    """Instants in microseconds (or integer times), where they are valid, and how the column wrote them.

    ``clock`` is None when every time is missing.
    """

    ticks: NDArray[np.int64] = field(repr=False)
    present: NDArray[np.bool_] = field(repr=False)
    clock: Clock | None


@refuses("time column", "its times cannot be read, or lie outside the years 1 to 9999")
def instants(column: pl.Series, zone: str) -> Instants:
    """Instants of a column of dates, datetimes, text (ISO 8601 and its like), or seconds since 1970.

    Naive times are taken in ``zone``: where clocks go back, the earlier of the two instants is meant. Text
    with offsets is brought to UTC row by row, so two offsets in one column are two ways to write the same
    instants.

    >>> instants(pl.Series(["2024-01-01T01:00:00+01:00", "2023-12-31T19:00:00-05:00"]), "UTC").ticks
    array([1704067200000000, 1704067200000000])
    """
    if column.dtype == pl.Null:
        return Instants(np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), None)
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        return _from_text(column.cast(pl.String), zone)
    if column.dtype == pl.Date:
        return _finish(column, _localise(_dated(column).cast(pl.Datetime("us")), zone), Clock.NAIVE)
    if isinstance(column.dtype, pl.Datetime):
        dated = _dated(column).dt.cast_time_unit("us")
        if column.dtype.time_zone is not None:
            return _finish(column, dated.dt.convert_time_zone("UTC"), Clock.AWARE)
        return _finish(column, _localise(dated, zone), Clock.NAIVE)
    if column.dtype.is_integer():
        unit = epoch_unit(column.cast(pl.String))
        if unit is not None:
            return _finish(column, from_epoch(column, unit), Clock.AWARE)
    raise unreadable_times(column, len(column))


@refuses("time column", "whole numbers are needed for a calendar of whole numbers")
def numbers(column: pl.Series) -> Instants:
    """Integer times, from an integer column or text of integers.

    >>> numbers(pl.Series(["3", None])).present
    array([ True, False])
    """
    if column.dtype == pl.Null:
        return Instants(np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), None)
    if not (column.dtype.is_numeric() or column.dtype == pl.String):
        raise InvalidInputError(
            f"time column '{column.name}' of type {column.dtype}: whole numbers are needed for a calendar of integers"
        )
    present = column.is_not_null().to_numpy()
    if column.dtype.is_float():
        present &= ~column.fill_null(0.0).is_nan().to_numpy()
    ticks, whole = as_integers(column)
    if (present & ~whole).any():
        raise InvalidInputError(
            f"time column '{column.name}': a time is not a whole number, which steps without a unit need",
            name=column.name,
            outcome="nothing was read",
            next_step="give --every a unit (1h, 1d) if times are dates",
        )
    return Instants(ticks, present, Clock.NUMBER if present.any() else None)


def _from_text(column: pl.Series, zone: str) -> Instants:
    text = column.str.strip_chars()
    offsets = text.str.extract(OFFSET)
    with_offset, filled = len(text) - offsets.null_count(), len(text) - text.null_count()
    if 0 < with_offset < filled:
        raise InvalidInputError(
            f"time column '{column.name}': some times carry an offset and some do not, all or none must",
            name=column.name,
            next_step="complete the offsets, or put the rows without one into a file of their own",
            operator_note=f"{with_offset} of {filled} times in this batch carry an offset",
        )
    if with_offset == 0:
        unit = epoch_unit(text)
        if unit is not None:
            return _finish(column, from_epoch(text, unit), Clock.AWARE)
        return _finish(column, _localise(_parse(text), zone), Clock.NAIVE)
    local = _parse(text.str.replace(r"\s?(?:Z|z|[+-]\d{2}:?\d{2})$", ""))
    digits = offsets.str.replace_all(r"[Zz]", "+0000").str.replace(":", "", literal=True)
    minutes = digits.str.slice(1, 2).cast(pl.Int64) * 60 + digits.str.slice(3, 2).cast(pl.Int64)
    east = minutes * digits.str.starts_with("-").replace_strict({True: -1, False: 1}, return_dtype=pl.Int64)
    return _finish(column, local - (east * 60_000_000).cast(pl.Duration("us")), Clock.AWARE)


def _dated(column: pl.Series) -> pl.Series:
    """Without the times that no calendar has: Polars holds numbers far beyond them, and panics where it shows one."""
    unit = "d" if column.dtype == pl.Date else getattr(column.dtype, "time_unit", "us")
    # Nanoseconds do not reach the ends of these years.
    first, last = (max(-(1 << 63), min(tick // NANOSECONDS[unit], (1 << 63) - 1)) for tick in YEARS)
    ticks = column.to_physical()
    return column.set((ticks < first) | (ticks > last), None)


def _parse(text: pl.Series) -> pl.Series:
    return first_fit(text.str.replace("T", " ", literal=True), RECOGNISED)


def _localise(local: pl.Series, zone: str) -> pl.Series:
    if zone == "UTC":
        return local
    zoned = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return zoned.dt.convert_time_zone("UTC")


def _finish(column: pl.Series, utc: pl.Series, clock: Clock) -> Instants:
    unreadable = utc.null_count() - column.null_count()
    if unreadable:
        raise unreadable_times(column, unreadable)
    ticks = utc.to_physical()
    if ticks.null_count() == 0:
        return Instants(ticks.to_numpy(), np.ones(len(ticks), np.bool_), clock if len(ticks) else None)
    present = ticks.is_not_null().to_numpy()
    return Instants(ticks.fill_null(0).to_numpy(), present, clock if present.any() else None)
