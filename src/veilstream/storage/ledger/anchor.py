"""Which time a step is: recorded with a stream, so that no run takes the same hour for another step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from veilstream.data import Calendar
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError
from veilstream.privacy.durations import parse_duration
from veilstream.values.origin import StepTime

LONGEST: Final = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(hours=26),
    "w": timedelta(days=8),
    "mo": timedelta(days=32),
    "q": timedelta(days=93),
    "y": timedelta(days=367),
}
"""No unit is longer, whatever clocks and calendars do."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """When step 0 begins and how long steps are. With another one the same hour would be another step, be published a
    second time in another window, and cost a person twice what the guarantee allows. The end may move.

    >>> anchor = Anchor.of(Calendar("2024-01-01", "2024-01-08", "1d"))
    >>> anchor.to_json()
    '{"every": "1d", "start": "2024-01-01T00:00:00+00:00", "zone": "UTC"}'
    >>> later = Anchor.from_json(anchor.to_json()).calendar(31)
    >>> later.label(30)
    '2024-01-31T00:00:00+00:00'
    """

    start: str
    every: str
    zone: str

    @classmethod
    def of(cls, calendar: Calendar) -> Anchor:
        return cls(calendar.label(0), str(calendar.every), calendar.zone)

    @classmethod
    def from_json(cls, text: str) -> Anchor:
        return cls(**read_json(text))

    @classmethod
    def at(cls, time: StepTime) -> Anchor:
        """The anchor of a stream whose step 0 has this time."""
        return cls(time.begins, time.every, time.zone)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def calendar(self, steps: int) -> Calendar:
        """A calendar that covers at least ``steps`` steps."""
        if self.every.isdecimal():
            first, width = int(self.start), int(self.every)
            return Calendar(first, first + steps * width, width, self.zone)
        count, unit = parse_duration(self.every)
        try:
            end = datetime.fromisoformat(self.start) + LONGEST[unit] * (count * steps)
        except OverflowError:
            raise InvalidInputError(
                name="steps", value=steps, limit="they end after the last year that has a date"
            ) from None
        return Calendar(self.start, end, self.every, self.zone)


class StepDates:
    """The times of the steps of a stream that has no end."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self._calendar = anchor.calendar(1)

    def time_of(self, t: int) -> StepTime:
        """The public time of step ``t``.

        >>> StepDates(Anchor("2024-01-01T00:00:00+00:00", "1d", "UTC")).time_of(59).begins
        '2024-02-29T00:00:00+00:00'
        """
        if t >= self._calendar.steps:
            self._calendar = self._anchor.calendar(2 * t + 1)
        return self._calendar.step_time(t)
