"""Public blocks of steps: the days, weeks or months in which one person is one unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.privacy.durations import DAYS, MICROSECONDS, MONTHS, clock_changes, parse_duration

EPOCH: Final = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC"))
LONGEST_MONTHS: Final = {"mo": 31, "q": 92, "y": 366}
"""The most days of these units."""
SHORTEST_MONTHS: Final = {"mo": 28, "q": 90, "y": 365}


@dataclass(frozen=True, slots=True)
class Blocks:
    """Successive steps that form one block: a fixed number of them, or those that begin in one unit of the calendar.

    ``length`` is a number of steps, counted from step 0, or a duration such as "1d", "1w" (from Monday on) or "1mo".
    A duration says which steps are in one block only together with the calendar of the steps: ``start``, ``every``
    and ``zone``, as of ``veilstream.data.Calendar``. A step lies in the block in which it begins.

    >>> weeks = Blocks("1w").placed("2026-01-01", "1d")  # a Thursday
    >>> [weeks.block_of(t) - weeks.block_of(0) for t in (3, 4, 10, 11)], weeks.longest
    ([0, 1, 1, 2], 7)
    >>> Blocks(7).block_of(13), Blocks("1w").block_of(13)
    (1, None)
    """

    length: int | str
    start: str | None = None
    every: str | None = None
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if isinstance(self.length, str):
            parse_duration(self.length)
        elif type(self.length) is not int or self.length < 1:
            raise InvalidBudgetError(
                name="per", value=self.length, limit='a number of steps from 1, or a duration such as "1w"'
            )
        if (self.start is None) != (self.every is None) or (self.start is not None and isinstance(self.length, int)):
            raise InvalidInputError(
                name="per", value=self.length, limit="a duration needs start and every together, a number neither"
            )
        if self.every is not None:
            self._check_calendar()

    def _check_calendar(self) -> None:
        assert self.start is not None
        assert self.every is not None
        parse_duration(self.every)
        try:
            ZoneInfo(self.zone)
            datetime.fromisoformat(self.start)
        except (ZoneInfoNotFoundError, ValueError):
            raise InvalidInputError(
                name="per", value=self.length, limit="start must be an ISO 8601 time and zone a known time zone"
            ) from None

    def placed(self, start: str, every: str, zone: str = "UTC") -> Blocks:
        """The same blocks on the calendar of the steps; a number of steps needs none and stays as it is."""
        return self if isinstance(self.length, int) else replace(self, start=start, every=every, zone=zone)

    @property
    def known(self) -> bool:
        """Whether it is known which steps are in one block."""
        return isinstance(self.length, int) or self.every is not None

    @property
    def longest(self) -> int | None:
        """The most steps of a block, None if that is not known."""
        if isinstance(self.length, int):
            return self.length
        if self.every is None:
            return None
        whole, part = parse_duration(self.length), parse_duration(self.every)
        if whole[1] in MONTHS and part[1] in MONTHS:
            return max(1, -(-whole[0] * MONTHS[whole[1]] // (part[0] * MONTHS[part[1]])))
        # Days on which clocks change are longer, which matters to steps that do not follow the days.
        follows = whole[1] not in LONGEST_MONTHS | DAYS or part[1] in LONGEST_MONTHS | DAYS
        longer = 0 if follows else clock_changes(self.zone)
        return max(1, -(-(_ticks(whole, LONGEST_MONTHS) + longer) // _ticks(part, SHORTEST_MONTHS)))

    def block_of(self, t: int) -> int | None:
        """The number of the block of step ``t``, None if it is not known."""
        if isinstance(self.length, int):
            return t // self.length
        if self.every is None:
            return None
        begin, (count, unit) = self._begins(t), parse_duration(self.length)
        if unit in MONTHS or unit in DAYS:
            # Where clocks go back over midnight, the new day has begun when they show it first.
            tomorrow = datetime.combine(begin.date() + timedelta(days=1), time(), begin.tzinfo)
            day = tomorrow if tomorrow.astimezone(EPOCH.tzinfo) <= begin.astimezone(EPOCH.tzinfo) else begin
            if unit in MONTHS:
                return (day.year * 12 + day.month - 1) // (count * MONTHS[unit])
            return (day.toordinal() - 1) // (count * DAYS[unit])
        return (begin - EPOCH) // timedelta(microseconds=1) // (count * MICROSECONDS[unit])

    def _begins(self, t: int) -> datetime:
        assert self.start is not None
        assert self.every is not None
        zone = ZoneInfo(self.zone)
        parsed = datetime.fromisoformat(self.start)
        first = parsed.replace(tzinfo=zone) if parsed.tzinfo is None else parsed.astimezone(zone)
        count, unit = parse_duration(self.every)
        if unit in MONTHS:
            months = first.year * 12 + first.month - 1 + t * count * MONTHS[unit]
            return datetime(months // 12, months % 12 + 1, 1, tzinfo=zone)
        if unit in DAYS:
            # Days of the local calendar, of which some have 23 or 25 hours.
            local = first.replace(tzinfo=None) + timedelta(days=t * count * DAYS[unit])
            return local.replace(tzinfo=zone)
        return (first.astimezone(EPOCH.tzinfo) + timedelta(microseconds=t * count * MICROSECONDS[unit])).astimezone(
            zone
        )

    def first_of(self, t: int) -> int:
        """The first step of the block of step ``t``."""
        if isinstance(self.length, int):
            return t - t % self.length
        assert self.longest is not None
        low, high, block = t - self.longest, t, self.block_of(t)
        while high - low > 1:
            middle = (low + high) // 2
            if self.block_of(middle) == block:
                high = middle
            else:
                low = middle
        return high

    def fields(self) -> dict[str, int | str]:
        """What a ledger records."""
        if self.start is None or self.every is None:
            return {"length": self.length}
        return {"length": self.length, "start": self.start, "every": self.every, "zone": self.zone}

    def __str__(self) -> str:
        if isinstance(self.length, str):
            return self.length
        return "step" if self.length == 1 else f"{self.length} steps"


def _ticks(duration: tuple[int, str], months: dict[str, int]) -> int:
    """A duration in microseconds, with as many days to a month as ``months`` says."""
    count, unit = duration
    return count * (months[unit] * MICROSECONDS["d"] if unit in months else MICROSECONDS[unit])
