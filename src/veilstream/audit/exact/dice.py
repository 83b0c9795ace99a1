"""Repeatable choices for the generator of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from veilstream.testing.simulation import SeededSource

T = TypeVar("T")
BATCH = 256


class Dice:
    """Small random numbers from a seed.

    >>> dice = Dice(3, 0)
    >>> 0 <= dice.below(6) < 6, dice.choice(["one"])
    (True, 'one')
    """

    def __init__(self, *seed: int) -> None:
        self._source = SeededSource(seed)
        self._words: list[int] = []

    def below(self, bound: int) -> int:
        if not self._words:
            self._words = self._source.words(BATCH).tolist()
        return (self._words.pop() >> 11) % bound

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == 0
