"""What every person has spent, exactly, in every window of time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import BudgetExceededError, InvalidBudgetError, OutOfOrderError
from veilstream.personalised.roster import UNIT, Roster
from veilstream.privacy.charge import Charge, Span

MOST_ROWS: Final = 40
"""Up to so many different costs are recorded one by one, more of them by their binary digits."""

Whole: TypeAlias = NDArray[Any]
"""Python's whole numbers in an object array: they never overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelCosts:
    """What one measurement costs a person of each level: ``parts[level] · scale``, exact.

    >>> LevelCosts.at_rate(np.array([1, 2]), Fraction(1, 3))[1]
    Fraction(2, 3)
    """

    parts: NDArray[np.int64]
    scale: Fraction

    @classmethod
    def at_rate(cls, parts: NDArray[np.int64], scale: Fraction) -> LevelCosts:
        return cls(np.asarray(parts, dtype=np.int64), scale)

    @classmethod
    def of_levels(cls, roster: Roster, levels: NDArray[np.int64], epsilon: Fraction) -> LevelCosts:
        """``epsilon`` for everybody of some levels, nothing for others."""
        parts = np.zeros(roster.levels, dtype=np.int64)
        parts[levels] = 1
        return cls(parts, epsilon)

    def __getitem__(self, level: int) -> Fraction:
        return int(self.parts[level]) * self.scale

    def charges(self, span: Span, purpose: str) -> list[Charge]:
        """The same as charges that name levels where others name bins; what names a level adds up to its cost.

        One for each different cost, or, where there are many, one for each binary digit of ``parts``.

        >>> [(str(c.epsilon), c.bins.tolist()) for c in LevelCosts.at_rate(
        ...     np.array([1, 2, 2]), Fraction(1, 3)).charges(Span(0, 0), "counts")]
        [('1/3', [0]), ('2/3', [1, 2])]
        """
        costs = np.unique(self.parts[self.parts > 0])
        if costs.size <= MOST_ROWS:
            named = [(cost, np.flatnonzero(self.parts == cost)) for cost in costs.tolist()]
        else:
            digits = range(int(costs[-1]).bit_length())
            named = [(1 << digit, np.flatnonzero((self.parts >> digit) & 1)) for digit in digits]
        return [Charge(part * self.scale, span, purpose, bins=levels) for part, levels in named if levels.size]


class PersonalAccounts:
    """One account per level of a roster: nobody's costs in any ``w`` successive timestamps pass their own epsilon.

    People of one level have the same budget and are charged alike, so an account per level is an account per person.
    ``w=None`` never forgets. Costs are exact fractions; a measurement that one single person could not afford is
    refused for everybody, before anything is drawn.

    >>> accounts = PersonalAccounts(Roster.of_budgets(["0.5", "0.25"]))
    >>> accounts.admit(LevelCosts.at_rate(np.array([1, 1]), Fraction(1, 8)), "counts")
    >>> [str(left) for left in accounts.left()]
    ['1/8', '3/8']
    >>> accounts.admit(LevelCosts.at_rate(np.array([1, 1]), Fraction(1, 4)), "counts")
    Traceback (most recent call last):
    ...
    veilstream.errors.BudgetExceededError: charge 1/4 for 'counts' at t=0: people of budget 1/4 would have spent 3/8 in
    all that is recorded; nothing was released
    """

    def __init__(self, roster: Roster, w: int | None = None) -> None:
        if w is not None and (type(w) is not int or w < 1):
            raise InvalidBudgetError(name="window", value=w, limit="a whole number from 1, or None for ever")
        self.roster = roster
        self.w = w
        self.now = 0
        self._unit = UNIT
        self._budget: Whole = roster.units.astype(object)
        self._spent: Whole = np.zeros(roster.levels, dtype=object)
        self._recent: deque[tuple[int, Whole, int]] = deque()

    def advance(self, t: int) -> None:
        """Let time pass up to ``t``; what lies w steps back is no longer in the window."""
        if t < self.now:
            raise OutOfOrderError(name="step", value=t, limit=f"the accounts are at {self.now} already")
        self.now = t
        while self.w is not None and self._recent and self._recent[0][0] <= t - self.w:
            _, amounts, unit = self._recent.popleft()
            self._spent = self._spent - amounts * (self._unit // unit)

    def admit(self, costs: LevelCosts, purpose: str) -> None:
        """Charge every level, or refuse and charge none."""
        if costs.scale < 0 or int(costs.parts.min(initial=0)) < 0:
            raise InvalidBudgetError(name="charge for", value=purpose, limit="it is negative")
        self._refine(costs.scale.denominator)
        amounts = costs.parts.astype(object) * int(costs.scale * self._unit)
        after = self._spent + amounts
        over = np.flatnonzero(after > self._budget)
        if over.size:
            level = int(over[0])
            window = "all that is recorded" if self.w is None else f"a window of {self.w}"
            raise BudgetExceededError(
                f"charge {costs[level]} for {purpose!r} at t={self.now}: people of budget "
                f"{Fraction(int(self.roster.units[level]), UNIT)} would have spent "
                f"{Fraction(after[level], self._unit)} in {window}"
            )
        self._spend(amounts)

    def replay(self, charge: Charge) -> None:
        """Count a charge that was admitted before, as the ledger recorded it: its bins are levels."""
        if charge.span.last > self.now:
            self.advance(charge.span.last)
        self._refine(charge.epsilon.denominator)
        amounts: Whole = np.zeros(self.roster.levels, dtype=object)
        amounts[charge.bins] = int(charge.epsilon * self._unit)
        self._spend(amounts)

    def _spend(self, amounts: Whole) -> None:
        self._spent = self._spent + amounts
        if self.w is not None:
            self._recent.append((self.now, amounts, self._unit))

    def spent(self) -> list[Fraction]:
        """What a person of each level has spent in the window that ends now."""
        return [Fraction(amount, self._unit) for amount in self._spent.tolist()]

    def left(self) -> list[Fraction]:
        """What a person of each level has left in the window that ends now."""
        return [Fraction(amount, self._unit) for amount in (self._budget - self._spent).tolist()]

    def _refine(self, denominator: int) -> None:
        unit = lcm(self._unit, denominator)
        if unit != self._unit:
            factor = unit // self._unit
            self._budget, self._spent, self._unit = self._budget * factor, self._spent * factor, unit
