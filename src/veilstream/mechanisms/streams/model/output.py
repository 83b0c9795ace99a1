"""From what is believed to what is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.observation import Floats
from veilstream.values.values import NoiseLaw, Values

SPARSE: Final = 2.0
"""Streams with fewer in a typical bin are sparse."""
DENSE: Final = 10.0
"""Streams with more in a typical bin are not; in between they are in part."""
FEWEST_BINS: Final = 4
"""Whose counts say what is usual among bins."""
SLOWNESS: Final = 0.95
"""What is left of the typical count after one more look."""
WHOLE: Final = 3.0
"""Below this variance an estimate is rounded: the count is whole, and most likely the nearest whole number."""


@dataclass(frozen=True, slots=True, eq=False)
class Sparsity:
    """``typical`` is a slow mean of the median count over all bins.

    In a sparse stream a bin's estimate is mostly noise, and the best guess is what bins have on average: estimates
    m of variance V that differ between bins with variance B beyond V are pulled to their mean by V/(V + B). The sum
    over bins stays what it was but for estimates below zero.
    """

    typical: Floats

    @classmethod
    def begun(cls, belief: Mixture) -> Self:
        return cls(np.median(belief.mean, axis=-1, keepdims=True))

    def learned(self, belief: Mixture) -> Sparsity:
        return Sparsity(SLOWNESS * self.typical + (1 - SLOWNESS) * np.median(belief.mean, axis=-1, keepdims=True))

    def part(self, bins: int) -> Floats:
        """How far the stream is sparse, from 0 to 1; one of few bins never is."""
        if bins < FEWEST_BINS:
            return np.zeros_like(self.typical)
        part: Floats = np.log(DENSE / np.maximum(self.typical, 1e-9)) / np.log(DENSE / SPARSE)
        return np.clip(part, 0.0, 1.0)

    def published(self, belief: Mixture, variance: Floats) -> Values:
        """Estimates of the counts, never below zero, with the standard deviation of the count around them."""
        mean = belief.mean
        bins = mean.shape[-1]
        part = self.part(bins)
        if (part > 0).any():
            centre = mean.mean(axis=-1, keepdims=True)
            spread = np.square(mean - centre).sum(axis=-1, keepdims=True) / (bins - 1)
            between = np.maximum(spread - variance.mean(axis=-1, keepdims=True), 0.0)
            pull = part * variance / (variance + between)
            mean = mean + pull * (centre - mean)
        numbers = np.maximum(mean, 0.0)
        # Where most counts are 0 or 1, rounding would lose the total.
        whole = (variance < WHOLE) & (part == 0)
        return Values(np.where(whole, np.rint(numbers), numbers), np.sqrt(variance), NoiseLaw.MODEL)
