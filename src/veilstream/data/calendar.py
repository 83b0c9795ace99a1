"""The public steps of time."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import is_a, refuses, with_checked_arguments
from veilstream.data.columns import EPOCH, ROUNDED
from veilstream.data.instants import Instants, instants, numbers
from veilstream.errors import InvalidInputError
from veilstream.privacy.durations import DAYS, MICROSECONDS, MONTHS, parse_duration
from veilstream.values.origin import StepTime

OUTSIDE: Final = -1
"""The step of a time before the start or from the end on."""
MISSING: Final = -2
"""The step of a null time."""
MAX_STEPS: Final = 10_000_000
LARGEST_TIME: Final = 1 << 62
LONGEST_STEP: Final = 10_000 * 366 * MICROSECONDS["d"]

Moment: TypeAlias = datetime | date | str | int
YEAR_AND_MONTH: Final = re.compile(r"\d{4}-\d{2}")


@with_checked_arguments
@dataclass(frozen=True)
class Calendar:
    """Steps of length ``every`` from a public ``start`` (included) to a public ``end`` (excluded).

    Step i is [start + i·every, start + (i+1)·every), cut at ``end``. Steps follow the calendar, never which
    times occur, so an hour without events is a step like any other. ``every`` is an integer for integer
    times, else a number with a unit: us, ms, s, m, h, d, w, mo, q, y. Days and longer follow the local
    calendar of ``zone``, so that a day on which clocks change has 23 or 25 hours. Times without a zone are
    taken in ``zone``.

    >>> week = Calendar("2024-01-01", "2024-01-08", "1d")
    >>> week.steps, week.label(6)
    (7, '2024-01-07T00:00:00+00:00')
    >>> week.step_of(["2024-01-01T23:30:00", "2024-01-07", "2024-01-08", None])
    array([ 0,  6, -1, -2])
    >>> Calendar(0, 10, 4).step_of([0, 3, 4, 9, 10])
    array([ 0,  0,  1,  2, -1])
    """

    start: Moment
    end: Moment
    every: str | int
    zone: str = field(default="UTC")

    @refuses("calendar", "its times and steps do not fit between the years 1 and 9999")
    def __post_init__(self) -> None:
        _check_zone(self.zone)
        whole = [isinstance(value, int) for value in (self.start, self.end, self.every)]
        if any(whole) and not all(whole):
            raise InvalidInputError(
                f"calendar from {self.start} to {self.end} every {self.every}: all three are integers or none is",
                name="calendar",
            )
        for name, value in (("start", self.start), ("end", self.end), ("every", self.every)):
            if isinstance(value, int) and abs(value) > LARGEST_TIME:
                raise InvalidInputError(
                    name=f"calendar {name}", value=value, limit=f"whole numbers go up to {LARGEST_TIME:,}"
                )
        if isinstance(self.every, int):
            if self.every < 1:
                raise InvalidInputError(name="calendar every", value=self.every, limit="at least 1 is needed")
        else:
            count, unit = parse_duration(self.every)
            if count * (MONTHS[unit] * MICROSECONDS["d"] * 28 if unit in MONTHS else MICROSECONDS[unit]) > LONGEST_STEP:
                raise InvalidInputError(
                    name="duration", value=self.every, limit="a step is at most 10,000 years long", next_step="write 1d"
                )
        if self._first >= self._last:
            raise InvalidInputError(
                f"calendar from {self.start} to {self.end}: start must lie before end", name="calendar"
            )
        if self.steps > MAX_STEPS:
            raise InvalidInputError(name="calendar steps", value=self.steps, limit=f"the limit is {MAX_STEPS}")

    @classmethod
    @refuses("times", "they must be whole numbers or times, between the years 1 and 9999")
    def from_public_data(cls, times: Any, every: str | int, zone: str = "UTC") -> Calendar:
        """The calendar that covers times which the holder declares PUBLIC.

        The range of private times leaks who came first and last, so never call this on them. The start is the
        first time, brought down to a whole number of steps of ``every`` on the clock.
        """
        column = _column(times)
        if isinstance(every, int):
            ticks = _observed(column, numbers(column))
            low = ticks[0] // every * every
            return cls(low, ticks[1] + 1, every, zone)
        count, unit = parse_duration(every)
        ticks = _observed(column, instants(column, zone))
        ends = pl.Series(ticks).cast(pl.Datetime("us", "UTC")).dt.convert_time_zone(zone)
        first = ends.dt.truncate(f"{count}{unit}")[0]
        return cls(first, ends[1] + timedelta(microseconds=1), every, zone)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        if self._borders is not None:
            return len(self._borders)
        return -((self._first - self._last) // self._width)

    @refuses("times", "they must be whole numbers or times, between the years 1 and 9999")
    def step_of(self, times: Any) -> NDArray[np.int64]:
        """The step of every time: ``OUTSIDE`` (-1) beyond the range, ``MISSING`` (-2) for nulls."""
        column = _column(times)
        found = self.read(column)
        found.require_readable(column)
        return self.place(found)

    def read(self, column: pl.Series) -> Instants:
        """The column's times as instants of this calendar."""
        if not isinstance(self.every, int):
            return instants(column, self.zone)
        if column.dtype.is_float() and max(abs(self._first), abs(self._last)) >= ROUNDED:
            raise InvalidInputError(
                f"time column '{column.name}' of type {column.dtype}: floating-point numbers round the whole numbers "
                "of this calendar, write them as integers",
                outcome="nothing was read",
            )
        return numbers(column)

    def place(self, read_times: Instants) -> NDArray[np.int64]:
        """The step of every instant."""
        inside = (read_times.ticks >= self._first) & (read_times.ticks < self._last)
        if self._borders is None:
            steps = (read_times.ticks - self._first) // self._width
        else:
            steps = np.searchsorted(self._borders, read_times.ticks, side="right") - 1
        steps[~inside] = OUTSIDE
        steps[~read_times.present] = MISSING
        if read_times.unreadable is not None:
            steps[read_times.unreadable] = OUTSIDE
        return steps

    def begins(self, t: int) -> datetime | int:
        """When step ``t`` begins: an integer, or a datetime in the calendar's zone."""
        if not is_a(t, int, np.integer) or not 0 <= t < self.steps:
            raise InvalidInputError(name="step", value=t, limit=f"the calendar has steps 0 to {self.steps - 1}")
        return self._moment(self._first + int(t) * self._width if self._borders is None else int(self._borders[t]))

    def ends(self, t: int) -> datetime | int:
        """When step ``t`` ends, which is when the next one begins or the calendar ends.

        >>> Calendar(0, 10, 4).ends(2)
        10
        """
        _ = self.begins(t)
        return self.begins(t + 1) if t + 1 < self.steps else self._moment(self._last)

    def _moment(self, tick: int) -> datetime | int:
        if isinstance(self.every, int):
            return tick
        return (EPOCH + timedelta(microseconds=tick)).astimezone(ZoneInfo(self.zone))

    def label(self, t: int) -> str:
        """The beginning of step ``t`` as text."""
        begin = self.begins(t)
        return begin.isoformat() if isinstance(begin, datetime) else str(begin)

    def step_time(self, t: int) -> StepTime:
        """The public time of step ``t``, which counts of it carry to the publisher.

        >>> Calendar("2024-01-01", "2024-01-08", "1d").step_time(3)
        StepTime(begins='2024-01-04T00:00:00+00:00', every='1d', zone='UTC')
        """
        return StepTime(self.label(t), str(self.every), self.zone)

    @cached_property
    def _first(self) -> int:
        return _tick(self.start, self.zone)

    @cached_property
    def _last(self) -> int:
        return _tick(self.end, self.zone)

    @cached_property
    def _width(self) -> int:
        if isinstance(self.every, int):
            return self.every
        count, unit = parse_duration(self.every)
        return count * MICROSECONDS[unit]

    @cached_property
    def _borders(self) -> NDArray[np.int64] | None:
        """Where each step begins, when steps differ in length."""
        if isinstance(self.every, int):
            return None
        count, unit = parse_duration(self.every)
        if unit not in MONTHS and (self.zone == "UTC" or unit not in DAYS):
            return None
        zone = ZoneInfo(self.zone)
        local = (EPOCH + timedelta(microseconds=self._first)).astimezone(zone).replace(tzinfo=None)
        shortest = count * (MONTHS[unit] * 28 if unit in MONTHS else DAYS[unit]) * MICROSECONDS["d"]
        index = np.arange((self._last - self._first) // (shortest - MICROSECONDS["h"] * 2) + 2)
        starts = _local_starts(np.datetime64(local, "us"), index * count, unit)
        ticks = _local_ticks(starts, self.zone)
        return ticks[ticks < self._last]


def _check_zone(zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError, AttributeError):
        # Also names that are folders of the zones' database, or too long for a file.
        raise InvalidInputError(
            name="zone", value=zone, limit="no such time zone", next_step="write it as UTC or Europe/Zurich"
        ) from None


def _column(times: Any) -> pl.Series:
    return times if isinstance(times, pl.Series) else pl.Series("time", times)


def _observed(column: pl.Series, read_times: Instants) -> tuple[int, int]:
    read_times.require_readable(column)
    ticks = read_times.ticks[read_times.present]
    if not len(ticks):
        raise InvalidInputError("calendar from public data: 0 times given, at least 1 is needed")
    return int(ticks.min()), int(ticks.max())


def _tick(moment: Moment, zone: str) -> int:
    if isinstance(moment, int):
        return moment
    text = moment if isinstance(moment, str) else moment.isoformat()
    try:
        # A month stands for its beginning: ISO 8601 too, but not to Python.
        parsed = datetime.fromisoformat(f"{text}-01" if YEAR_AND_MONTH.fullmatch(text) else text)
    except ValueError as error:
        raise InvalidInputError(
            name="time",
            value=text,
            limit="not an ISO 8601 date or time",
            next_step="write it as 2024-03-01 or 2024-03-01T09:00",
        ) from error
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=ZoneInfo(zone))
    return (aware - EPOCH) // timedelta(microseconds=1)


def _local_starts(first: np.datetime64, counts: NDArray[np.int64], unit: str) -> NDArray[np.datetime64]:
    if unit in DAYS:
        return first + (counts * DAYS[unit]).astype("timedelta64[D]")
    month, day = first.astype("M8[M]"), first.astype("M8[D]")
    months = month + (counts * MONTHS[unit]).astype("timedelta64[M]")
    # A month too short for the start's day begins its step on its own last day.
    lengths = (months + np.timedelta64(1, "M")).astype("M8[D]") - months.astype("M8[D]")
    into = np.minimum(day - month.astype("M8[D]"), lengths - np.timedelta64(1, "D"))
    starts: NDArray[np.datetime64] = months.astype("M8[D]") + into + (first - day)
    return starts


def _local_ticks(starts: NDArray[np.datetime64], zone: str) -> NDArray[np.int64]:
    local = pl.Series(starts.astype("M8[us]"))
    zoned = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    # A step that would begin inside the hour skipped by the clocks begins when they have been put forward.
    later = (local + timedelta(hours=1)).dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return zoned.fill_null(later).dt.convert_time_zone("UTC").to_physical().to_numpy()
