"""What charges of many streams cost the windows of one population: one exact function of a window's last cell.

Charges may come in any order of time, a table of last year after the hours of today, and are added as they come.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import Any, Final, TypeAlias

from veilstream.privacy.population import Cost

Cells: TypeAlias = tuple[tuple[int, int], ...]
"""First and last cell of each of some steps, in the order of time; or nothing, for what counts in every window."""
ALWAYS: Final[Cells] = ()
Piece: TypeAlias = tuple[int, int, int, int]
"""Windows whose last cell lies from the first number up to the second cost the other two: pure parts, and μ²."""
FEW: Final = 64
"""So many pieces are added one by one; with more the function is made anew."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one charge, or one block of charges, costs windows: ``cost`` for each ``w`` of its steps that they touch.

    Under its own guarantee a charge counts once in a window of the stream's w steps, because noise is scaled to what a
    unit moves there. A window of the population may hold more of the steps that the charge reads. ``w=None`` says
    that it counts once, however many it holds. μ² counts by the square.
    """

    cost: Cost
    steps: Cells = ALWAYS
    w: int | None = None

    def in_window(self, first: int, last: int) -> Cost:
        """What the window of the cells ``first..last`` pays."""
        if not self.steps:
            return self.cost
        begin = bisect_left(self.steps, first, key=lambda step: step[1])
        end = bisect_right(self.steps, last, key=lambda step: step[0])
        touched = end - begin
        times = min(1, max(0, touched)) if self.w is None else max(0, -(-touched // self.w))
        return Cost(times * self.cost.pure, times * times * self.cost.mu_squared)

    @property
    def in_all(self) -> Cost:
        """What a window pays that holds all of time."""
        if self.w is None:
            return self.cost
        return self.in_window(self.steps[0][0], self.steps[-1][1]) if self.steps else self.cost

    def pieces(self, w: int) -> list[tuple[int, int, Cost]]:
        """What windows of ``w`` cells pay whose last cell lies from a first one up to another."""
        if self.w is None and len(self.steps) == 1:
            return [(self.steps[0][0], self.steps[0][1] + w, self.cost)]
        ends = sorted({first for first, _ in self.steps} | {last + w for _, last in self.steps})
        return [(end, after, self.in_window(end - w + 1, end)) for end, after in pairwise(ends)]


class Profile:
    """The cost of every window of ``w`` cells (None: of the one window) as a function of its last cell.

    Costs are whole multiples of 1/``unit``, which gets finer where it must: sums are exact, and quick.

    >>> profile = Profile([Usage(Cost(Fraction(1, 2)), ((3, 3),))], w=4)
    >>> profile.change([Usage(Cost(Fraction(1, 3)), ((5, 5),))])
    >>> print(profile.peak(), profile.at(8), profile.at(9))
    5/6 1/3 0
    """

    def __init__(self, usages: Iterable[Usage], w: int | None, removed: Iterable[Usage] = ()) -> None:
        self.w = w
        self.unit = 1
        self.timeless = (0, 0)
        """What every window costs, however far away, in units."""
        self.ends: list[int] = []
        """The last cells from which on windows cost something else than those before."""
        self._pure: list[int] = []
        self._squared: list[int] = []
        self.change(list(usages), list(removed))

    @property
    def always(self) -> Cost:
        """What every window costs, however far away."""
        return self._cost(*self.timeless)

    @property
    def costs(self) -> list[Cost]:
        """What windows cost from each of ``ends`` on."""
        return [self._cost(pure, squared) for pure, squared in zip(self._pure, self._squared, strict=True)]

    def change(self, added: Sequence[Usage], removed: Sequence[Usage] = ()) -> None:
        """Count some usages, and count others no more."""
        signed = [*[(usage, 1) for usage in added], *[(usage, -1) for usage in removed]]
        self._refine({part.denominator for one, _ in signed for part in (one.cost.pure, one.cost.mu_squared)})
        pieces: list[Piece] = []
        for usage, sign in signed:
            if self.w is None or not usage.steps:
                self._raise_all(*self._parts(usage.in_all, sign))
            else:
                pieces += [(first, after, *self._parts(cost, sign)) for first, after, cost in usage.pieces(self.w)]
        self._raise(pieces)

    def merge(self, other: Profile) -> None:
        """Count all that another profile of such windows counts."""
        self._refine({other.unit})
        scale, (pure, squared) = self.unit // other.unit, other.timeless
        self._raise_all(scale * pure, scale * squared)
        self._raise(
            [(first, after, scale * (p - pure), scale * (s - squared)) for first, after, p, s in other.pieces()]
        )

    def pieces(self) -> list[Piece]:
        """Where windows cost something else than is ``timeless``, and what."""
        return [
            (first, after, pure, squared)
            for (first, after), pure, squared in zip(
                pairwise(self.ends), self._pure[:-1], self._squared[:-1], strict=True
            )
        ]

    def peak(self, first: int | None = None, last: int | None = None) -> Cost:
        """The largest cost, in each of its parts, of the windows that end in ``first..last`` (None: without limit)."""
        return self._cost(*self._most(first, None if last is None else last + 1))

    def peak_with(self, change: Profile) -> Cost:
        """The largest cost, in each of its parts, of the windows that cost something else with a change."""
        self._refine({change.unit})
        change._refine({self.unit})
        pieces: list[tuple[int | None, int | None, int, int]] = list(change.pieces())
        pure, squared = change.timeless
        if pure or squared:
            pieces.append((None, min(change.ends, default=None), pure, squared))
            pieces.append((max(change.ends, default=None), None, pure, squared))
        pure = squared = 0
        for first, after, more, more_squared in pieces:
            if more or more_squared:
                most, most_squared = self._most(first, after)
                pure, squared = max(pure, most + more), max(squared, most_squared + more_squared)
        return self._cost(pure, squared)

    def at(self, end: int) -> Cost:
        """The cost of the window whose last cell is ``end``."""
        position = bisect_right(self.ends, end)
        return self._cost(self._pure[position - 1], self._squared[position - 1]) if position else self.always

    def fullest(self, first: int | None = None, last: int | None = None) -> tuple[int | None, Cost]:
        """The last cell of the window of the largest pure cost, of those that end in ``first..last``, and that cost.

        None if all cost the same.
        """
        if not self.ends:
            return None, self.always
        begin, after = self._between(first, None if last is None else last + 1)
        begin = max(begin, 0)
        best = max(range(begin, max(after, begin + 1)), key=lambda index: (self._pure[index], self._squared[index]))
        return self.ends[best], self._cost(self._pure[best], self._squared[best])

    def room_from(self, wanted: Cost, limit: Cost, after: int, cells: int = 1) -> int | None:
        """The first cell from ``after`` on where a charge of so many ``cells`` would fit by now; None if nowhere."""
        if not (self.always + wanted).fits(limit):
            return None
        # A charge on the cells c..d counts in the windows that end in c..d+w-1: all full ones must have passed.
        reach, most = cells + (self.w or 1) - 2, limit - wanted
        pure, squared = most.pure * self.unit, most.mu_squared * self.unit
        room = after
        for index in range(max(0, bisect_right(self.ends, after) - 1), len(self.ends)):
            if self.ends[index] > room + reach:
                break
            if self._pure[index] > pure or self._squared[index] > squared:
                until = self.ends[index + 1] - 1 if index + 1 < len(self.ends) else self.ends[index]
                room = max(room, until + 1)
        return room

    def to_fields(self) -> dict[str, Any]:
        """The profile as whole numbers, for a file."""
        ends = [after - before for before, after in pairwise([0, *self.ends])]
        return {
            "unit": self.unit,
            "timeless": list(self.timeless),
            "ends": ends,
            "pure": self._pure,
            "squared": self._squared if any(self._squared) else [],
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any], w: int | None) -> Profile:
        """The profile that ``to_fields`` wrote."""
        made, end = cls([], w), 0
        made.unit, made.timeless = fields["unit"], (fields["timeless"][0], fields["timeless"][1])
        for step in fields["ends"]:
            end += step
            made.ends.append(end)
        made._pure = list(fields["pure"])
        made._squared = list(fields["squared"]) or [0] * len(made.ends)
        return made

    def _cost(self, pure: int, squared: int) -> Cost:
        return Cost(Fraction(pure, self.unit), Fraction(squared, self.unit))

    def _parts(self, cost: Cost, sign: int) -> tuple[int, int]:
        pure, squared = cost.pure, cost.mu_squared
        return (
            sign * pure.numerator * (self.unit // pure.denominator),
            sign * squared.numerator * (self.unit // squared.denominator),
        )

    def _refine(self, denominators: set[int]) -> None:
        """Let the unit hold such fractions."""
        scale = lcm(self.unit, *denominators) // self.unit
        if scale > 1:
            self.unit *= scale
            self.timeless = self.timeless[0] * scale, self.timeless[1] * scale
            self._pure = [part * scale for part in self._pure]
            self._squared = [part * scale for part in self._squared]

    def _between(self, first: int | None, after: int | None) -> tuple[int, int]:
        """The places of windows that end from ``first`` up to ``after``; -1 for those before the first place."""
        begin = -1 if first is None else bisect_right(self.ends, first) - 1
        return begin, len(self.ends) if after is None else bisect_left(self.ends, after)

    def _most(self, first: int | None, after: int | None) -> tuple[int, int]:
        begin, end = self._between(first, after)
        pure, squared = (
            max(self._pure[max(begin, 0) : end], default=0),
            max(self._squared[max(begin, 0) : end], default=0),
        )
        # No window costs less than is timeless.
        return max(pure, self.timeless[0]), max(squared, self.timeless[1])

    def _raise_all(self, pure: int, squared: int) -> None:
        self.timeless = self.timeless[0] + pure, self.timeless[1] + squared
        self._pure = [part + pure for part in self._pure]
        self._squared = [part + squared for part in self._squared]

    def _raise(self, pieces: Sequence[Piece]) -> None:
        if len(pieces) > FEW:
            self._rebuild(pieces)
            return
        for first, after, pure, squared in pieces:
            begin = self._cut(first)
            end = self._cut(after)
            self._pure[begin:end] = [part + pure for part in self._pure[begin:end]]
            if squared:
                self._squared[begin:end] = [part + squared for part in self._squared[begin:end]]
            for index in (end, begin):
                self._join(index)

    def _cut(self, end: int) -> int:
        """The place from which on windows end at ``end`` or later; it is made if need be."""
        index = bisect_left(self.ends, end)
        if index == len(self.ends) or self.ends[index] != end:
            before = (self._pure[index - 1], self._squared[index - 1]) if index else self.timeless
            self.ends.insert(index, end)
            self._pure.insert(index, before[0])
            self._squared.insert(index, before[1])
        return index

    def _join(self, index: int) -> None:
        """Drop a place where nothing changes."""
        before = (self._pure[index - 1], self._squared[index - 1]) if index else self.timeless
        if before == (self._pure[index], self._squared[index]):
            for numbers in (self.ends, self._pure, self._squared):
                del numbers[index]

    def _rebuild(self, pieces: Sequence[Piece]) -> None:
        changes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])
        pure, squared = self.timeless
        mine = [(first, after, p - pure, s - squared) for first, after, p, s in self.pieces()]
        for first, after, more, more_squared in (*mine, *pieces):
            for at, sign in ((first, 1), (after, -1)):
                change = changes[at]
                change[0] += sign * more
                change[1] += sign * more_squared
        self.ends = sorted(end for end, change in changes.items() if change != [0, 0])
        self._pure, self._squared = [], []
        for end in self.ends:
            pure += changes[end][0]
            squared += changes[end][1]
            self._pure.append(pure)
            self._squared.append(squared)
