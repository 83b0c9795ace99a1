"""Exact accounting over every window of time, in memory that does not grow with the stream.

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
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from veilstream.bin_timeline import BinTimeline
from veilstream.errors import BudgetExceeded, InvalidInput, OutOfOrder
from veilstream.guarantee import Guarantee
from veilstream.types import Charge

MAX_STEPS_IN_STACK = 4096
"""Beyond it the two oldest entries merge on the larger cost: never too little is charged."""

ZERO = Fraction(0)


class Timeline:
    """The cost of every window of ``w`` timestamps (one window for ever if ``w`` is None) under charges so far.

    >>> line = Timeline(w=3)
    >>> for t in range(5):
    ...     line.advance(t)
    ...     line.add(Fraction(1, 4), first=t)
    >>> line.peak(first=4), line.peak(first=0)
    (Fraction(3, 4), Fraction(3, 4))
    >>> line.add(Fraction(1, 8), first=3)
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

    def advance(self, now: int) -> None:
        """Let time pass up to ``now``."""
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

    def add(self, amount: Fraction, first: int, block: int | None = None) -> None:
        """Charge ``amount`` to every window that touches ``first..now``; a known ``block`` only grows."""
        assert self._now is not None
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

    def growth(self, amount: Fraction, first: int, block: int) -> tuple[Fraction, int]:
        """What growing ``block`` to now would newly cost, and since which window's end."""
        assert self._now is not None
        if block not in self._blocks:
            return amount, first
        if self._w is None or self._blocks[block][0] + self._w > self._now:
            return ZERO, self._now
        return amount, self._blocks[block][0] + self._w

    def close(self, block: int) -> None:
        """The block will not grow any more."""
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


