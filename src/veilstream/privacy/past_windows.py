"""The windows that have ended, as far as later charges can tell them apart."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

MAX_STEPS: Final = 4096
"""Beyond it the two oldest entries merge on the larger cost: never too little is charged."""
ZERO: Final = Fraction(0)


@dataclass(slots=True)
class PastWindows:
    """A stack of suffix maxima: the largest cost of all windows that ended since a timestamp, costs strictly falling.

    >>> past = PastWindows()
    >>> for end, cost in ((3, Fraction(1)), (4, Fraction(1, 2)), (5, Fraction(3, 4))):
    ...     past.push(end, cost)
    >>> past.peak(4), past.peak(6), past.ends
    (Fraction(3, 4), Fraction(0, 1), [3, 5])
    """

    ends: list[int] = field(default_factory=list[int])
    costs: list[Fraction] = field(default_factory=list[Fraction])

    def copy(self) -> PastWindows:
        return PastWindows(self.ends.copy(), self.costs.copy())

    def peak(self, first: int) -> Fraction:
        """The largest cost of the windows that ended at ``first`` or later."""
        index = bisect_left(self.ends, first)
        return self.costs[index] if index < len(self.costs) else ZERO

    def push(self, end: int, cost: Fraction) -> None:
        """A window has ended, later than all others."""
        while self.costs and self.costs[-1] <= cost:
            self.costs.pop()
            self.ends.pop()
        self.costs.append(cost)
        self.ends.append(end)
        if len(self.costs) > MAX_STEPS:
            del self.ends[0], self.costs[1]

    def add(self, amount: Fraction, first: int, last: int) -> None:
        """Charge the windows that ended in ``first..last``.

        Of windows under a later and larger one only that bound is known. They are charged as if they cost as much:
        exact where ``last`` is the latest end, never too little elsewhere.
        """
        if first > last or amount == 0:
            return
        index = bisect_left(self.ends, last)
        if index == len(self.ends) or self.ends[index] != last:
            self.ends.insert(index, last)
            self.costs.insert(index, self.costs[index] if index < len(self.costs) else ZERO)
        start = bisect_left(self.ends, first)
        self.costs[start : index + 1] = [cost + amount for cost in self.costs[start : index + 1]]
        while start > 0 and self.costs[start - 1] <= self.costs[start]:
            start -= 1
            del self.ends[start], self.costs[start]
