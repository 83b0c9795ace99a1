"""From a column of times, however written, to instants counted in microseconds of UTC."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import refuses
from veilstream.data.columns import TEXTUAL, as_integers, as_text, pieces
from veilstream.data.time_formats import RECOGNISED, first_fit, from_epoch_of_our_time, unreadable_times
from veilstream.errors import InvalidInputError

OFFSET = r":\d{2}(?:\.\d+)?\s?(Z|z|[+-]\d{2}:?\d{2})$"


NANOSECONDS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "d": 86_400_000_000_000}
YEARS: Final = tuple(
    int(np.datetime64(day, "s").astype(np.int64)) * 1_000_000_000 for day in ("0001-01-02", "9999-12-30")
)
"""The first and last instants that have a date in every zone, in nanoseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Instants:
    """Instants in microseconds (or integer times), where there are any, and where a time is written that is none."""

    ticks: NDArray[np.int64] = field(repr=False)
    present: NDArray[np.bool_] = field(repr=False)
    unreadable: NDArray[np.bool_] | None = field(default=None, repr=False)

    def require_readable(self, column: pl.Series) -> None:
        """Refuse the column they were read from if a time of it is none."""
        if self.unreadable is not None and self.unreadable.any():
            raise unreadable_times(column, int(self.unreadable.sum()))


@refuses("time column", "its times cannot be read, or lie outside the years 1 to 9999")
def instants(column: pl.Series, zone: str) -> Instants:
    """Instants of a column of dates, datetimes, text (ISO 8601 and its like), or seconds since 1970.

    Each time is read by itself. Naive times are taken in ``zone``: where clocks go back, the earlier of the two
    instants is meant.

    >>> instants(pl.Series(["2024-01-01T01:00:00+01:00", "2023-12-31T19:00:00-05:00"]), "UTC").ticks
    array([1704067200000000, 1704067200000000])
    """
    if isinstance(column.dtype, pl.Object):
        return _of_objects(column, lambda piece: instants(piece, zone))
    if isinstance(column.dtype, pl.Date):
        return _finish(column, _localise(_dated(column).cast(pl.Datetime("us")), zone))
    if isinstance(column.dtype, pl.Datetime):
        dated = _dated(column).dt.cast_time_unit("us")
        aware = column.dtype.time_zone is not None
        return _finish(column, dated.dt.convert_time_zone("UTC") if aware else _localise(dated, zone))
    if column.dtype.is_temporal() or column.dtype.is_nested():
        raise unreadable_times(column, len(column))
    if isinstance(column.dtype, (*TEXTUAL, pl.Binary)):
        return _finish(column, _from_text(as_text(column).str.strip_chars(), zone))
    whole, valid = as_integers(column)
    known = column.fill_nan(None) if column.dtype.is_float() else column
    return _finish(known, from_epoch_of_our_time(pl.Series(whole).set(pl.Series(~valid), None)))


@refuses("time column", "whole numbers are needed for a calendar of whole numbers")
def numbers(column: pl.Series) -> Instants:
    """Integer times, from an integer column or text of integers.

    >>> numbers(pl.Series(["3", None])).present
    array([ True, False])
    """
    if isinstance(column.dtype, pl.Object):
        return _of_objects(column, numbers)
    if column.dtype.is_temporal() or column.dtype.is_nested():
        raise InvalidInputError(
            f"time column '{column.name}' of type {column.dtype}: whole numbers are needed for a calendar of integers"
        )
    ticks, whole = as_integers(column)
    known = column.fill_nan(None) if column.dtype.is_float() else column
    return Instants(ticks, whole, known.is_not_null().to_numpy() & ~whole)


def _of_objects(column: pl.Series, read: Callable[[pl.Series], Instants]) -> Instants:
    """The times of Python objects, each by its own type."""
    ticks, present = np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    unreadable = np.ones(len(column), np.bool_)
    for rows, piece in pieces(column):
        if isinstance(piece.dtype, pl.Datetime) and read is numbers:
            continue
        found = read(piece)
        ticks[rows], present[rows] = found.ticks, found.present
        unreadable[rows] = False if found.unreadable is None else found.unreadable
    return Instants(ticks, present, unreadable)


def _from_text(text: pl.Series, zone: str) -> pl.Series:
    """Each text as an instant of UTC, null where it is none."""
    offsets = text.str.extract(OFFSET)
    aware = offsets.is_not_null()
    if not aware.any():
        local = _localise(_parse(text), zone)
        return local.fill_null(_epochs(text, local))
    bare = text.str.replace(r"\s?(?:Z|z|[+-]\d{2}:?\d{2})$", "")
    local = _parse(bare.zip_with(aware, text))
    digits = offsets.str.replace_all(r"[Zz]", "+0000").str.replace(":", "", literal=True)
    minutes = digits.str.slice(1, 2).cast(pl.Int64) * 60 + digits.str.slice(3, 2).cast(pl.Int64)
    east = minutes * digits.str.starts_with("-").replace_strict({True: -1, False: 1}, return_dtype=pl.Int64)
    instant = (local - (east * 60_000_000).cast(pl.Duration("us"))).dt.replace_time_zone("UTC")
    known = instant.zip_with(aware, _localise(local, zone))
    return known.fill_null(_epochs(text, known))


def _epochs(text: pl.Series, known: pl.Series) -> pl.Series:
    """The instants of what is no date but a whole number."""
    left = known.is_null() & text.is_not_null()
    if not left.any():
        return known
    return from_epoch_of_our_time(
        text.set(left.not_(), None).str.extract(r"^(\d+)(?:\.0*)?$").cast(pl.Int64, strict=False)
    )


def _dated(column: pl.Series) -> pl.Series:
    """Without the times that no calendar has: Polars holds numbers far beyond them, and panics where it shows one."""
    unit = "d" if isinstance(column.dtype, pl.Date) else getattr(column.dtype, "time_unit", "us")
    # Nanoseconds do not reach the ends of these years.
    first, last = (max(-(1 << 63), min(tick // NANOSECONDS[unit], (1 << 63) - 1)) for tick in YEARS)
    ticks = column.to_physical()
    return column.set(((ticks < first) | (ticks > last)).fill_null(False), None)


def _parse(text: pl.Series) -> pl.Series:
    return first_fit(text.str.replace("T", " ", literal=True), RECOGNISED)


def _localise(local: pl.Series, zone: str) -> pl.Series:
    zoned = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return zoned.dt.convert_time_zone("UTC")


def _finish(column: pl.Series, utc: pl.Series) -> Instants:
    ticks = utc.to_physical()
    if ticks.null_count() == 0:
        return Instants(ticks.to_numpy(), np.ones(len(ticks), np.bool_))
    present = ticks.is_not_null().to_numpy()
    return Instants(ticks.fill_null(0).to_numpy(), present, ~present & column.is_not_null().to_numpy())
