"""A particle filter that draws nothing secret: its randomness is a public function of the step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.filters.belief import Belief
from veilstream.values.mixing import GOLDEN_GAMMA, splitmix64
from veilstream.values.values import NoiseLaw

PIECE: Final = 1 << 17
"""Particles that are moved at a time: the work arrays stay small and in the processor's cache."""
TINY: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class ParticleCloud:
    """Sampling, importance, resampling: N equally likely levels per series, weighed by every sample and redrawn.

    ``gap`` steps after the last sample every particle moves by N(0, gap·Q), is weighed by the likelihood of the sample
    (exactly e^{−|z−x|/b} for Laplace noise of scale b) and the cloud is resampled systematically.
    Between samples the cloud rests: of a random walk, ``gap`` moves at once have the law of ``gap`` single ones.

    What follows a release may use any public randomness, and this uses as little as it can: the moves are the N
    quantiles of the normal law at (i + ½)/N, spread by a permutation that a hash of the step gives, the
    same for all series; the resampling offset is the fraction of step·golden ratio. Runs repeat, and no draw is taken
    from the noise that protects people.

    >>> cloud = ParticleCloud.start(np.array([100.0]), np.array([2.0]), 1000, NoiseLaw.LAPLACE)
    >>> cloud, belief = cloud.corrected(np.array([104.0]), np.array([2.0]), np.array([1.0]), 1, 1, NoiseLaw.LAPLACE)
    >>> float(belief.level.round(1)[0])
    102.2

    Gordon, Salmond, Smith: Novel approach to nonlinear/non-Gaussian Bayesian state estimation, 1993.
    """

    particles: NDArray[np.float64]

    @classmethod
    def start(cls, z: NDArray[np.float64], std: NDArray[np.float64], count: int, law: NoiseLaw) -> Self:
        """The posterior after the first sample under a flat prior: the noise's own quantiles around ``z``."""
        return cls(z[..., None] + np.maximum(std, TINY)[..., None] * _noise_quantiles(count, law))

    def belief(self, drift: NDArray[np.float64]) -> Belief:
        """Mean and variance of the cloud as it is."""
        return Belief(self.particles.mean(axis=-1), self.particles.var(axis=-1), drift)

    def corrected(
        self,
        z: NDArray[np.float64],
        std: NDArray[np.float64],
        drift: NDArray[np.float64],
        gap: int,
        step: int,
        law: NoiseLaw,
    ) -> tuple[Self, Belief]:
        """The cloud after a sample at ``step``, ``gap`` steps after the last, and the belief before resampling."""
        shape, count = self.particles.shape[:-1], self.particles.shape[-1]
        old = self.particles.reshape(-1, count)
        observed = z.reshape(-1, 1)
        width = np.broadcast_to(np.maximum(std, TINY), shape).reshape(-1, 1)
        move = np.sqrt(gap * np.broadcast_to(drift, shape)).reshape(-1, 1)
        moves = _normal_quantiles(count)[_permutation(count, step)]
        offset = ((step * GOLDEN_GAMMA) % (1 << 64)) / 2.0**64
        new, level, spread = np.empty_like(old), np.empty(len(old)), np.empty(len(old))
        rows = max(1, PIECE // count)
        for start in range(0, len(old), rows):
            part = slice(start, start + rows)
            new[part], level[part], spread[part] = _correct(
                old[part] + move[part] * moves, observed[part], width[part], offset, law
            )
        return type(self)(new.reshape(self.particles.shape)), Belief(level.reshape(shape), spread.reshape(shape), drift)


def _correct(
    x: NDArray[np.float64], z: NDArray[np.float64], std: NDArray[np.float64], offset: float, law: NoiseLaw
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Resampled particles, and the mean and variance of the weighed ones."""
    spread_of = x - z
    weight = np.abs(spread_of)
    weight /= -std / np.sqrt(2) if law is NoiseLaw.LAPLACE else std
    if law is not NoiseLaw.LAPLACE:
        weight *= weight
        weight /= -2
    weight -= weight.max(axis=1, keepdims=True)
    np.exp(weight, out=weight)
    covered = np.cumsum(weight, axis=1)
    total = covered[:, -1]
    weight *= spread_of
    mean = weight.sum(axis=1) / total
    spread = np.maximum(np.einsum("ij,ij->i", weight, spread_of) / total - mean**2, 0.0)
    return _resampled(x, covered, offset), z[:, 0] + mean, spread


def _resampled(x: NDArray[np.float64], covered: NDArray[np.float64], offset: float) -> NDArray[np.float64]:
    """Systematic resampling: the particle that covers each of the points (i + offset)/N of the summed weights."""
    count = x.shape[1]
    ends = covered * (count / covered[:, -1:])
    ends -= offset
    np.ceil(ends, out=ends)
    # Rounding must not cost a row its last point.
    ends[:, -1] = count
    copies = ends.astype(np.int64)
    np.clip(copies, 0, count, out=copies)
    copies[:, 1:] -= copies[:, :-1].copy()
    return np.repeat(x.ravel(), copies.ravel()).reshape(x.shape)


@lru_cache(maxsize=8)
def _normal_quantiles(count: int) -> NDArray[np.float64]:
    # Slow to load, and nothing else needs it.
    from scipy.special import ndtri

    quantiles: NDArray[np.float64] = ndtri((np.arange(count) + 0.5) / count)
    return quantiles / quantiles.std() if count > 1 else quantiles


@lru_cache(maxsize=8)
def _noise_quantiles(count: int, law: NoiseLaw) -> NDArray[np.float64]:
    """Quantiles of noise of standard deviation 1: Laplace by its own, anything else as if it were normal."""
    if law is not NoiseLaw.LAPLACE:
        return _normal_quantiles(count)
    p = (np.arange(count) + 0.5) / count - 0.5
    quantiles: NDArray[np.float64] = -np.sign(p) * np.log1p(-2 * np.abs(p)) / np.sqrt(2)
    return quantiles


def _permutation(count: int, step: int) -> NDArray[np.int64]:
    """A shuffle that depends on the step alone, by a mixing hash of (step, position)."""
    words = np.arange(count, dtype=np.uint64) + np.uint64((step * GOLDEN_GAMMA) % (1 << 64))
    return np.argsort(splitmix64(words), kind="stable").astype(np.int64)
