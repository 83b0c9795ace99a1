"""Honest widths: how much wider than the bank says the truth lies around its predictions, learned from the looks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
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
MISSED: Final = 0.05
"""Of looks that should lie outside of the interval that was foreseen for them."""
PACE: Final = 0.15
"""How far one look outside of its interval widens the next ones, in logarithms."""
WIDEST: Final = 1.5
"""The largest logarithm of the factor on standard deviations."""
UNCHECKED: Final = (1.5, 0.2)
"""Part by which variances grow where noise hides all that could check them, between looks and after one: what is not
seen strays upwards further than a normal law tells."""
LARGEST_SQUARE: Final = 50.0
"""What a single look counts at most in the mean of squared sums: one shift of all bins is no habit of theirs."""
SURELY: Final = 1.0
"""Standard deviations by which that mean must lie above what is expected of bins that err apart."""
FEWEST_TOGETHER: Final = 4
"""Bins of which a shared error is estimated."""
NORMAL: Final = 1.96
HEAVIER: Final = math.log(20) / math.sqrt(2) / NORMAL
"""The half width of a 95 % interval of Laplace noise over that of normal noise of the same standard deviation."""
_FACTORS, _SCATTERS, _PARTS, _LOG_PRIOR = (np.array(column)[:, None] for column in zip(*WAYS, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """``evidence`` for each way of being wider, (..., ways, bins), and the logarithm of a ``factor`` for all, (..., 1).

    The ways follow from likelihoods and so from the shape that errors are thought to have. The factor does not: each
    look that lies outside of the 95 % interval foreseen for it widens all later ones, and looks inside take that back,
    so that in the long run no more than one in twenty lies outside (adaptive conformal inference, Gibbs and Candès
    2021). A look tells of the interval as much as its variance is due to the count and not to its ``noise``; what it
    does not tell is met with a margin. All of this is made of looks.
    """

    evidence: Floats
    factor: Floats = field(default_factory=lambda: np.zeros(1))
    noise: float = 0.0
    """The variance of the last look's noise. States of earlier versions have neither, and learn both."""
    together: Floats = field(default_factory=lambda: np.ones(1))
    """Of recent looks the mean squared sum of all surprises over its expected size, (..., 1): 1 if bins err apart."""
    looks: float = 0.0
    """How many looks are in that mean."""

    @classmethod
    def begun(cls, look: Look) -> Self:
        *runs, bins = look.numbers.shape
        return cls(np.zeros((*runs, len(WAYS), bins)), np.zeros((*runs, 1)), look.variance, np.ones((*runs, 1)))

    def learned(self, look: Look, prior: Mixture) -> Calibration:
        gap = look.numbers - prior.mean
        widths = _widths(prior)
        log_density, _ = likelihood(gap[..., None, :], widths, look)
        evidence = FORGETTING * self.evidence + log_density
        foreseen = self._mixed(widths) * np.exp(2 * self.factor)
        total = foreseen + look.variance
        informative = foreseen / total
        noisy = HEAVIER if look.scale is not None else 1.0
        limit = NORMAL * (informative + (1 - informative) * noisy)
        outside = np.square(gap) > np.square(limit) * total
        step = PACE * np.mean(informative * (outside - MISSED), axis=-1, keepdims=True)
        factor = np.clip(self.factor + step, 0.0, WIDEST)
        looks = FORGETTING * self.looks + 1
        squared = np.square(gap.sum(axis=-1, keepdims=True)) / total.sum(axis=-1, keepdims=True)
        together = self.together + (np.minimum(squared, LARGEST_SQUARE) - self.together) / looks
        return Calibration(evidence - evidence.max(axis=-2, keepdims=True), factor, look.variance, together, looks)

    def variance(self, prior: Mixture, look: Look | None) -> Floats:
        """Of the count around the published value, after a look or without one; for a 95 % interval as if normal."""
        widths = _widths(prior) * np.exp(2 * self.factor)[..., None, :]
        widths *= 1 + UNCHECKED[look is not None] * self.noise / (widths + self.noise)
        if look is None:
            return BETWEEN * self._mixed(widths)
        known = look.variance / (widths + look.variance)
        # What is left is the look's own noise where nothing was foreseen.
        tails = 1.0 if look.scale is None else 1 + (HEAVIER**2 - 1) * np.square(1 - known)
        return self._mixed(widths * known * tails)

    def shared(self, variance: Floats) -> Floats:
        """The variance of an error that all bins share, as far as looks are sure of it, (..., 1).

        With surprises of variance S, each bin's own, the sum over d bins has variance dS; beyond that it is d² times
        that of what they share. One by one they lie within their intervals where noise is large; their sum tells.
        """
        bins = variance.shape[-1]
        if bins < FEWEST_TOGETHER or not self.looks:
            return np.zeros_like(self.together)
        sure = self.together / (1 + SURELY * math.sqrt(2 / self.looks))
        each = variance.mean(axis=-1, keepdims=True) + self.noise
        shared: Floats = np.maximum(sure - 1, 0.0) * each / bins
        return shared

    def _mixed(self, widths: Floats) -> Floats:
        weights = softmax(self.evidence + _LOG_PRIOR)
        weights = (1 - POOLED) * weights + POOLED * weights.mean(axis=-1, keepdims=True)
        variance: Floats = np.einsum("...jb,...jb->...b", weights, widths)
        return variance


def _widths(prior: Mixture) -> Floats:
    level = np.maximum(prior.mean, 0.0)[..., None, :]
    scatter = np.maximum(_SCATTERS * level, 0.1)
    widths: Floats = _FACTORS * prior.variance[..., None, :] + np.square(_PARTS * level) + scatter
    return widths
