"""Public time, cut into successive cells: what calendars of different steps have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from veilstream.errors import InvalidInputError
from veilstream.privacy.durations import DAYS, MICROSECONDS, MONTHS, parse_duration

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TICK: Final = timedelta(microseconds=1)


class Local(NamedTuple):
    """A start on the clock of its zone: whole months, days since then, and the time of day."""

    months: int
    day: int
    ordinal: int
    time: timedelta


@dataclass(frozen=True)
class TimeGrid:
    """Cells of length ``every`` to both sides of ``start``, with the borders of a ``veilstream.data.Calendar``.

    Times are microseconds of UTC, or whole numbers where ``every`` is one. Days and longer follow the clock of
    ``zone``, so that a day on which clocks change has 23 or 25 hours.

    >>> days = TimeGrid("2026-03-28", "1d", "Europe/Berlin")
    >>> [(days.border(i + 1) - days.border(i)) // 3_600_000_000 for i in (0, 1, 2)]
    [24, 23, 24]
    >>> days.cell_of(days.border(2)), days.cell_of(days.border(2) - 1), days.cell_of(days.border(-3))
    (2, 1, -3)
    """

    start: str
    every: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidInputError(name="zone", value=self.zone, limit="no such time zone") from error
        if self.whole_numbers and not self.start.lstrip("-").isdecimal():
            raise InvalidInputError(
                name="start", value=self.start, limit="a whole number is needed where steps have no unit"
            )
        _ = self.first

    @property
    def whole_numbers(self) -> bool:
        """Whether times are numbers without a date."""
        return self.every.isdecimal()

    @cached_property
    def unit(self) -> tuple[int, str]:
        """Count and unit of a cell's length."""
        return (int(self.every), "") if self.whole_numbers else parse_duration(self.every)

    @cached_property
    def first(self) -> int:
        """The time at which cell 0 begins."""
        if self.whole_numbers:
            return int(self.start)
        return (self._start - EPOCH) // TICK

    @cached_property
    def _start(self) -> datetime:
        try:
            parsed = datetime.fromisoformat(self.start)
        except ValueError as error:
            raise InvalidInputError(
                name="start",
                value=self.start,
                limit="not an ISO 8601 date or time",
                next_step="write it as 2024-03-01 or 2024-03-01T09:00",
            ) from error
        return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=ZoneInfo(self.zone))

    @cached_property
    def width(self) -> int | None:
        """The length of every cell, None if they differ."""
        count, unit = self.unit
        if self.whole_numbers:
            return count
        if unit in MONTHS or (unit in DAYS and self.zone != "UTC"):
            return None
        return count * MICROSECONDS[unit]

    @cached_property
    def local(self) -> Local:
        """The start on the clock of the zone."""
        there = self._start.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        midnight = there.replace(hour=0, minute=0, second=0, microsecond=0)
        return Local(there.year * 12 + there.month - 1, there.day, there.toordinal(), there - midnight)

    def border(self, cell: int) -> int:
        """The time at which ``cell`` begins."""
        if self.width is not None:
            return self.first + cell * self.width
        count, unit = self.unit
        try:
            days = _add_months(self.local, cell * count * MONTHS[unit]) if unit in MONTHS else None
            ordinal = self.local.ordinal + cell * count * DAYS[unit] if days is None else days
            return _instant(datetime.fromordinal(ordinal) + self.local.time, self.zone)
        except (ValueError, OverflowError):
            raise InvalidInputError(
                name="cell", value=cell, limit="it lies outside the years that have dates"
            ) from None

    def cell_of(self, time: int) -> int:
        """The cell in which a time lies."""
        if self.width is not None:
            return (time - self.first) // self.width
        count, unit = self.unit
        usual = count * (30 * MONTHS[unit] if unit in MONTHS else DAYS[unit]) * MICROSECONDS["d"]
        cell = (time - self.first) // usual
        while self.border(cell) > time:
            cell -= max(1, (self.border(cell) - time) // usual)
        while self.border(cell + 1) <= time:
            cell += max(1, (time - self.border(cell + 1)) // usual)
        return cell


def _add_months(start: Local, months: int) -> int:
    """The day that many months later; a month too short for the start's day takes its own last one."""
    year, month = divmod(start.months + months, 12)
    following = datetime(year + month // 11, (month + 1) % 12 + 1, 1)
    return min(datetime(year, month + 1, 1).toordinal() + start.day - 1, following.toordinal() - 1)


def _instant(there: datetime, zone: str) -> int:
    """When clocks show a time: the first of two such moments; of none, when they have been put forward by an hour."""
    moment = there.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != there:
        moment = (there + timedelta(hours=1)).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    return (moment - EPOCH) // TICK
