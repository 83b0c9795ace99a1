"""The cost of sets of timestamps within windows or blocks, which time leaves behind."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from heapq import heappush, heappushpop, nlargest
from typing import Final

from veilstream.privacy.presence import Rule
from veilstream.privacy.presence_base import PresenceTimeline
from veilstream.privacy.presence_placement import Stretch, dearest_stretches

MAX_STEPS_IN_STACK: Final = 4096
"""Beyond it the two oldest entries merge on the larger cost: never too little is charged."""


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

    @property
    def fullest(self) -> Fraction:
        if self._now is None:
            return Fraction(0)
        return Fraction(max([self._dearest(self._now, (), self._blocks), *self._peaks[:1]]), self._denominator)

    def _summed_up(self) -> tuple[list[int], list[int], int | None]:
        return self._peaks, self._ends, None

    def _restore_past(self, costs: list[int], ends: list[int], cut: int | None) -> None:
        self._peaks, self._ends = costs, ends

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
        # Sets that meet a charge from ``since`` on must be among those that are tried, whether one begins there or not.
        begun = {since, *(item.first for item in items)}
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
