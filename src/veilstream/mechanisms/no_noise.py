"""A stand-in for the source of noise: what a mechanism does apart from its noise, for forecasts and tests."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


class NoNoise:
    """Noise that is always zero, choices that are always the best, and a record of what was asked for.

    No empty cell reaches a level.

    >>> noise = NoNoise()
    >>> noise.laplace(Fraction(3), 2).tolist(), noise.select(np.array([4, 0, 1]), Fraction(1, 2)), noise.asked
    ([0, 0], 1, [('laplace', Fraction(3, 1)), ('select', Fraction(1, 2))])
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, Fraction]] = []

    @property
    def scales(self) -> list[Fraction]:
        """The scales of all noise, in the order of the draws."""
        return [scale for law, scale in self.asked if law != "select"]

    @property
    def rates(self) -> list[Fraction]:
        """The rates of all choices, in their order."""
        return [rate for law, rate in self.asked if law == "select"]

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.asked.append(("laplace", scale))
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.asked.append(("gaussian", sigma))
        return np.zeros(size, dtype=np.int64)

    def blocks(self, rate: Fraction, length: int, entries: int, count: int) -> NDArray[np.int64]:
        self.asked.append(("blocks", rate))
        return np.zeros((count, length, entries), dtype=np.int64)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        self.asked.append(("select", rate))
        return int(np.argmin(gaps))

    def reaching(self, scale: Fraction, level: int, trials: int) -> int:
        return 0

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        return np.zeros(count, dtype=np.int64)
