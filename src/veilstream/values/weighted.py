"""The width of weighted sums of independent noises: what intervals of sums, means and variances are made of."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.values.values import NoiseLaw

Reals = NDArray[np.float64]

POINTS: Final[tuple[int, ...]] = (0, 513, 65)
"""Nodes of each axis of a table of quantiles, by the number of axes; between nodes it is interpolated."""
APART: Final = 1e-3
"""Scales nearer to each other than this part of themselves are taken to be as far apart, the larger one larger."""


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
            return np.asarray(spread.sum(axis=-1) * math.sqrt(max(4 / (9 * miss), 1.0)))


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
