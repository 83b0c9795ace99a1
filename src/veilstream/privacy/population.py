"""One promise about a population: whatever is published about it, one unit's data in a window of time cost so much."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from veilstream.arguments import checks_arguments, is_a, with_checked_arguments
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError
from veilstream.privacy.draws import DRAWS, Draw
from veilstream.privacy.durations import DAYS, MICROSECONDS, MONTHS, parse_duration
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population_steps import most_steps, windows_of_stream
from veilstream.privacy.population_time import TimeGrid
from veilstream.privacy.rationals import Exact

LONGEST_NUMBER: Final = 20
UNITS: Final = ("people", "devices", "events")
WORDS: Final = {
    "": "unit",
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
EVER: Final = ("", "")
"""The time of data that count in every window."""
START: Final = "2001-01-01"
"""A Monday. Cells reach to both sides of it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a window costs: pure epsilon, and μ² of Gaussian charges."""

    pure: Fraction = Fraction(0)
    mu_squared: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.pure + other.pure, self.mu_squared + other.mu_squared)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.pure - other.pure, self.mu_squared - other.mu_squared)

    def fits(self, limit: Cost) -> bool:
        """Whether neither part is more than that of ``limit``."""
        return self.pure <= limit.pure and self.mu_squared <= limit.mu_squared

    def __str__(self) -> str:
        return f"{self.pure}" + (f" and μ² {float(self.mu_squared):.3g}" if self.mu_squared else "")


@dataclass(frozen=True, slots=True)
class Population:
    """All data of one unit (of ``people``, ``devices``, ``events``) inside any window of time cost at most epsilon.

    It holds for everything together that draws on the population in one ledger: streams of whatever step length,
    histograms, tables. ``window`` is a duration and begins on a public grid of cells of length ``every``, by default
    one of its units: "24h" is any 24 successive hours, "1d" each day. ``None`` protects a unit for ever.

    >>> residents = Population("residents", 2, window="24h")
    >>> residents.guarantee.w, residents.grid.every
    (24, '1h')
    >>> print(residents)
    residents: epsilon 2 for all that one of the people contributes within any 24 hours
    """

    name: str
    guarantee: Guarantee
    grid: TimeGrid | None
    unit: str

    @checks_arguments
    def __init__(
        self,
        name: str,
        epsilon: Exact,
        window: str | int | None,
        every: str | int | None = None,
        start: str | int | None = None,
        zone: str = "UTC",
        delta: Exact = 0,
        unit: str = "people",
        *,
        pure_share: Exact | None = None,
    ) -> None:
        if not name or name != name.strip():
            raise InvalidInputError(name="population", value=name, limit="a name without spaces around it is needed")
        if unit not in UNITS:
            raise InvalidInputError(name="unit", value=unit, limit=f"choose from {', '.join(UNITS)}")
        cells = None if window is None else _cells(window, every, zone)
        origin = START if start is None and cells is not None and not cells[1].isdecimal() else start or 0
        grid = None if cells is None else TimeGrid(str(origin), cells[1], zone)
        promise = Guarantee(epsilon, None if cells is None else cells[0], delta, pure_share)
        for field, value in (("name", name), ("guarantee", promise), ("grid", grid), ("unit", unit)):
            object.__setattr__(self, field, value)

    @property
    def cap(self) -> Cost:
        """What one window may cost."""
        return Cost(self.guarantee.pure, self.guarantee.mu_squared)

    def reserved_cost(self, guarantee: Guarantee, calendar: TimeGrid | None) -> Cost:
        """The most that a stream under its own ``guarantee`` and calendar costs a window, whatever it does.

        A window touches k of its steps at most, which n of its own units cover: n times its pure epsilon, and n² times
        its μ², because one Gaussian answer may read all of them (PROOF.md, "Populations"). Without a ``calendar`` the
        stream has no steps that one could count.

        >>> residents, hours = Population("residents", 2, window="24h"), TimeGrid("2026-01-01", "1h")
        >>> residents.reserved_cost(Guarantee("1/2", w=24), hours).pure
        Fraction(1, 2)
        >>> residents.reserved_cost(Guarantee("1/2", w=12), hours).pure
        Fraction(1, 1)
        """
        steps = None
        if calendar is not None and self.grid is not None:
            assert self.guarantee.w is not None
            steps = most_steps(self.grid, self.guarantee.w, calendar)
        times = windows_of_stream(guarantee, steps, ever=self.grid is None)
        if times is None:
            raise InvalidInputError(
                name="draw",
                value="reserved",
                limit=f"{guarantee} has no end of windows in one of population {self.name!r}, which protects "
                + ("for ever" if self.grid is None else "time, while the stream has no calendar"),
                next_step="draw 'shared', give the stream a calendar, or promise it at user level (w=None)",
            )
        return Cost(times * guarantee.pure, times * times * guarantee.mu_squared)

    def to_json(self) -> str:
        """Canonical text, exact."""
        grid = (
            None if self.grid is None else {"start": self.grid.start, "every": self.grid.every, "zone": self.grid.zone}
        )
        return json.dumps({"guarantee": read_json(self.guarantee.to_json()), "grid": grid, "unit": self.unit})

    @classmethod
    def from_json(cls, name: str, text: str) -> Population:
        """The population that ``to_json`` wrote."""
        fields: dict[str, Any] = read_json(text)
        promise, grid = Guarantee.from_json(json.dumps(fields["guarantee"])), fields["grid"]
        cells: dict[str, Any] = {} if grid is None else grid
        return cls(
            name,
            promise.epsilon,
            promise.w,
            delta=promise.delta,
            unit=fields["unit"],
            pure_share=promise.pure_share,
            **cells,
        )

    @property
    def window(self) -> str:
        """A window in words."""
        if self.grid is None:
            return "ever"
        (count, unit), w = self.grid.unit, self.guarantee.w or 1
        length = f"{w * count} {WORDS[unit]}s" if w * count > 1 else WORDS[unit]
        return f"within any {length}" if w > 1 else f"within each {length} of the calendar"

    def __str__(self) -> str:
        promise = self.guarantee
        cost = f"epsilon {promise.epsilon}" + (f", delta {promise.delta}" if promise.delta else "")
        return f"{self.name}: {cost} for all that one of the {self.unit} contributes {self.window}"


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class Membership:
    """How a stream belongs to a population: how it draws, what unit its data are bounded by, when its data are from.

    ``data`` is a beginning and an end for what has no calendar of steps, such as a table of one year; ``EVER`` counts
    in every window; by default the stream's calendar tells, and a stream without one counts in every window. Streams
    that are ``apart`` by the same word are about different people, such as the groups of a roster: of what they reserve
    the largest counts.

    >>> Membership.from_json(Membership("residents", data=("2025-01-01", "2026-01-01")).to_json()).data
    ('2025-01-01', '2026-01-01')
    """

    population: str
    draw: Draw = "shared"
    unit: str = "people"
    data: tuple[str, str] | None = None
    apart: str | None = None

    def __post_init__(self) -> None:
        if self.draw not in DRAWS:
            raise InvalidInputError(name="draw", value=self.draw, limit=f"choose from {', '.join(DRAWS)}")
        if self.apart is not None and self.draw != "reserved":
            raise InvalidInputError(
                name="draw", value=self.draw, limit="what is about different people is 'reserved', by its largest"
            )

    def to_json(self) -> str:
        """Canonical text, exact."""
        fields: dict[str, Any] = {"population": self.population, "draw": self.draw, "unit": self.unit}
        if self.data is not None:
            fields["data"] = list(self.data)
        if self.apart is not None:
            fields["apart"] = self.apart
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> Membership:
        """The membership that ``to_json`` wrote."""
        fields: dict[str, Any] = read_json(text)
        if "data" in fields:
            fields["data"] = tuple(fields["data"])
        return cls(**fields)


def _cells(window: str | int, every: str | int | None, zone: str) -> tuple[int, str]:
    """How many cells a window has, and the length of a cell."""
    if not is_a(window, int, str):
        raise InvalidInputError(name="window", value=window, limit="a length such as 24h, or a whole number of cells")
    if isinstance(window, int) or (window.isdecimal() and len(window) < LONGEST_NUMBER):
        if every is None:
            raise InvalidInputError(
                name="every", limit="missing, a window without a unit is a number of cells and needs their length"
            )
        return int(window), str(every)
    count, unit = parse_duration(window)
    if every is None:
        return count, f"1{unit}"
    each, smaller = parse_duration(str(every))
    for lengths, fixed in ((MONTHS, True), (DAYS, True), (MICROSECONDS, zone == "UTC" or unit not in DAYS)):
        if fixed and unit in lengths and smaller in lengths:
            cells, rest = divmod(count * lengths[unit], each * lengths[smaller])
            if cells and not rest:
                return cells, str(every)
    raise InvalidInputError(
        name="window",
        value=window,
        limit=f"not a whole number of cells of {every}" + ("" if zone == "UTC" else f" in {zone}, where days differ"),
        next_step="give a window and cells in the same unit, such as 24h and 1h, or 7d and 1d",
    )
