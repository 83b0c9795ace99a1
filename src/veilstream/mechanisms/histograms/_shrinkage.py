"""Noisy numbers of which most are nothing but noise: each drawn to 0 as far as all of them together suggest.

The numbers θ are taken to come from one law: 0 with some probability, else Cauchy of some scale. Both are those under
which the noisy numbers are likeliest (empirical Bayes), and each θ is then estimated by its posterior median: what is
surely noise becomes 0, what is surely not stays as it is. The noise is a sum of Laplace variables, whose tails are
heavier than normal ones the fewer they are.

Johnstone, Silverman: Needles and straw in haystacks, Annals of Statistics 2004. Their noise is normal; here the
likeliest law is taken from a grid.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
STEP: Final = 0.08
"""Width of the cells into which numbers are sorted, in standard deviations of their noise."""
CELLS: Final = 200
"""Numbers beyond that many cells are no noise, and stay as they are."""
REACH: Final = 300
"""Cells to both sides of 0 in which θ is looked for."""
NORMAL: Final = 64
"""Laplace variables from which on their sum is taken to be normal."""
SCALES: Final = np.array([0.25, 0.5, 1, 2, 4, 8, 16, 64, 256, 1024])
CHANCES: Final = np.array([0.0001, 0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95, 0.999])
"""Probabilities of not being 0."""
MOST_AT_ONCE: Final = 1 << 12


def posterior_medians(noisy: Reals, std: float, terms: int) -> Reals:
    """Numbers without the noise, a sum of ``terms`` Laplace variables of standard deviation ``std``.

    Every row (along the last axis) has a law of its own.

    >>> posterior_medians(np.array([0.5, 1.0, 0.2, 40.0, 0.7, 0.9, 0.1, 0.3]), 1.0, 2).round().tolist()
    [0.0, 0.0, 0.0, 40.0, 0.0, 0.0, 0.0, 0.0]
    """
    rows = noisy.reshape(-1, int(noisy.shape[-1]))
    terms = min(terms, NORMAL)
    found = np.empty_like(rows)
    for first in range(0, len(rows), MOST_AT_ONCE):
        some = rows[first : first + MOST_AT_ONCE]
        size = np.abs(some) / std
        law = _likeliest(size, terms)
        medians = np.where(size < STEP * CELLS, 0.0, size)
        for chosen in np.unique(law).tolist():
            scale, chance = divmod(chosen, CHANCES.size)
            mine = law == chosen
            near = np.interp(size[mine], STEP * np.arange(CELLS + 1), _medians(terms, scale, chance))
            medians[mine] = np.where(size[mine] < STEP * CELLS, near, medians[mine])
        found[first : first + MOST_AT_ONCE] = np.sign(some) * medians * std
    return found.reshape(noisy.shape)


def _likeliest(size: Reals, terms: int) -> Integers:
    """For every row the place of its likeliest scale and chance in their grid."""
    cell = np.minimum(np.rint(size / STEP), CELLS + 1).astype(np.int64)
    place = cell + (CELLS + 2) * np.arange(len(size))[:, None]
    counts = np.bincount(place.reshape(-1), minlength=len(size) * (CELLS + 2)).reshape(len(size), -1)
    likelihood = counts[:, : CELLS + 1] @ _logarithms(terms)
    if counts[:, -1].any():
        far = np.where(cell > CELLS, size, np.nan)
        beyond = [np.nansum(np.log(_cauchy(scale, far)), axis=1) for scale in SCALES.tolist()]
        grid = np.stack(beyond, axis=1)[:, :, None] + counts[:, -1, None, None] * np.log(CHANCES)
        likelihood = likelihood + grid.reshape(len(size), -1)
    return np.asarray(np.argmax(likelihood, axis=1), dtype=np.int64)


@cache
def _densities(terms: int) -> tuple[Reals, Reals, Reals]:
    """Of a number in each cell given each θ; of θ by scales; and of a number by scales."""
    places: Reals = STEP * np.arange(-REACH, REACH + 1, dtype=np.float64)
    given = _noise(terms, np.abs(STEP * np.arange(CELLS + 1)[:, None] - places[None, :]))
    slabs = np.stack([STEP * _cauchy(scale, places) for scale in SCALES.tolist()])
    return given, slabs, given @ slabs.T


@cache
def _logarithms(terms: int) -> Reals:
    """Of the density of a number in each cell (rows) under every scale and chance (columns)."""
    given, _, slab = _densities(terms)
    mixed = (1 - CHANCES) * given[:, REACH, None, None] + CHANCES * slab[:, :, None]
    return np.asarray(np.log(np.maximum(mixed, 1e-300)).reshape(CELLS + 1, -1), dtype=np.float64)


@cache
def _medians(terms: int, scale: int, chance: int) -> Reals:
    """The posterior median of θ for a number in each cell."""
    given, slabs, _ = _densities(terms)
    share = float(CHANCES[chance])
    posterior = share * given * slabs[scale]
    posterior[:, REACH] += (1 - share) * given[:, REACH]
    reached = np.cumsum(posterior, axis=1) / posterior.sum(axis=1, keepdims=True)
    at = np.minimum((reached < 0.5).sum(axis=1), 2 * REACH)
    return np.asarray(np.clip(STEP * (at - REACH), 0.0, STEP * np.arange(CELLS + 1)), dtype=np.float64)


def _cauchy(scale: float, x: Reals) -> Reals:
    return np.asarray(1 / (math.pi * scale * (1 + np.square(x / scale))), dtype=np.float64)


def _noise(terms: int, x: Reals) -> Reals:
    """The density of a sum of Laplace variables with variance 1 in all, at x ≥ 0.

    >>> _noise(2, np.array([0.0, 1.0])).round(6).tolist()
    [0.5, 0.203003]
    """
    from scipy.special import gammaln, kve

    if terms >= NORMAL:
        return np.asarray(np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi), dtype=np.float64)
    width = 1 / math.sqrt(2 * terms)
    ratio, order = np.maximum(x / width, 1e-6), terms - 0.5
    # A sum of k Laplace variables is the difference of two Gamma(k) ones.
    logarithm = order * np.log(ratio / 2) + np.log(kve(order, ratio)) - ratio - gammaln(terms)
    return np.asarray(np.exp(logarithm) / (math.sqrt(math.pi) * width), dtype=np.float64)
