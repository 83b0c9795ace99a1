"""What charges of many streams cost the windows of one population, and a pool that admits a charge only if it fits.

Charges may come in any order of time: a table of last year after the hours of today.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from veilstream.privacy.charge import Charge
from veilstream.privacy.population import Cost

Cells: TypeAlias = tuple[tuple[int, int], ...]
"""First and last cell of each of some steps, in the order of time; or nothing, for what counts in every window."""
ALWAYS: Final[Cells] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What one charge, or one block of charges, costs windows: ``cost`` for each ``w`` of its steps that they touch.

    Under its own guarantee a charge counts once in a window of the stream's w steps, because noise is scaled to what a
    unit moves there. A window of the population may hold more of the steps that the charge reads. ``w=None`` says
    that it counts once, however many it holds. μ² counts by the square.
    """

    stream: str
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


@dataclass(frozen=True, slots=True)
class Member:
    """A stream of a population: its name, its own window, and which cells its steps cover."""

    name: str
    w: int | None
    cells_at: Callable[[int], tuple[int, int]] | None
    """The first and last cell of a step; None for a stream without time, which counts in every window."""

    def usages(self, charges: Iterable[Charge]) -> list[Usage]:
        """What charges cost; those of one block are one, of the largest, for all that any of them reads."""
        blocks: defaultdict[int, list[Charge]] = defaultdict(list)
        found: list[Usage] = []
        for charge in charges:
            if not charge.epsilon and not charge.mu_squared:
                continue
            if charge.block is None:
                found.append(self._usage([charge]))
            else:
                blocks[charge.block].append(charge)
        return found + [self._usage(same) for same in blocks.values()]

    def _usage(self, same: Sequence[Charge]) -> Usage:
        if len(same) == 1 and self.cells_at is not None and same[0].span.first == same[0].span.last:
            return Usage(self.name, Cost(same[0].epsilon, same[0].mu_squared), (self.cells_at(same[0].span.first),))
        cost = Cost(max(charge.epsilon for charge in same), max(charge.mu_squared for charge in same))
        spans = _joined(tuple(sorted((charge.span.first, charge.span.last) for charge in same)))
        read = sum(last - first + 1 for first, last in spans)
        cells = self.cells_at
        if cells is None:
            times = -(-read // self.w) if self.w else 1
            return Usage(self.name, Cost(times * cost.pure, times * times * cost.mu_squared))
        if self.w is None or read <= self.w:
            return Usage(self.name, cost, _joined(tuple((cells(first)[0], cells(last)[1]) for first, last in spans)))
        each = tuple(cells(t) for first, last in spans for t in range(first, last + 1))
        return Usage(self.name, cost, each, self.w)


def _joined(steps: Cells) -> Cells:
    """The same numbers with neighbours joined."""
    joined: list[tuple[int, int]] = []
    for first, last in steps:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return tuple(joined)


class Profile:
    """The cost of every window of ``w`` cells (None: of the one window) as a function of its last cell."""

    def __init__(self, usages: Iterable[Usage], w: int | None) -> None:
        self.w = w
        self.always = Cost()
        changes: defaultdict[int, Cost] = defaultdict(Cost)
        together: defaultdict[tuple[int, int], Cost] = defaultdict(Cost)
        for usage in usages:
            if w is not None and usage.w is None and len(usage.steps) == 1:
                # Nearly all charges of a stream: one stretch of cells, counted once.
                together[usage.steps[0]] += usage.cost
                continue
            if not usage.steps or w is None:
                whole = usage.in_window(usage.steps[0][0], usage.steps[-1][1]) if usage.steps else usage.cost
                self.always += whole
                continue
            before = Cost()
            for end in sorted({first for first, _ in usage.steps} | {last + w for _, last in usage.steps}):
                after = usage.in_window(end - w + 1, end)
                changes[end] += after - before
                before = after
        for (first, last), cost in together.items():
            assert w is not None
            changes[first] += cost
            changes[last + w] -= cost
        self.ends = sorted(changes)
        self.costs: list[Cost] = []
        running = self.always
        for end in self.ends:
            running += changes[end]
            self.costs.append(running)

    def peak(self, first: int | None = None, last: int | None = None) -> Cost:
        """The largest cost, in each of its parts, of the windows that end in ``first..last`` (None: without limit)."""
        begin = 0 if first is None else max(0, bisect_right(self.ends, first) - 1)
        end = len(self.ends) if last is None else bisect_right(self.ends, last)
        costs = self.costs[begin:end]
        return Cost(
            max([self.always.pure, *[cost.pure for cost in costs]]),
            max([self.always.mu_squared, *[cost.mu_squared for cost in costs]]),
        )

    def at(self, end: int) -> Cost:
        """The cost of the window whose last cell is ``end``."""
        position = bisect_right(self.ends, end)
        return self.costs[position - 1] if position else self.always

    def fullest(self) -> tuple[int | None, Cost]:
        """The last cell of the window of the largest pure cost, and that cost; None if all cost the same."""
        if not self.costs:
            return None, self.always
        best = max(range(len(self.costs)), key=lambda index: (self.costs[index].pure, self.costs[index].mu_squared))
        return self.ends[best], self.costs[best]

    def room_from(self, wanted: Cost, limit: Cost, after: int, cells: int = 1) -> int | None:
        """The first cell from ``after`` on where a charge of so many ``cells`` would fit by now; None if nowhere."""
        if not (self.always + wanted).fits(limit):
            return None
        # A charge on the cells c..d counts in the windows that end in c..d+w-1: all full ones must have passed.
        reach = cells + (self.w or 1) - 2
        full = [index for index, cost in enumerate(self.costs) if not (cost + wanted).fits(limit)]
        room = after
        for index in full:
            until = self.ends[index + 1] - 1 if index + 1 < len(self.ends) else self.ends[index]
            if self.ends[index] <= room + reach and until >= room:
                room = until + 1
        return room
