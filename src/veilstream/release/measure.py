"""What a released number counts, in the words of tables, consoles and pictures."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from veilstream.errors import InvalidInputError

UNITS: Final = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "mo": "month",
    "q": "quarter",
    "y": "year",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """``counted`` things, summed over the last ``span`` steps of length ``every``.

    >>> Measure("people", "1h").label
    'people per hour'
    >>> Measure.of_events(20, "15m").label
    'rows, at most 20 per person, per 15 minutes'
    >>> Measure.of_events(1, "1d", span=5).label
    'people, sum over 5 days'
    >>> Measure("people").label, Measure("people", so_far="total so far").label
    ('people', 'people, total so far')
    """

    counted: str = "people"
    every: str | int | None = None
    span: int = 1
    so_far: str = ""
    """How steps so far are added up, as in "total so far"; empty where they are not."""

    def __post_init__(self) -> None:
        if self.span < 1:
            raise InvalidInputError(name="span", value=self.span, limit="at least 1 step is needed")

    @classmethod
    def of_events(cls, counts_per_user: int, every: str | int | None, span: int = 1) -> Measure:
        """The measure of counted events: people where each counts once in a step, else rows up to the bound."""
        counted = "people" if counts_per_user == 1 else f"rows, at most {counts_per_user:,} per person"
        return cls(counted, every, span)

    @classmethod
    def of_people(cls, steps: int, every: str | int | None, span: int = 1, bins_per_user: int = 1) -> Measure:
        """The measure of people who are counted once over the last ``steps`` steps, in so many bins each.

        >>> Measure.of_people(1, "1h").label, Measure.of_people(7, "1d").label
        ('distinct people per hour', 'distinct people of the last 7 days')
        """
        each = "" if bins_per_user == 1 else f", each in at most {bins_per_user:,} bins"
        if steps == 1:
            return cls(f"distinct people{each}", every, span)
        return cls(f"distinct people of the last {_length(steps, every)}{each}", None, span)

    @classmethod
    def of_values(cls, column: str, every: str | int | None, span: int = 1) -> Measure:
        """The measure of counts that came aggregated in a column."""
        return cls(column, every, span)

    @property
    def label(self) -> str:
        """The name of an axis."""
        if self.so_far:
            return f"{self.counted}, {self.so_far}"
        if self.span > 1:
            return f"{self.counted}, sum over {_length(self.span, self.every)}"
        step = _step(self.every)
        between = ", " if "," in self.counted else " "
        return f"{self.counted}{between}per {step}" if step else self.counted

    @property
    def brief(self) -> str:
        """The label without the limits."""
        return replace(self, counted=self.counted.partition(",")[0]).label

    @property
    def title(self) -> str:
        """What a picture is about.

        >>> Measure.of_events(20, "1h").title, Measure("people", "1d", span=5).title, Measure("n_rides", "1h").title
        ('Rows per hour', 'People, sum over 5 days', 'n_rides per hour')
        """
        text = self.brief
        # The name of a column stays as it is written.
        return text[:1].upper() + text[1:] if text.partition(" ")[0].strip(",").isalpha() else text


def _step(every: str | int | None) -> str | None:
    """A step as in "per hour"."""
    if every is None:
        return None
    if isinstance(every, int) or every.isdigit():
        return "step" if int(every) == 1 else f"step of {every}"
    count, name = _count_and_unit(every)
    return every if name is None else name if count == 1 else f"{count} {name}s"


def _length(steps: int, every: str | int | None) -> str:
    """So many steps as a length of time, where steps have one."""
    if every is None or isinstance(every, int) or every.isdigit():
        return f"{steps:,} steps" + ("" if every is None or int(every) == 1 else f" of {every}")
    count, name = _count_and_unit(every)
    return f"{steps:,} steps of {every}" if name is None else f"{steps * count:,} {name}s"


def _count_and_unit(every: str) -> tuple[int, str | None]:
    found = re.fullmatch(r"(\d+)([a-z]+)", every)
    return (int(found[1]), UNITS.get(found[2])) if found else (1, None)
