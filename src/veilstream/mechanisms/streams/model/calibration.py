"""Honest widths: how much wider than the bank says the truth lies around its predictions, learned from the looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture, softmax
from veilstream.mechanisms.streams.model.observation import Floats, Look, likelihood

WAYS: Final = (
    (0.5, 0.0, 0.0, -1.0),
    (1.0, 0.0, 0.0, 0.0),
    (1.0, 1.0, 0.0, 0.0),
    (3.0, 1.0, 0.0, -0.8),
    (10.0, 1.0, 0.0, -1.7),
    (1.0, 1.0, 0.2, -1.4),
    (5.0, 1.0, 0.6, -2.5),
)
"""Ways to be wider: a factor on the bank's variance, the scatter of a count of that level (Poisson's for 1), a standard
deviation in parts of the count, and the logarithm of the way's prior."""
FORGETTING: Final = 0.95
BETWEEN: Final = 1.2
"""Steps without a look are wider than those with one, from which widths are learned."""
POOLED: Final = 0.05
"""Of the weights over all bins in each bin's own."""
_FACTORS, _SCATTERS, _PARTS, _LOG_PRIOR = (np.array(column)[:, None] for column in zip(*WAYS, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``evidence`` for each way of being wider, (..., ways, bins)."""

    evidence: Floats

    @classmethod
    def begun(cls, shape: tuple[int, ...]) -> Self:
        *runs, bins = shape
        return cls(np.zeros((*runs, len(WAYS), bins)))

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
        widths = BETWEEN * widths if look is None else widths * look.variance / (widths + look.variance)
        variance: Floats = np.einsum("...jb,...jb->...b", weights, widths)
        return variance


def _widths(prior: Mixture) -> Floats:
    level = np.maximum(prior.mean, 0.0)[..., None, :]
    scatter = np.maximum(_SCATTERS * level, 0.1)
    widths: Floats = _FACTORS * prior.variance[..., None, :] + np.square(_PARTS * level) + scatter
    return widths
