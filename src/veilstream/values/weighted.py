"""The width of weighted sums of independent noises: what intervals of sums, means and variances are made of."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.values.values import SMOOTHED_MISS, NoiseLaw

Reals = NDArray[np.float64]

POINTS: Final[tuple[int, ...]] = (0, 513, 65)
"""Nodes of each axis of a table of quantiles, by the number of axes; between nodes it is interpolated."""
APART: Final = 1e-3
"""Scales nearer to each other than this part of themselves are taken to be as far apart, the larger one larger."""

SMALL: Final = 1e-4
"""Noises of less than this part of the whole are left out of a sum of many."""
EVEN: Final = 0.1
"""Up to this Σ part⁴ of a sum of many noises its quantile is found by cumulants."""
FREQUENCIES: Final = 1000
LAST_FREQUENCY: Final = 50.0
"""Up to where a characteristic function is integrated, in units of the inverse standard deviation."""


def half_width_of_sum(weights: Reals, std: Reals, law: NoiseLaw, level: float) -> Reals:
    """Half the width of the interval that holds Σ weight·noise with probability ``level``, over the last axis.

    Gaussian noise by its own quantile; up to three independent Laplace noises by the law of their sum, of which
    P(|X| > x) = Σ_i Π_{j≠i} a_i²/(a_i² − a_j²)·e^(−x/a_i) for scales a; other noise by Gauss' inequality, without
    knowing how noises go together.

    >>> one = half_width_of_sum(np.array([1.0]), np.array([math.sqrt(2)]), NoiseLaw.LAPLACE, 0.95)
    >>> two = half_width_of_sum(np.array([1.0, 1.0]), np.full(2, math.sqrt(2)), NoiseLaw.LAPLACE, 0.95)
    >>> round(float(one), 3), round(float(two), 2)
    (2.996, 4.11)
    """
    if not 0 < level < 1:
        raise InvalidInputError(name="interval level", value=level, limit="it lies strictly between 0 and 1")
    spread = np.abs(weights) * std
    miss = 1 - level
    match law:
        case NoiseLaw.LAPLACE if spread.shape[-1] <= len(POINTS):
            return _laplace(spread / math.sqrt(2), miss)
        case NoiseLaw.GAUSSIAN | NoiseLaw.MODEL:
            from scipy.special import ndtri

            return np.asarray(np.sqrt((spread**2).sum(axis=-1)) * float(ndtri(1 - miss / 2)))
        case _:
            least = SMOOTHED_MISS if law is NoiseLaw.SMOOTHED else miss
            return np.asarray(spread.sum(axis=-1) * math.sqrt(max(4 / (9 * min(miss, least)), 1.0)))


def width_of_many(weights: Reals, law: NoiseLaw, level: float) -> Reals:
    """The same for sums (rows of ``weights``) of any number of independent noises of standard deviation 1.

    Few Laplace noises by inverting the characteristic function of their sum, Π 1/(1 + a²t²), where
    P(|X| > x) = 1 − 2/π·∫ sin(tx)/t · φ(t) dt; many by cumulants.

    >>> width_of_many(np.array([[1.0, 0.0], [1.0, 1.0]]), NoiseLaw.LAPLACE, 0.95).round(2)
    array([2.12, 2.91])
    """
    norm = np.sqrt((weights**2).sum(axis=-1))
    if law is not NoiseLaw.LAPLACE:
        return half_width_of_sum(norm[:, None], np.ones(1), law, level)
    miss = 1 - level
    parts = np.divide(np.abs(weights), norm[:, None], out=np.zeros_like(weights), where=norm[:, None] > 0)
    found = _many_laplace(parts, miss)
    for index in np.flatnonzero((parts**4).sum(axis=1) > EVEN).tolist():
        large = parts[index][parts[index] > SMALL] / math.sqrt(2)
        found[index] = _inverted(large, miss) if large.size > 1 else math.log(1 / miss) / math.sqrt(2)
    return np.asarray(norm * found)


def _many_laplace(parts: Reals, miss: float) -> Reals:
    """The quantile where no noise is much of the whole: that of a Gaussian, corrected by the fourth and sixth
    cumulants (Cornish and Fisher, 1938), within some thousandths of itself."""
    from scipy.special import ndtri

    z = float(ndtri(1 - miss / 2))
    fourth, sixth = 3 * (parts**4).sum(axis=1), 30 * (parts**6).sum(axis=1)
    second = (z**5 - 10 * z**3 + 15 * z) / 720 * sixth - (3 * z**5 - 24 * z**3 + 29 * z) / 384 * fourth**2
    return np.asarray(z + (z**3 - 3 * z) / 24 * fourth + second)


def _inverted(scales: Reals, miss: float) -> float:
    """The quantile of |Σ Laplace(scale)|, whose variance is about 1, by halving on its characteristic function."""
    # Two noises leave t⁻⁵ under the integral: beyond these frequencies less than 10⁻⁹ is left.
    t = (np.arange(FREQUENCIES) + 0.5) * (LAST_FREQUENCY / FREQUENCIES)
    phi = np.exp(-np.log1p(np.square(np.outer(scales, t))).sum(axis=0)) / t
    low, high = 0.0, 4 * math.log(2 / miss) + 4
    for _ in range(40):
        middle = (low + high) / 2
        within = 2 / math.pi * float(np.sin(middle * t) @ phi) * (LAST_FREQUENCY / FREQUENCIES)
        low, high = (low, middle) if within > 1 - miss else (middle, high)
    return high


def _laplace(scales: Reals, miss: float) -> Reals:
    """The quantile of |Σ noise|: the largest scale times what a table says of the others' parts of it."""
    ranked = -np.sort(-scales, axis=-1)
    largest = ranked[..., 0]
    if scales.shape[-1] == 1:
        return largest * math.log(1 / miss)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = np.where(largest[..., None] > 0, ranked[..., 1:] / largest[..., None], 0.0)
    axes: int = scales.shape[-1] - 1
    table, nodes = _table(axes, miss), POINTS[axes]
    place: Reals = parts * (nodes - 1)
    floor = np.minimum(place.astype(np.int64), nodes - 2)
    rest: Reals = place - floor
    if parts.shape[-1] == 1:
        at, over = floor[..., 0], rest[..., 0]
        return np.asarray(largest * (table[at] * (1 - over) + table[at + 1] * over))
    (i, j), (a, b) = np.moveaxis(floor, -1, 0), np.moveaxis(rest, -1, 0)
    low = table[i, j] * (1 - b) + table[i, j + 1] * b
    return np.asarray(largest * (low * (1 - a) + (table[i + 1, j] * (1 - b) + table[i + 1, j + 1] * b) * a))


