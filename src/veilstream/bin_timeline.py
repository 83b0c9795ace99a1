"""Event-level accounting bin by bin: an event lies in one bin, so bins are charged in parallel.

For every bin three exact costs are kept: that of the present timestamp, the largest since the bin's ``edge`` and the
largest before it. A charge with ``since`` publishes and closes a group of timestamps: the edge moves up behind it, so
that pending timestamps are told apart from spent ones. Its span may end before the present timestamp, which then costs
nothing. A charge that reaches back past the edge sees the larger cost: it can be refused too early, never admitted
too late.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.types import Charge

SAFE = 1 << 61


class BinTimeline:
    """Costs per bin and timestamp as whole multiples of one unit, which shrinks when a charge needs it.

    >>> from veilstream.types import Span
    >>> line = BinTimeline(bins=3, before=Fraction(0), cost=Fraction(0), now=0)
    >>> line.add(Fraction(1, 2), Charge(Fraction(1, 2), Span(0, 0), "publish", bins=np.array([0, 1])))
    >>> line.add(Fraction(1, 3), Charge(Fraction(1, 3), Span(0, 0), "publish", bins=np.array([1, 2])))
    >>> line.current
    Fraction(5, 6)
    """

    def __init__(self, bins: int, before: Fraction, cost: Fraction, now: int | None = None) -> None:
        self._unit = lcm(before.denominator, cost.denominator)
        self._edge: NDArray[np.int64] = np.full(bins, np.iinfo(np.int64).min, dtype=np.int64)
        self._old: NDArray[Any] = np.zeros(bins, dtype=np.int64)
        self._new: NDArray[Any] = np.full(bins, int(before * self._unit), dtype=np.int64)
        self._cost: NDArray[Any] = np.full(bins, int(cost * self._unit), dtype=np.int64)
        self._charged_now = cost > 0
        self._closing: list[NDArray[np.int64] | slice] = []
        # Never below the sum of the largest of the three costs, each of which a charge can raise: it spares looking for
        # them at every charge.
        self._bound = int(before * self._unit) + int(cost * self._unit)
        self._blocks: dict[int, int | None] = {}
        self._at = now

    @property
    def current(self) -> Fraction:
        return Fraction(int(self._cost.max(initial=0)), self._unit)

    def advance(self, now: int) -> None:
        if self._at is not None and now > self._at:
            np.maximum(self._new, self._cost, out=self._new)
            self._cost.fill(0)
            self._charged_now = False
            for bins in self._closing:
                self._old[bins] = np.maximum(self._old[bins], self._new[bins])
                self._new[bins] = 0
                self._edge[bins] = now
            self._closing.clear()
        self._at = now

    def would_cost(self, wanted: list[tuple[Fraction, Charge]]) -> Fraction:
        """Cost of the fullest bin and timestamp among those that ``wanted`` charges, with them."""
        self._refine([amount for amount, _ in wanted])
        if len(wanted) == 1:
            return self._with_one(*wanted[0])
        worst = self._cost.copy()
        past = np.zeros_like(self._cost)
        for amount, charge in wanted:
            step = int(amount * self._unit)
            if self._costs_now(charge):
                worst[self._bins_of(charge)] += step
            if self._reaches_back(charge):
                past[self._reached(charge)[0]] += step
        for _, charge in wanted:
            if self._reaches_back(charge):
                bins, since = self._reached(charge)
                worst[bins] = np.maximum(worst[bins], self._seen(bins, since) + past[bins])
        return Fraction(int(worst.max(initial=0)), self._unit)

    def _with_one(self, amount: Fraction, charge: Charge) -> Fraction:
        worst = 0
        if self._costs_now(charge) and self._charged_now:
            worst = int(self._cost[self._bins_of(charge)].max(initial=0))
        if self._reaches_back(charge):
            worst = max(worst, int(self._seen(*self._reached(charge)).max(initial=0)))
        return Fraction(worst, self._unit) + amount

    def _seen(self, bins: NDArray[np.int64] | slice, since: NDArray[np.int64] | int) -> NDArray[Any]:
        """The largest cost of the past timestamps of each bin that a charge since then can touch."""
        new: NDArray[Any] = self._new[bins]
        past = since < self._edge[bins]
        return np.where(past, np.maximum(self._old[bins], new), new) if past.any() else new

    def add(self, amount: Fraction, charge: Charge) -> None:
        self._refine([amount])
        step = int(amount * self._unit)
        if self._costs_now(charge):
            if self._charged_now:
                self._cost[self._bins_of(charge)] += step
            else:
                self._cost[self._bins_of(charge)] = step
            self._charged_now = True
        if charge.block is not None:
            self._blocks[charge.block] = self._at
        if self._reaches_back(charge):
            bins, since = self._reached(charge)
            past = since < self._edge[bins]
            if past.any():
                self._old[bins] += np.where(past, step, 0)
            self._new[bins] += step
        if charge.since is not None:
            self._closing.append(self._bins_of(charge))

    def _bins_of(self, charge: Charge) -> NDArray[np.int64] | slice:
        return slice(None) if charge.bins is None else charge.bins

    def _reached(self, charge: Charge) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64] | int]:
        """The bins that the charge reaches back in, and since when."""
        if charge.since is None or charge.bins is None:
            return self._bins_of(charge), charge.span.first
        back = charge.since < (charge.span.last if self._at is None else self._at)
        if back.all():
            return charge.bins, charge.since
        chosen = np.flatnonzero(back)
        return charge.bins[chosen], charge.since[chosen]

    def _reaches_back(self, charge: Charge) -> bool:
        return charge.block is None and self._at is not None and charge.span.first < self._at

    def _costs_now(self, charge: Charge) -> bool:
        if charge.block is not None:
            return self._blocks.get(charge.block, ...) != self._at
        return self._at is None or charge.span.last >= self._at

    def _refine(self, amounts: list[Fraction]) -> None:
        """Make the unit divide all ``amounts``, and leave machine integers before a sum could pass them."""
        unit = lcm(self._unit, *(amount.denominator for amount in amounts))
        factor = unit // self._unit
        asked = 3 * sum(int(amount * unit) for amount in amounts)
        self._bound = self._bound * factor + asked
        if self._bound > SAFE and self._cost.dtype != object:
            largest = sum(int(cost.max(initial=0)) for cost in (self._old, self._new, self._cost))
            self._bound = largest * factor + asked
            if self._bound > SAFE:
                self._old = self._old.astype(object)
                self._new = self._new.astype(object)
                self._cost = self._cost.astype(object)
        if factor > 1:
            self._old = self._old * factor
            self._new = self._new * factor
            self._cost = self._cost * factor
            self._unit = unit
