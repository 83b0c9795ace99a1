"""How much a look may cost so that a look at every later step can still be paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.model.periods import Period


@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """Charges in units that a window to come may still count, oldest first; each sits at the step of its last look.

    >>> period = Period(window=8)
    >>> book = Book.empty()
    >>> kept = 3 * period.even // 4
    >>> room = book.room(0, period, kept)
    >>> book.charged(0, room, 0, period).room(1, period, kept) >= kept
    True
    """

    ends: NDArray[np.int64]
    amounts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Self:
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing)

    def charged(self, end: int, amount: int, now: int, period: Period) -> Book:
        """With one charge more, and without those that no window from ``now`` on touches."""
        live = self.ends > now - period.window
        return Book(np.append(self.ends[live], end), np.append(self.amounts[live], amount))

    def room(self, now: int, period: Period, kept: int, length: int = 1) -> int:
        """The most that looks at ``length`` successive steps from ``now`` on may cost together, in units.

            room = min over j of [ε − Σ of charges that a window ending at now + j counts − ρ·max(0, j − length + 1)],

        0 ≤ j < w + length − 1, where ρ = ``kept`` units are kept for every later step.

        Lemma. If every charge is at most the room at its time, no window costs more than ε, and the room for a single
        look is at least ρ at every step. Proof: no window costs more than ε because each bracket says so of the windows
        that the charge touches. Let e be charged now for looks up to now + length − 1. A bracket of the room at
        now + length for j' < w − 1 counts e and is the bracket for j = j' + length of this room, less e, plus one ρ: at
        least ρ. For j' = w − 1 it counts no charge at all and is ε − (w−1)ρ ≥ ρ. At a step without a look one ρ
        is gained, too. So from any moment on a look at every step can be afforded, each for ρ.
        """
        furthest = period.window + length - 2
        if period.last is not None:
            furthest = min(furthest, period.last - now)
        counted = self.ends > now - period.window
        ends, amounts = self.ends[counted], self.amounts[counted]
        sums = np.append(np.cumsum(amounts[::-1])[::-1], 0)
        until = np.append(np.minimum(ends + (period.window - 1 - now), furthest), furthest)
        brackets = period.units - sums - kept * np.maximum(until - length + 1, 0)
        return int(brackets.min())
