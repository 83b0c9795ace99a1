"""New values for a step that was published before: post-processing of what was released since, at no cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilstream.values.values import Values, half_width


@dataclass(frozen=True, slots=True, eq=False)
class Revision:
    """New values for a step of the past; ``version`` counts the steps since it was first published, as version 0."""

    step: int
    version: int
    values: Values

    @property
    def made(self) -> int:
        """The step with whose release the new values were published."""
        return self.step + self.version

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Low and high ends that hold the true count of each bin with probability ``level``, if the model is right."""
        width = half_width(level, self.values.std, self.values.law, integer=False)
        numbers = np.asarray(self.values.numbers, dtype=np.float64)
        return numbers - width, numbers + width
