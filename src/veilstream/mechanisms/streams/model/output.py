"""From what is believed to what is published."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.observation import Floats, Look
from veilstream.values.values import NoiseLaw, Values

FEWEST_BINS: Final = 4
"""Whose counts say what is usual among bins."""
FORGETTING: Final = 0.99
"""What is left of the evidence for what is usual after one more look."""
WHOLE: Final = 3.0
"""Below this variance an estimate is rounded: the count is whole, and most likely the nearest whole number."""
SPARSE: Final = 2.0
"""Where bins have fewer on average, rounding would lose the total."""
MOST_WHOLE: Final = 8.0
"""Variances of noise up to which the whole numbers around a look are weighed one by one."""
MOST_SURPRISED: Final = 12.5
"""The largest surprise, as minus a log density, that a belief makes of a look: that of five standard deviations."""
AROUND: Final = 12
"""So many on either side."""
AT_FIRST: Final = 2.0
"""Logarithm of the odds for what is usual before any look: where noise hides what bins have, it hides evidence too."""
SURE: Final = 6.0
"""Logarithm of the odds from which intervals become as narrow as what is usual promises."""
DOUBT: Final = 0.5
"""Variances of an estimate that stand against its square: an estimate of one standard deviation becomes two thirds."""


@dataclass(frozen=True, slots=True, eq=False)
class Usual:
    """What bins have on average, and how much it says of each: ``evidence`` is the logarithm of odds, (..., 1).

    A belief of mean m and variance V is best pulled to the average of all bins, c, by V/(V + B), where bins differ with
    variance B beyond V (Efron and Morris 1975): not at all where counts are large against the noise, and all the way
    where noise hides all differences; the sum over bins stays what it was. That holds for errors of each bin on its
    own. Where all bins err together it is wrong, and so each look weighs beliefs that were pulled against those that
    were not. The average itself, or the estimate where bins are few, is pulled to zero by DOUBT·V/(m² + DOUBT·V): what
    cannot be told from nothing is most likely next to nothing.
    """

    evidence: Floats

    @classmethod
    def begun(cls, runs: tuple[int, ...]) -> Self:
        return cls(np.zeros((*runs, 1)))

    def learned(self, look: Look, prior: Mixture) -> Usual:
        if prior.mean.shape[-1] < FEWEST_BINS:
            return self
        pulled = _pulled(prior.mean, prior.variance)[0]
        width = np.sqrt(0.5 * (prior.variance + look.variance))
        gain = (np.abs(look.numbers - prior.mean) - np.abs(look.numbers - pulled)) / width
        return Usual(FORGETTING * self.evidence + gain.sum(axis=-1, keepdims=True))

    def published(
        self, belief: Mixture, variance: Floats, whole: Floats | None = None, shared: Floats | float = 0.0
    ) -> Values:
        """Estimates of the counts, never below zero, with the standard deviation of the count around them.

        Where a count is nearly known ``whole`` takes their place, or the nearest whole number. What bins have in common
        tells nothing of an error that they share, whose variance is ``shared``.
        """
        mean = belief.mean
        if mean.shape[-1] < FEWEST_BINS:
            return _values(_doubted(mean, variance), variance, variance < WHOLE, whole)
        pulled, left = _pulled(mean, variance)
        weight = expit(self.evidence + AT_FIRST)
        numbers = np.maximum(mean + weight * (pulled - mean), 0.0)
        nearly = (variance < WHOLE) & (mean.mean(axis=-1, keepdims=True) >= SPARSE)
        around = variance + weight * (1 - weight) * np.square(pulled - mean)
        narrow = expit(self.evidence - SURE)
        return _values(numbers, around + narrow * (left - around) + shared, nearly, whole)


def _pulled(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Means pulled to what is usual, and the variance that is left around them."""
    bins = int(mean.shape[-1])
    noise = variance.mean(axis=-1, keepdims=True)
    centre = mean.mean(axis=-1, keepdims=True)
    spread = np.square(mean - centre).sum(axis=-1, keepdims=True) / (bins - 1)
    between = np.maximum(spread - noise, 0.0)
    usual = _doubted(centre, noise / bins)
    pulled = mean + variance / (variance + between) * (usual - mean)
    # How far bins differ is known only so well itself.
    sure = variance / (variance + between + math.sqrt(2 / bins) * variance)
    left = variance * (1 - sure) + sure * (noise / bins + usual)
    return pulled, np.minimum(left, variance)


def _doubted(mean: Floats, variance: Floats) -> Floats:
    positive = np.maximum(mean, 0.0)
    square = np.square(positive)
    doubted: Floats = positive * square / (square + DOUBT * variance + 1e-300)
    return doubted


def _values(numbers: Floats, variance: Floats, nearly: NDArray[np.bool_], whole: Floats | None) -> Values:
    rounded = np.rint(numbers) if whole is None else whole
    return Values(np.where(nearly, rounded, numbers), np.sqrt(variance), NoiseLaw.MODEL)


def whole_median(prior: Mixture, look: Look) -> Floats | None:
    """The median of a whole count of at least 0 after a look whose noise is a few counts; None after any other.

    Laplace noise has a peak: even a belief that is off leaves the look's own number in the middle, where the mean would
    move from it and be rounded to another. A look that is further off than ``MOST_SURPRISED`` says that the belief is
    wrong, and stands as it is.

    >>> sure = Mixture(np.array([0.0]), np.array([0.8]))
    >>> [float(whole_median(sure, Look(np.array([seen]), 0.05, 0.16))[0]) for seen in (0.0, 1.0, 200.0)]
    [0.0, 1.0, 200.0]
    """
    if look.scale is None or look.variance >= MOST_WHOLE:
        return None
    near = np.rint(look.numbers)[..., None] + np.arange(-AROUND, AROUND + 1)
    surprise = np.square(near - prior.mean[..., None]) / (2 * prior.variance[..., None])
    surprise = np.minimum(surprise, MOST_SURPRISED)
    score = np.where(near < 0, -np.inf, -surprise - np.abs(near - look.numbers[..., None]) / look.scale)
    score -= np.maximum(score.max(axis=-1, keepdims=True), -1e300)
    chance = np.cumsum(np.exp(score), axis=-1)
    at = np.argmax(chance >= 0.5 * chance[..., -1:], axis=-1)
    return np.maximum(np.take_along_axis(near, at[..., None], axis=-1)[..., 0], 0.0)
