"""The cost of every set of timestamps that one unit can reach where people count in few steps, exact.

A charge counts in each set that its span touches, once. As long as every charge is of one timestamp, the dearest set
takes the largest costs of its zones; with longer charges it is found by ``dearest_stretches``. Charges end at the
present, so that only sets which touch since..now can become dearer, ``since`` being where the charge begins (where a
growing block was not yet). What lies further back is summed up, so that memory stays bounded: see the two classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from heapq import heappush, heappushpop, nlargest
from math import lcm
from typing import Final

from veilstream.errors import ChargeError
from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.blocks import Block
from veilstream.privacy.charge import Charge
from veilstream.privacy.presence import BEGINNING, Anywhere, Rule
from veilstream.privacy.presence_placement import Stretch, dearest_stretches

MAX_STRETCHES: Final = 128
"""So many charges are remembered one by one where nothing is ever forgotten; older ones are summed up."""
MAX_STEPS_IN_STACK: Final = 4096
"""Beyond it the two oldest entries merge on the larger cost: never too little is charged."""


def presence_timeline(rule: Rule) -> PresenceTimeline:
    """The book for the sets of timestamps of ``rule``."""
    return LifelongTimeline(rule) if isinstance(rule, Anywhere) else PassingTimeline(rule)


class PresenceTimeline(ABC):
    """The cost of every set of timestamps of ``rule`` under the charges so far, in whole multiples of one unit.

    >>> from veilstream.privacy.charge import Span
    >>> line = presence_timeline(Anywhere(2))
    >>> for t in range(100):
    ...     line.advance(t)
    ...     line.add(Fraction(1, 2), Charge(Fraction(1, 2), Span(t, t), "publish"))
    >>> line.would_cost([(Fraction(3, 4), Charge(Fraction(3, 4), Span(99, 99), "publish"))]), line.current
    (Fraction(7, 4), Fraction(1, 1))
    """

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._count = rule.count
        self._denominator = 1
        self._now: int | None = None
        self._costs: dict[int, int] = {}
        self._stretches: list[Stretch] = []
        self._blocks: dict[int, Stretch] = {}
        self._zones: dict[tuple[int, int], int] = {}

    @property
    def current(self) -> Fraction:
        """The cost of the dearest set that includes the present."""
        if self._now is None:
            return Fraction(0)
        # A charge dearer than all others together draws every dearest set to the present.
        large = 1 + self._upper_bound()
        found = self._dearest(self._now, [Stretch(self._now, self._now, large)], self._blocks)
        return Fraction(found - large, self._denominator)

    @property
    def unit(self) -> str:
        return self._rule.unit

    @abstractmethod
    def advance(self, now: int) -> None: ...

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        self._refine(amount for amount, _ in wanted)
        reached = [(*self._reach(amount, charge), charge.block) for amount, charge in wanted]
        added = [stretch for stretch, _, block in reached if block is None]
        blocks = self._blocks | {block: stretch for stretch, _, block in reached if block is not None}
        news = [piece for _, pieces, _ in reached for piece in pieces]
        since = min((begins for begins, _ in news), default=self._now or 0)
        return Fraction(max(self._would_cost_past(news), self._dearest(since, added, blocks)), self._denominator)

    def add(self, amount: Fraction, charge: Charge) -> None:
        self._refine([amount])
        stretch, pieces = self._reach(amount, charge)
        for begins, more in pieces:
            self._add_to_past(begins, more)
        if charge.block is not None:
            self._blocks[charge.block] = stretch
        elif stretch.first == stretch.last:
            self._costs[stretch.last] = self._costs.get(stretch.last, 0) + stretch.amount
        else:
            self._stretches.append(stretch)

    def close(self, block: int) -> None:
        stretch = self._blocks.pop(block, None)
        if stretch is None:
            return
        if stretch.first < stretch.last:
            self._stretches.append(stretch)
        else:
            self._costs[stretch.last] = self._costs.get(stretch.last, 0) + stretch.amount
            self._zones.clear()

    def open_blocks(self) -> Mapping[int, Block]:
        return {
            number: Block(Fraction(s.amount, self._denominator), s.first, s.first, s.last)
            for number, s in self._blocks.items()
        }

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        raise ChargeError(
            name="bins", value=bins, limit="a person who counts in few steps may be in another bin at each of them"
        )

    @abstractmethod
    def _dearest(self, since: int, added: Sequence[Stretch], blocks: Mapping[int, Stretch]) -> int:
        """The cost of the dearest set that touches since..now, with charges that are tried."""

    @abstractmethod
    def _would_cost_past(self, reached: Sequence[tuple[int, int]]) -> int:
        """The same of sets that were summed up, for amounts that count since a timestamp."""

    @abstractmethod
    def _add_to_past(self, begins: int, amount: int) -> None: ...

    @abstractmethod
    def _rescale_past(self, factor: int) -> None: ...

    def _upper_bound(self) -> int:
        """No set costs more than this."""
        return sum(self._costs.values()) + sum(s.amount for s in (*self._stretches, *self._blocks.values()))

    def _reach(self, amount: Fraction, charge: Charge) -> tuple[Stretch, list[tuple[int, int]]]:
        """What a charge covers, and what it newly costs since when: a known block where it grows, or grows dearer."""
        assert self._now is not None
        first, whole = charge.span.first, self._whole(amount)
        known = None if charge.block is None else self._blocks.get(charge.block)
        if known is None:
            return Stretch(first, self._now, whole), [(first, whole)]
        pieces = [(min(known.last + 1, self._now), known.amount)]
        if first < known.first:
            pieces.append((first, known.amount))
        first = min(first, known.first)
        if whole > known.amount:
            pieces.append((first, whole - known.amount))
        return Stretch(first, self._now, max(whole, known.amount)), pieces

    def _items(self, added: Sequence[Stretch], blocks: Mapping[int, Stretch], oldest: int) -> list[Stretch]:
        single = [Stretch(t, t, cost) for t, cost in self._costs.items() if t >= oldest]
        return [*single, *(s for s in (*self._stretches, *blocks.values(), *added) if s.last >= oldest)]

    def _whole(self, amount: Fraction) -> int:
        return amount.numerator * (self._denominator // amount.denominator)

    def _refine(self, amounts: Iterable[Fraction]) -> None:
        """Make the unit divide all ``amounts``."""
        denominator = lcm(self._denominator, *(amount.denominator for amount in amounts))
        factor, self._denominator = denominator // self._denominator, denominator
        if factor > 1:
            self._costs = {t: cost * factor for t, cost in self._costs.items()}
            self._stretches = [s._replace(amount=s.amount * factor) for s in self._stretches]
            self._blocks = {block: s._replace(amount=s.amount * factor) for block, s in self._blocks.items()}
            self._rescale_past(factor)


class PassingTimeline(PresenceTimeline):
    """Sets within windows or blocks, which time leaves behind.

    Of sets that have passed, a stack of (last timestamp, cost), costs strictly falling, says what matters: a charge
    that reaches back further than twice the longest set is added to all that ended since it begins. It can be refused
    too early, never admitted too late. Nearer sets are found exactly.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self._ends: list[int] = []
        self._peaks: list[int] = []

    def advance(self, now: int) -> None:
        while self._now is not None and self._now < now and (self._costs or self._stretches or self._blocks):
            self._push(self._now, self._dearest(self._now, (), self._blocks))
            self._now += 1
            self._forget(self._near() - self._rule.width)
        self._now = now

    def _forget(self, oldest: int) -> None:
        for t in [t for t in self._costs if t < oldest]:
            del self._costs[t]
        self._stretches = [s for s in self._stretches if s.last >= oldest]
        for zone in [zone for zone in self._zones if zone[1] < oldest]:
            del self._zones[zone]

    def _dearest(self, since: int, added: Sequence[Stretch], blocks: Mapping[int, Stretch]) -> int:
        assert self._now is not None
        now = self._now
        if not self._stretches and not blocks and all(stretch.first == now for stretch in added):
            return self._dearest_with_now(sum(stretch.amount for stretch in added))
        since = max(since, self._near())
        items = self._items(added, blocks, since - self._rule.width)
        begun = {item.first for item in items}
        return max((dearest_stretches(items, zones) for zones in self._rule.placements(since, now, begun)), default=0)

    def _dearest_with_now(self, extra: int) -> int:
        """The dearest set that touches now, where all charges are of single timestamps."""
        assert self._now is not None
        now = self._now
        before = sorted(t for t in self._costs if t < now)
        latest = _largest_sums(
            [extra + self._costs.get(now, 0), *(self._costs[t] for t in reversed(before))], self._count
        )
        worst = 0
        for zones in self._rule.placements(now, now, [*before, now]):
            *passed, (first, _, _) = zones
            total = latest[len(before) - bisect_left(before, first)]
            worst = max(worst, total + sum(self._zone(start, end) for start, end, _ in passed))
        return worst

    def _zone(self, first: int, last: int) -> int:
        """What a zone costs that has passed: looked up, as long as charges of single timestamps alone come."""
        if (first, last) not in self._zones:
            self._zones[first, last] = sum(
                nlargest(self._count, (cost for t, cost in self._costs.items() if first <= t <= last))
            )
        return self._zones[first, last]

    def _would_cost_past(self, reached: Sequence[tuple[int, int]]) -> int:
        worst, sofar = 0, 0
        for begins, amount in sorted(reached):
            sofar += amount
            if begins < self._near():
                worst = max(worst, self._peak(begins) + sofar)
        return worst

    def _near(self) -> int:
        """Since when sets are found exactly: longer ago than usual charges reach."""
        assert self._now is not None
        return self._now - 2 * self._rule.width

    def _peak(self, first: int) -> int:
        index = bisect_left(self._ends, first)
        return self._peaks[index] if index < len(self._peaks) else 0

    def _push(self, end: int, cost: int) -> None:
        while self._peaks and self._peaks[-1] <= cost:
            self._peaks.pop()
            self._ends.pop()
        self._peaks.append(cost)
        self._ends.append(end)
        if len(self._peaks) > MAX_STEPS_IN_STACK:
            del self._ends[0], self._peaks[1]

    def _add_to_past(self, begins: int, amount: int) -> None:
        assert self._now is not None
        if begins >= self._now:
            return
        self._zones.clear()
        # Sets that ended before now are found again only as long as they are near.
        if not self._ends or self._ends[-1] < self._now - 1:
            self._ends.append(self._now - 1)
            self._peaks.append(0)
        index = bisect_left(self._ends, begins)
        self._peaks[index:] = [peak + amount for peak in self._peaks[index:]]
        while index > 0 and self._peaks[index - 1] <= self._peaks[index]:
            index -= 1
            del self._ends[index], self._peaks[index]

    def _rescale_past(self, factor: int) -> None:
        self._peaks = [peak * factor for peak in self._peaks]
        self._zones = {zone: cost * factor for zone, cost in self._zones.items()}


