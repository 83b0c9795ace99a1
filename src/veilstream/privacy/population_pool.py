"""What charges of many streams cost the windows of one population, and a pool that admits a charge only if it fits.

Charges may come in any order of time: a table of last year after the hours of today.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from veilstream.errors import BudgetExceededError
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
    cells_of: Callable[[int, int], Cells]
    """The cells of each of the steps ``first..last``; nothing for a stream without time."""

    def usages(self, charges: Iterable[Charge]) -> list[Usage]:
        """What charges cost; those of one block are one, of the largest, for all that any of them reads."""
        blocks: defaultdict[int, list[Charge]] = defaultdict(list)
        found: list[Usage] = []
        for charge in charges:
            if charge.block is None:
                found.append(self._usage([charge]))
            elif charge.epsilon or charge.mu_squared:
                blocks[charge.block].append(charge)
        return found + [self._usage(same) for same in blocks.values()]

    def _usage(self, same: Sequence[Charge]) -> Usage:
        cost = Cost(max(charge.epsilon for charge in same), max(charge.mu_squared for charge in same))
        steps = {(c.span.first, c.span.last): self.cells_of(c.span.first, c.span.last) for c in same}
        if not all(steps.values()):
            # Without time all steps are in every window.
            read = len({t for c in same for t in range(c.span.first, c.span.last + 1)}) if self.w else 1
            times = -(-read // self.w) if self.w else 1
            return Usage(self.name, Cost(times * cost.pure, times * times * cost.mu_squared))
        each = {t: cells for (first, _), found in steps.items() for t, cells in enumerate(found, first)}
        ordered = tuple(each[t] for t in sorted(each))
        if self.w is None or len(ordered) <= self.w:
            return Usage(self.name, cost, _joined(ordered))
        return Usage(self.name, cost, ordered, self.w)


def _joined(steps: Cells) -> Cells:
    """The same cells with neighbours joined, for what counts once."""
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
        for usage in usages:
            if not usage.steps or w is None:
                whole = usage.in_window(usage.steps[0][0], usage.steps[-1][1]) if usage.steps else usage.cost
                self.always += whole
                continue
            before = Cost()
            for end in sorted({first for first, _ in usage.steps} | {last + w for _, last in usage.steps}):
                after = usage.in_window(end - w + 1, end)
                changes[end] += after - before
                before = after
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

    def room_from(self, wanted: Cost, limit: Cost, after: int) -> int | None:
        """The first cell from ``after`` on at which a charge of that cell alone would fit by now; None if never."""
        if not (self.always + wanted).fits(limit):
            return None
        w = self.w or 1
        # A charge on cell c counts in the windows that end in c..c+w-1: it waits for the last full one to have passed.
        full = [index for index, cost in enumerate(self.costs) if not (cost + wanted).fits(limit)]
        room = after
        for index in full:
            until = self.ends[index + 1] - 1 if index + 1 < len(self.ends) else self.ends[index]
            if self.ends[index] <= room + w - 1 and until >= room:
                room = until + 1
        return room


class Pool:
    """What is left of a population for the streams that share it, as one of them sees it while it makes a step.

    A charge is refused before anything is drawn, by public numbers alone. ``spent`` are the charges of all others and
    of this stream before the step.
    """

    def __init__(
        self,
        name: str,
        limit: Cost,
        w: int | None,
        member: Member,
        others: Sequence[Usage],
        own: Sequence[Charge],
        date_of: Callable[[int], str],
    ) -> None:
        self._name = name
        self._limit = limit
        self._w = w
        self._member = member
        self._others = list(others)
        self._own = list(own)
        self._date_of = date_of
        self._made: list[Charge] = []
        self._before: Profile | None = None

    def check(self, charges: Sequence[Charge]) -> None:
        """Refuse ``charges`` if a window would pass the pool with them and all that were counted."""
        new = [*self._made, *charges]
        if not any(charge.epsilon or charge.mu_squared for charge in new):
            return
        cost = self._with(new)
        if not cost.fits(self._limit):
            raise self._refusal(charges, cost)

    def count(self, charges: Sequence[Charge]) -> None:
        """Count charges that were checked."""
        self._made += charges

    def _with(self, new: Sequence[Charge]) -> Cost:
        """The largest cost of the windows that ``new`` charges touch, with them."""
        plain = all(charge.block is None for charge in new)
        usages = self._member.usages(new) if plain else []
        places = {usage.steps for usage in usages}
        if plain and len(places) == 1 and all(usage.w is None for usage in usages):
            # The common case: all charges of the step read the same cells.
            added = sum((usage.cost for usage in usages), Cost())
            (cells,) = places
            if len(cells) <= 1:
                return self._peak_around(cells) + added
        return Profile([*self._others, *self._member.usages([*self._own, *new])], self._w).peak()

    def _peak_around(self, cells: Cells) -> Cost:
        before = self._profile()
        if not cells or self._w is None:
            return before.peak()
        return before.peak(cells[0][0], cells[-1][1] + self._w - 1)

    def _profile(self) -> Profile:
        if self._before is None:
            self._before = Profile([*self._others, *self._member.usages(self._own)], self._w)
        return self._before

    def _refusal(self, charges: Sequence[Charge], cost: Cost) -> BudgetExceededError:
        amount = sum((usage.cost for usage in self._member.usages(charges)), Cost())
        purpose = charges[0].purpose
        return BudgetExceededError(
            f"charge {amount} for {purpose!r} of stream {self._member.name!r}: a window of population {self._name!r} "
            f"would cost {cost}, its pool is {self._limit}; {self._spenders()}",
            name=purpose,
            value=cost.pure,
            limit=str(self._limit.pure),
            next_step=self._advice(charges, amount),
        )

    def _spenders(self) -> str:
        """Who spends the fullest window."""
        _, full = self._profile().fullest()
        if full == Cost():
            return "nothing was drawn from it yet"
        end, _ = self._profile().fullest()
        spent: defaultdict[str, Cost] = defaultdict(Cost)
        for usage in [*self._others, *self._member.usages([*self._own, *self._made])]:
            if end is not None and self._w is not None and usage.steps:
                spent[usage.stream] += usage.in_window(end - self._w + 1, end)
            else:
                spent[usage.stream] += usage.cost
        listed = sorted(((cost.pure, name, cost) for name, cost in spent.items() if cost != Cost()), reverse=True)
        return "spent there by " + ", ".join(f"{name!r} {cost}" for _, name, cost in listed[:5])

    def _advice(self, charges: Sequence[Charge], amount: Cost) -> str:
        cells = [cell for usage in self._member.usages(charges) for step in usage.steps for cell in step]
        if not cells or self._w is None or not amount.fits(self._limit):
            return "ask with a smaller epsilon, or define a population with more; what counts for ever never comes back"
        made = Profile([*self._others, *self._member.usages([*self._own, *self._made])], self._w)
        room = made.room_from(amount, self._limit, max(cells) + 1)
        if room is None:
            return "ask with a smaller epsilon, or define a population with more; what counts for ever never comes back"
        return (
            f"repeat the last release (--exhausted repeat) until data of {self._date_of(room)}, or ask for less epsilon"
        )
