"""The cost of any few timestamps of a whole stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import nlargest
from typing import Final

from veilstream.privacy.charge import Charge
from veilstream.privacy.presence import BEGINNING, Anywhere
from veilstream.privacy.presence_base import PresenceTimeline
from veilstream.privacy.presence_placement import Stretch, dearest_stretches

MAX_STRETCHES: Final = 128
"""So many charges are remembered one by one where nothing is ever forgotten; older ones are summed up."""


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
        if now == self._now:
            # A step that is tried again: what is known must follow from the recorded charges alone.
            return
        self._now = now
        self._prune()

    def add(self, amount: Fraction, charge: Charge) -> None:
        super().add(amount, charge)
        if len(self._stretches) + len(self._costs) > MAX_STRETCHES:
            self._fold()

    @property
    def fullest(self) -> Fraction:
        if self._now is None:
            return Fraction(0)
        return Fraction(self._dearest(self._now, (), self._blocks), self._denominator)

    def _summed_up(self) -> tuple[list[int], list[int], int | None]:
        return self._before, [], self._cut

    def _restore_past(self, costs: list[int], ends: list[int], cut: int | None) -> None:
        self._before, self._cut = costs, BEGINNING if cut is None else cut

    def _upper_bound(self) -> int:
        return super()._upper_bound() + max(self._before)

    def _dearest(self, since: int, added: Sequence[Stretch], blocks: Mapping[int, Stretch]) -> int:
        across = sum(stretch.amount for stretch in added if stretch.first <= self._cut)
        for number, stretch in blocks.items():
            if stretch.first <= self._cut:
                known = self._blocks.get(number, stretch._replace(amount=0))
                across += stretch.amount - (known.amount if known.first <= self._cut else 0)
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
