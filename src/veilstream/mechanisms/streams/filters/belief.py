"""What a filter believes about the level of every series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """The level of every series at the last sample, the variance of that estimate, and what a step adds to it.

    ``variance`` and ``drift`` have one entry for all series, or one for each. The level of a random walk is expected to
    stay, so that the level ``steps`` later is the same number with the variance ``variance + steps · drift``.

    >>> Belief(np.array([10.0]), np.array([9.0]), np.array([8.0])).std_after(2)
    5.0
    """

    level: NDArray[np.float64]
    variance: NDArray[np.float64]
    drift: NDArray[np.float64]

    def std_after(self, steps: int) -> float | NDArray[np.float64]:
        """The standard deviation of the level ``steps`` after the last sample, if the model holds."""
        std = np.sqrt(self.variance + steps * self.drift)
        return float(std.item()) if std.size == 1 else std