class Accountant:
    """Admits a charge only if no window passes the guarantee; refuses it before anything is drawn.

    >>> from veilstream.types import Span
    >>> book = Accountant(Guarantee(1, w=2), bins=10)
    >>> for t in range(3):
    ...     book.advance(t)
    ...     book.admit([Charge(Fraction(1, 2), Span(t, t), "publish")])
    >>> book.left
    Fraction(0, 1)
    >>> book.admit([Charge(Fraction(1, 4), Span(2, 2), "publish")])
    Traceback (most recent call last):
    ...
    veilstream.errors.BudgetExceeded: charge 1/4 for 'publish' at t=2: window of 2 would cost 5/4, budget is 1;
    nothing was released
    """

    def __init__(self, guarantee: Guarantee, bins: int) -> None:
        self.guarantee = guarantee
        self.now: int | None = None
        self._pure: Timeline | BinTimeline = Timeline(guarantee.w)
        self._gaussian: Timeline | BinTimeline = Timeline(guarantee.w)
        self.bins = bins
        self.unnamed = False
        """Whether bins are counted by themselves without a charge that shows it yet."""
        self._next_block = 0

    @property
    def left(self) -> Fraction:
        """Pure epsilon left in the fullest window that includes now."""
        return self.guarantee.pure - self._pure.current * self._timestamps

    @property
    def gaussian_left(self) -> Fraction:
        """μ² left in the fullest window that includes now."""
        return self.guarantee.mu_squared - self._gaussian.current

    @property
    def nominal_left(self) -> Fraction:
        """Epsilon left, Gaussian charges counted by their share of μ²."""
        left = self.left
        if self.guarantee.mu_squared:
            reserve = self.guarantee.epsilon - self.guarantee.pure
            left += reserve * (self.gaussian_left / self.guarantee.mu_squared)
        return left

    @property
    def _timestamps(self) -> int:
        """How many timestamps of the fullest cost make up a window, where they are charged one by one."""
        return (self.guarantee.w or 1) if isinstance(self._pure, BinTimeline) else 1

    def charge_by_event(self) -> None:
        """Count every bin and timestamp by itself from the first pure charge on, each up to its share ε/w.

        Then w timestamps cost ε at most. The first charge must name bins, so that a ledger shows how all are counted.
        """
        if isinstance(self._pure, BinTimeline):
            return
        if self.guarantee.w is None or self._pure.peak(-(1 << 62)):
            raise BudgetExceeded(
                f"charges by bin and timestamp under {self.guarantee}: they need a window, and to be the first of a "
                "stream; nothing was released"
            )
        self._pure = self._by_bin(self._pure)
        self.unnamed = self.guarantee.w > 1

    def new_block(self) -> int:
        """A number for a charge that will grow."""
        self._next_block += 1
        return self._next_block

    def advance(self, t: int) -> None:
        if self.now is not None and t < self.now:
            raise OutOfOrder(f"step {t}: the stream is at {self.now} already; nothing was released")
        self.now = t
        self._pure.advance(t)
        self._gaussian.advance(t)

    def admit(self, charges: Iterable[Charge], tentative: Iterable[Charge] = ()) -> None:
        """Charge all of ``charges``; refuse all if they, together with ``tentative`` ones, would pass the guarantee.

        ``tentative`` charges are those that the outcome of a comparison may bring: they must be affordable
        before the comparison is made.
        """
        certain = list(charges)
        self._check([*certain, *tentative])
        for charge in certain:
            self._count(charge)

    def replay(self, charge: Charge) -> None:
        """Count a charge that was admitted before, as the ledger recorded it."""
        self._name_bins([charge])
        self._count(charge)

    def _count(self, charge: Charge) -> None:
        self.unnamed = False
        if charge.block is not None:
            self._next_block = max(self._next_block, charge.block)
            if charge.epsilon == 0 and isinstance(self._pure, Timeline):
                self._pure.close(charge.block)
        for line, amount in ((self._pure, charge.epsilon), (self._gaussian, charge.mu_squared)):
            if amount == 0:
                continue
            if isinstance(line, BinTimeline):
                line.add(amount, charge)
            else:
                line.add(amount, charge.span.first, charge.block)

    def _name_bins(self, charges: list[Charge]) -> None:
        """Count by bin from now on where a charge names bins."""
        for charge in charges:
            if charge.bins is not None and charge.epsilon:
                self._pure = self._by_bin(self._pure)
            if charge.bins is not None and charge.mu_squared:
                self._gaussian = self._by_bin(self._gaussian)

    def _by_bin(self, line: Timeline | BinTimeline) -> BinTimeline:
        if isinstance(line, BinTimeline):
            return line
        return BinTimeline(self.bins, before=line.peak(-(1 << 62)), cost=line.current, now=self.now)

    def _check(self, charges: list[Charge]) -> None:
        # A unit in k timestamps of a sum costs k times their pure charge, but k² times their μ².
        if self._timestamps > 1 and any(charge.mu_squared for charge in charges):
            raise BudgetExceeded(
                f"charge for {charges[0].purpose!r} is Gaussian in a stream that is charged by event under "
                f"{self.guarantee}: only pure charges add up so; nothing was released"
            )
        if any(charge.bins is not None for charge in charges):
            if self.guarantee.w != 1 and not isinstance(self._pure, BinTimeline):
                raise BudgetExceeded(
                    f"charge for {charges[0].purpose!r} names bins under {self.guarantee}: only at w=1 is one unit "
                    "in one bin, unless all is charged by event; nothing was released"
                )
            self._check_names(charges)
            self._name_bins(charges)
        share = self.guarantee.pure
        if self._timestamps > 1:
            share /= self._timestamps
        self._check_line(self._pure, [(c.epsilon, c) for c in charges], share, "budget")
        self._check_line(
            self._gaussian, [(c.mu_squared, c) for c in charges], self.guarantee.mu_squared, "Gaussian budget"
        )

    def _check_names(self, charges: list[Charge]) -> None:
        for charge in charges:
            if charge.bins is not None and charge.bins.dtype == np.bool_ and charge.bins.shape != (self.bins,):
                raise InvalidInput(
                    f"charge for {charge.purpose!r}: truth values for {charge.bins.size} bins, where there are "
                    f"{self.bins}; nothing was released"
                )

    def _check_line(
        self,
        line: Timeline | BinTimeline,
        wanted: list[tuple[Fraction, Charge]],
        budget: Fraction,
        name: str,
    ) -> None:
        wanted = [(amount, charge) for amount, charge in wanted if amount]
        if not wanted:
            return
        for amount, charge in wanted:
            if amount.numerator < 0:
                raise BudgetExceeded(f"charge {amount} for {charge.purpose!r}: it is negative; nothing was released")
        cost = self._would_cost(line, wanted)
        if cost > budget:
            amount = sum((amount for amount, _ in wanted), ZERO)
            window = "whole stream" if self.guarantee.w is None else f"window of {self.guarantee.w}"
            if isinstance(line, BinTimeline):
                window = "one timestamp"
            raise BudgetExceeded(
                f"charge {amount} for {wanted[0][1].purpose!r} at t={self.now}: {window} would cost {cost}, "
                f"{name} is {budget}; nothing was released"
            )

    def _would_cost(self, line: Timeline | BinTimeline, wanted: list[tuple[Fraction, Charge]]) -> Fraction:
        if isinstance(line, BinTimeline):
            return line.would_cost(wanted)
        reach: list[tuple[int, Fraction]] = []
        for amount, charge in wanted:
            if charge.block is None:
                reach.append((charge.span.first, amount))
            else:
                extra, first = line.growth(amount, charge.span.first, charge.block)
                reach.append((first, extra))
        reach.sort()
        worst, sofar = ZERO, ZERO
        for first, amount in reach:
            sofar += amount
            worst = max(worst, line.peak(first) + sofar)
        return worst