class LifelongTimeline(PresenceTimeline):
    """Any c timestamps of the whole stream.

    Before a cut that no charge lies across, only the most that 0, 1, …, c timestamps cost is remembered. A charge that
    reaches back across the cut is counted on both sides: it can be refused too early, never admitted too late. Of
    charges of single timestamps those stay for which fewer than c later ones are as dear.
    """

    def __init__(self, rule: Anywhere) -> None:
        super().__init__(rule)
        self._before = [0] * (rule.count + 1)
        self._cut = BEGINNING

    def advance(self, now: int) -> None:
        self._now = now
        self._prune()

    def add(self, amount: Fraction, charge: Charge) -> None:
        super().add(amount, charge)
        if len(self._stretches) + len(self._costs) > MAX_STRETCHES:
            self._fold()

    def _upper_bound(self) -> int:
        return super()._upper_bound() + max(self._before)

    def _dearest(self, since: int, added: Sequence[Stretch], blocks: Mapping[int, Stretch]) -> int:
        across = sum(stretch.amount for stretch in added if stretch.first <= self._cut)
        items = self._items(added, blocks, BEGINNING)
        before = [cost + (across if count else 0) for count, cost in enumerate(self._before)]
        counts = range(self._count + 1) if any(before) else (self._count,)
        return max(before[self._count - count] + self._after(items, count) for count in counts)

    def _after(self, items: Sequence[Stretch], count: int) -> int:
        """The most that ``count`` timestamps after the cut cost."""
        assert self._now is not None
        if not items or not count:
            return 0
        if all(item.first == item.last for item in items):
            costs: dict[int, int] = {}
            for item in items:
                costs[item.last] = costs.get(item.last, 0) + item.amount
            return sum(nlargest(count, costs.values()))
        return dearest_stretches(items, [(self._cut + 1, self._now, count)])

    def _prune(self) -> None:
        """Leave out single timestamps for which c later ones, which every later charge reaches too, are as dear."""
        if len(self._costs) <= 2 * self._count or self._stretches or self._blocks:
            return
        dear: list[int] = []
        kept: dict[int, int] = {}
        for t in sorted(self._costs, reverse=True):
            if len(dear) < self._count or self._costs[t] > dear[-1]:
                kept[t] = self._costs[t]
                dear = nlargest(self._count, [*dear, self._costs[t]])
        self._costs = kept

    def _fold(self) -> None:
        """Move the cut up as far as no charge that can still grow or overlap lies across it."""
        assert self._now is not None
        cut = min([self._now, *(s.first for s in self._blocks.values())]) - 1
        spans = sorted(self._stretches, key=lambda s: -s.last)
        for stretch in spans:
            if stretch.first <= cut < stretch.last:
                cut = stretch.first - 1
        if cut <= self._cut:
            return
        old = [item for item in self._items((), {}, BEGINNING) if item.last <= cut]
        after = [
            dearest_stretches(old, [(self._cut + 1, cut, count)]) if count else 0 for count in range(self._count + 1)
        ]
        self._before = [
            max(self._before[some] + after[count - some] for some in range(count + 1))
            for count in range(self._count + 1)
        ]
        self._stretches = [s for s in self._stretches if s.last > cut]
        self._costs = {t: cost for t, cost in self._costs.items() if t > cut}
        self._cut = cut

    def _would_cost_past(self, reached: Sequence[tuple[int, int]]) -> int:
        return 0

    def _add_to_past(self, begins: int, amount: int) -> None:
        if begins <= self._cut:
            self._before = [cost + (amount if count else 0) for count, cost in enumerate(self._before)]

    def _rescale_past(self, factor: int) -> None:
        self._before = [cost * factor for cost in self._before]


def _largest_sums(costs: Sequence[int], count: int) -> list[int]:
    """The sum of the ``count`` largest of the first 1, 2, … costs.

    >>> _largest_sums([2, 5, 1, 4], 2)
    [2, 7, 7, 9]
    """
    largest: list[int] = []
    total, sums = 0, list[int]()
    for cost in costs:
        total += cost
        if len(largest) < count:
            heappush(largest, cost)
        else:
            total -= heappushpop(largest, cost)
        sums.append(total)
    return sums
