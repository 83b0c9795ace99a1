"""How much a look may cost so that a look at every later step can still be paid for.

Amounts are whole multiples of ε·2⁻⁵⁰, so that every sum is exact. A charge sits at the step of its last look.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

UNITS: Final = 1 << 50
"""A whole budget, in units."""
KEPT: Final = Fraction(3, 4)
"""Of Uniform's share, what is kept for each step to come."""


@dataclass(frozen=True, slots=True)
class Period:
    """The steps that share one budget: ``window`` successive ones, sliding, or all up to ``last`` (then no window).

    ``kept`` is what stays for every later step, in units.
    """

    window: int
    last: int | None = None

    @property
    def even(self) -> int:
        """Uniform's charge, in units."""
        return UNITS // self.window

    @property
    def kept(self) -> int:
        return int(KEPT * UNITS / self.window)


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """Charges that a window to come may still count, oldest first."""

    ends: NDArray[np.int64]
    amounts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Self:
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing)

    def charged(self, end: int, amount: int, now: int, window: int) -> Book:
        """With one charge more, and without those that no window from ``now`` on touches."""
        live = self.ends > now - window
        return Book(np.append(self.ends[live], end), np.append(self.amounts[live], amount))

    def room(self, now: int, period: Period, length: int = 1) -> int:
        """The most that looks at ``length`` successive steps from ``now`` on may cost together, in units.

            room = min over j of [ε − Σ of charges that a window ending at now + j counts − ρ·max(0, j − length + 1)],

        0 ≤ j < w + length − 1. Lemma: if every charge is at most the room at its time, then no window costs more than
        ε, and the room for a single look is at least ρ at every step. For after a charge e that ends at now + length −
        1 the bracket of the next step's room is, for windows that still count e, that of this room with e taken off
        and one ρ added back, hence at least ρ; the only other window is the one that counts no charge at all, whose
        bracket is ε − (w−1)·ρ ≥ ρ. So a look at every step for ρ can be afforded from any moment on.
        """
        window, kept = period.window, period.kept
        furthest = window + length - 2
        if period.last is not None:
            furthest = min(furthest, period.last - now)
        counted = self.ends > now - window
        ends, amounts = self.ends[counted], self.amounts[counted]
        sums = np.append(np.cumsum(amounts[::-1])[::-1], 0)
        until = np.append(np.minimum(ends + window - 1 - now, furthest), furthest)
        brackets = UNITS - sums - kept * np.maximum(until - length + 1, 0)
        return int(brackets.min())


def exact(units: int, epsilon: Fraction) -> Fraction:
    """An amount in units as a budget."""
    if units < 1:
        raise InvalidInputError(name="charge", value=units, limit="there is no room for a look")
    return Fraction(units, UNITS) * epsilon
