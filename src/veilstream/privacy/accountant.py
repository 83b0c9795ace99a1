"""Exact accounting: a charge is admitted only if no window passes the guarantee."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from veilstream.errors import BudgetExceededError, InvalidInputError, OutOfOrderError
from veilstream.privacy.bin_timeline import BinTimeline
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.timeline import ZERO, Timeline


class Accountant:
    """Admits a charge only if no window passes the guarantee; refuses it before anything is drawn.

    >>> from veilstream.privacy.charge import Span
    >>> book = Accountant(Guarantee(1, w=2), bins=10)
    >>> for t in range(3):
    ...     book.advance(t)
    ...     book.admit([Charge(Fraction(1, 2), Span(t, t), "publish")])
    >>> book.left
    Fraction(0, 1)
    >>> book.admit([Charge(Fraction(1, 4), Span(2, 2), "publish")])
    Traceback (most recent call last):
    ...
    veilstream.errors.BudgetExceededError: charge 1/4 for 'publish' at t=2: window of 2 would cost 5/4, budget is 1;
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

    def charge_per_timestamp(self) -> None:
        """Count every bin and timestamp by itself from the first pure charge on, each up to its share ε/w.

        Then w timestamps cost ε at most. The first charge must name bins, so that a ledger shows how all are counted.
        """
        if isinstance(self._pure, BinTimeline):
            return
        if self.guarantee.w is None or self._pure.peak(-(1 << 62)):
            raise BudgetExceededError(
                f"charges by bin and timestamp under {self.guarantee}: they need a window, and to be the "
                "first of a stream"
            )
        self._pure = self._by_bin(self._pure)
        self.unnamed = self.guarantee.w > 1

    def new_block(self) -> int:
        """A number for a charge that will grow."""
        self._next_block += 1
        return self._next_block

    def advance(self, t: int) -> None:
        if self.now is not None and t < self.now:
            raise OutOfOrderError(name="step", value=t, limit=f"the stream is at {self.now} already")
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
            raise BudgetExceededError(
                f"charge for {charges[0].purpose!r} is Gaussian in a stream that is charged by event under "
                f"{self.guarantee}: only pure charges add up so"
            )
        if any(charge.bins is not None for charge in charges):
            if self.guarantee.w != 1 and not isinstance(self._pure, BinTimeline):
                raise BudgetExceededError(
                    f"charge for {charges[0].purpose!r} names bins under {self.guarantee}: only at w=1 is one "
                    "unit in one bin, unless all is charged by event"
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
                raise InvalidInputError(
                    name="charge for",
                    value=charge.purpose,
                    limit=f"truth values for {charge.bins.size} bins, where there are {self.bins}",
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
                raise BudgetExceededError(f"charge {amount} for {charge.purpose!r}: it is negative")
        cost = self._would_cost(line, wanted)
        if cost > budget:
            amount = sum((amount for amount, _ in wanted), ZERO)
            window = "whole stream" if self.guarantee.w is None else f"window of {self.guarantee.w}"
            if isinstance(line, BinTimeline):
                window = "one timestamp"
            raise BudgetExceededError(
                f"charge {amount} for {wanted[0][1].purpose!r} at t={self.now}: {window} would cost {cost}, "
                f"{name} is {budget}"
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
