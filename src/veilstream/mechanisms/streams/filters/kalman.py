"""Kalman filters of random walks, all series at once, with the process noise known or weighed among candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.filters.belief import Belief


@dataclass(frozen=True, slots=True, eq=False)
class KalmanBank:
    """One Kalman filter per series and candidate Q, for x_k = x_{k−1} + N(0, Q) seen as z = x + noise of variance R.

    With P⁻ = P + gap·Q after ``gap`` steps without a sample, a sample corrects by

        K = P⁻/(P⁻ + R),     x̂ ← x̂ + K(z − x̂),     P ← (1 − K)·P⁻.

    Several candidates for Q are weighed by how likely each made the samples so far, Π N(z; x̂, P⁻ + R): the belief is
    the mixture of their filters. P does not depend on data and all series share one schedule, so that it is kept
    once for all series whose noise is alike. The last axis of every array counts the candidates.

    >>> bank = KalmanBank.start(np.array([0.0]), np.array([1.0]), np.array([[1.0]]))
    >>> bank.corrected(np.array([3.0]), np.array([1.0]), gap=1).belief().level
    array([2.])

    Kalman: A new approach to linear filtering and prediction problems, 1960; Magill: Optimal adaptive estimation of
    sampled stochastic processes, 1965 (the bank).
    """

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    score: NDArray[np.float64]
    candidates: NDArray[np.float64]

    @classmethod
    def start(cls, z: NDArray[np.float64], noise: NDArray[np.float64], candidates: NDArray[np.float64]) -> Self:
        """The belief after the first sample alone: it knows nothing but ``z``, whose noise has variance ``noise``."""
        mean = np.repeat(z[..., None], candidates.shape[-1], axis=-1)
        variance = np.repeat(noise[..., None], candidates.shape[-1], axis=-1)
        return cls(mean, variance, np.zeros_like(mean), candidates)

    def corrected(self, z: NDArray[np.float64], noise: NDArray[np.float64], gap: int) -> Self:
        """The bank after a sample ``z`` that comes ``gap`` steps after the last one."""
        prior = self.variance + gap * self.candidates
        total = prior + noise[..., None]
        gain = prior / total
        surprise = z[..., None] - self.mean
        score = self.score
        if self.candidates.shape[-1] > 1:
            score = score - (surprise**2 / total + np.log(total)) / 2
            score -= score.max(axis=-1, keepdims=True)
        return type(self)(self.mean + gain * surprise, (1 - gain) * prior, score, self.candidates)

    def belief(self) -> Belief:
        """The mixture of the candidates' filters."""
        if self.candidates.shape[-1] == 1:
            return Belief(self.mean[..., 0], self.variance[..., 0], self.candidates[..., 0])
        weight = np.exp(self.score)
        weight /= weight.sum(axis=-1, keepdims=True)
        level = (weight * self.mean).sum(axis=-1)
        spread = (weight * (self.variance + (self.mean - level[..., None]) ** 2)).sum(axis=-1)
        return Belief(level, spread, (weight * self.candidates).sum(axis=-1))
