"""Honest widths: how much wider than the bank says the truth lies around its predictions, learned from the looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture, softmax
from veilstream.mechanisms.streams.model.observation import Floats, Look, likelihood

WIDER: Final = (1.0, 3.0, 10.0)
"""Factors on the bank's variance."""
RELATIVE: Final = (0.0, 0.2, 0.6)
"""Standard deviations in parts of the count."""
FORGETTING: Final = 0.95
POOLED: Final = 0.05
"""Of the weights over all bins in each bin's own."""
_FACTORS: Final = np.repeat(WIDER, len(RELATIVE))[:, None]
_PARTS: Final = np.tile(RELATIVE, len(WIDER))[:, None]
_LOG_PRIOR: Final = -0.5 * np.log2(_FACTORS) + np.where(_PARTS == 0, 0.0, np.log(0.25))


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``evidence`` for each way of being wider, (..., ways, bins)."""

    evidence: Floats

    @classmethod
    def begun(cls, shape: tuple[int, ...]) -> Self:
        *runs, bins = shape
        return cls(np.zeros((*runs, _FACTORS.size, bins)))

    def learned(self, look: Look, prior: Mixture) -> Calibration:
        gap = (look.numbers - prior.mean)[..., None, :]
        log_density, _ = likelihood(gap, _widths(prior), look)
        evidence = FORGETTING * self.evidence + log_density
        return Calibration(evidence - evidence.max(axis=-2, keepdims=True))

    def variance(self, prior: Mixture, look: Look | None) -> Floats:
        """Of the count around the published value, after a look or without one."""
        weights = softmax(self.evidence + _LOG_PRIOR)
        weights = (1 - POOLED) * weights + POOLED * weights.mean(axis=-1, keepdims=True)
        widths = _widths(prior)
        if look is not None:
            widths = widths * look.variance / (widths + look.variance)
        return np.einsum("...jb,...jb->...b", weights, widths)


def _widths(prior: Mixture) -> Floats:
    level = np.maximum(prior.mean, 0.0)[..., None, :]
    scatter = np.maximum(level, 0.1)
    return _FACTORS * prior.variance[..., None, :] + np.square(_PARTS * level) + scatter
