"""The cost of every window of time, exact, in memory that does not grow with the stream.

A charge over ``first..now`` counts in each window of ``w`` timestamps that it touches. Charges arrive in the order of
time and end at the present, so two small structures answer "what would the fullest window cost?" exactly:

* windows that end at or after now: the fuller, the earlier they end, so only the one that ends *now* matters, a
  running sum over the last w timestamps;
* windows that ended before now: only a charge that reaches back touches them, and it touches all that ended since
  its ``first``. A stack of suffix maxima (end of window, cost), costs strictly falling, holds all that can ever matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from fractions import Fraction

from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.charge import Charge

MAX_STEPS_IN_STACK = 4096
"""Beyond it the two oldest entries merge on the larger cost: never too little is charged."""

ZERO = Fraction(0)


class WindowTimeline:
    """The cost of every window of ``w`` timestamps (one window for ever if ``w`` is None) under charges so far.

    >>> from veilstream.privacy.charge import Span
    >>> line = WindowTimeline(w=3)
    >>> for t in range(5):
    ...     line.advance(t)
    ...     line.add(Fraction(1, 4), Charge(Fraction(1, 4), Span(t, t), "publish"))
    >>> line.peak(first=4), line.peak(first=0)
    (Fraction(3, 4), Fraction(3, 4))
    >>> line.add(Fraction(1, 8), Charge(Fraction(1, 8), Span(3, 4), "publish"))
    >>> line.peak(first=4), line.peak(first=3)
    (Fraction(7, 8), Fraction(7, 8))
    """

    def __init__(self, w: int | None) -> None:
        self._w = w
        self._now: int | None = None
        self._total = ZERO
        self._recent: deque[tuple[int, Fraction]] = deque()
        self._blocks: dict[int, tuple[int, Fraction]] = {}
        self._ends: list[int] = []
        self._costs: list[Fraction] = []

    @property
    def current(self) -> Fraction:
        """Cost of the window that ends now, the fullest of those still open."""
        return self._total

    @property
    def unit(self) -> str:
        return "whole stream" if self._w is None else f"window of {self._w}"

    def advance(self, now: int) -> None:
        if self._w is None or self._now is None:
            self._now = now
            return
        while self._now < now and self._total:
            self._push(self._now, self._total)
            self._now += 1
            self._expire(self._now - self._w)
        self._now = now

    def _expire(self, oldest: int) -> None:
        while self._recent and self._recent[0][0] <= oldest:
            self._total -= self._recent.popleft()[1]
        for last, amount in self._blocks.values():
            if last == oldest:
                self._total -= amount

    def _push(self, end: int, cost: Fraction) -> None:
        while self._costs and self._costs[-1] <= cost:
            self._costs.pop()
            self._ends.pop()
        self._costs.append(cost)
        self._ends.append(end)
        if len(self._costs) > MAX_STEPS_IN_STACK:
            del self._ends[0], self._costs[1]

    def peak(self, first: int) -> Fraction:
        """Cost of the fullest window that a charge over ``first..now`` touches."""
        index = bisect_left(self._ends, first)
        return max(self._total, self._costs[index]) if index < len(self._costs) else self._total

    def would_cost(self, wanted: Sequence[tuple[Fraction, Charge]]) -> Fraction:
        if len(wanted) == 1 and wanted[0][1].block is None:
            amount, charge = wanted[0]
            return self.peak(charge.span.first) + amount
        reach = sorted(self._growth(amount, charge) for amount, charge in wanted)
        worst, sofar = ZERO, ZERO
        for first, amount in reach:
            sofar += amount
            worst = max(worst, self.peak(first) + sofar)
        return worst

    def add(self, amount: Fraction, charge: Charge) -> None:
        """Charge ``amount`` to every window that touches ``charge.span.first..now``; a known block only grows."""
        assert self._now is not None
        first, block = charge.span.first, charge.block
        if self._w is None:
            if block not in self._blocks:
                self._total += amount
        elif block is not None and block in self._blocks:
            last = self._blocks[block][0]
            if last + self._w <= self._now:
                self._add_to_past(amount, last + self._w)
                self._total += amount
        else:
            self._add_to_past(amount, first)
            self._total += amount
        if block is not None:
            self._blocks[block] = (self._now, amount)
        elif self._w is not None:
            self._recent.append((self._now, amount))

    def _growth(self, amount: Fraction, charge: Charge) -> tuple[int, Fraction]:
        """Since which window's end a charge newly costs, and how much: the growth alone of a known block."""
        assert self._now is not None
        if charge.block is None or charge.block not in self._blocks:
            return charge.span.first, amount
        last = self._blocks[charge.block][0]
        if self._w is None or last + self._w > self._now:
            return self._now, ZERO
        return last + self._w, amount

    def close(self, block: int) -> None:
        last, amount = self._blocks.pop(block, (0, ZERO))
        if amount and self._w is not None and self._now is not None and last > self._now - self._w:
            self._insert(last, amount)

    def _insert(self, last: int, amount: Fraction) -> None:
        later: list[tuple[int, Fraction]] = []
        while self._recent and self._recent[-1][0] > last:
            later.append(self._recent.pop())
        self._recent.append((last, amount))
        self._recent.extend(reversed(later))

    def _add_to_past(self, amount: Fraction, first: int) -> None:
        assert self._now is not None
        if first >= self._now or amount == 0:
            return
        if not self._ends or self._ends[-1] < self._now - 1:
            self._ends.append(self._now - 1)
            self._costs.append(ZERO)
        index = bisect_left(self._ends, first)
        self._costs[index:] = [cost + amount for cost in self._costs[index:]]
        while index > 0 and self._costs[index - 1] <= self._costs[index]:
            index -= 1
            del self._ends[index], self._costs[index]

    def by_bin(self, bins: int, now: int | None) -> BinTimeline:
        return BinTimeline(bins, before=self.peak(-(1 << 62)), cost=self._total, now=now)
