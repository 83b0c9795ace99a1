"""A noise source that makes mechanisms exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


class Silence:
    """Noise that is always zero and remembers its scales."""

    def __init__(self) -> None:
        self.scales: list[Fraction] = []

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return np.zeros(size, dtype=np.int64)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        return int(np.argmin(gaps))