@lru_cache(maxsize=32)
def _table(axes: int, miss: float) -> Reals:
    """The quantiles of a Laplace noise of scale 1 plus one or two smaller ones, on a grid of their scales."""
    nodes = np.linspace(0, 1, POINTS[axes])
    meshes = np.meshgrid(*[nodes] * axes, indexing="ij")
    ranked = -np.sort(-np.stack([np.ones_like(meshes[0]), *meshes], axis=-1), axis=-1)
    for index in range(1, axes + 1):
        ranked[..., index] = np.clip(ranked[..., index], 1e-4 / index, ranked[..., index - 1] * (1 - APART))
    low, high = np.zeros(ranked.shape[:-1]), np.full(ranked.shape[:-1], (axes + 1) * math.log((axes + 1) / miss) + 1)
    for _ in range(60):
        middle = (low + high) / 2
        over = _beyond(ranked, middle) > miss
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return high


def _beyond(scales: Reals, x: Reals) -> Reals:
    """P(|Σ Laplace(scale)| > x) for scales that differ."""
    total = np.zeros_like(x)
    count = scales.shape[-1]
    for i in range(count):
        factor = np.ones_like(x)
        for j in range(count):
            if i != j:
                factor *= scales[..., i] ** 2 / (scales[..., i] ** 2 - scales[..., j] ** 2)
        total += factor * np.exp(-x / scales[..., i])
    return total
