"""Two dependent normal or t variables on a grid: distribution functions, tables, and Kendall's tau with ties."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr, ndtri, stdtrit

Reals = NDArray[np.float64]
GROUPS = 24
"""Margins are gathered into at most about this many groups before tables of them are made."""
ANGLES = 81
MIXTURE = 24
LARGEST = 9.0
"""Normal quantiles beyond ± this are taken as it: their probability is below 1e-18."""


def thresholds(cumulative: Reals, nu: float | None) -> Reals:
    """Quantiles of the standard normal law (``nu`` None) or of Student's t."""
    inner = np.clip(cumulative, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        quantiles = ndtri(inner) if nu is None else stdtrit(nu, inner)
    return np.asarray(quantiles, dtype=np.float64)


@lru_cache(maxsize=4)
def _nodes(count: int) -> tuple[Reals, Reals]:
    at, weight = np.polynomial.legendre.leggauss(count)
    return at, weight


def normal_cumulative(a: Reals, b: Reals, rho: float) -> Reals:
    """P(X ≤ a_i, Y ≤ b_j) for standard normal X, Y of correlation ``rho``, a table.

    ∂P/∂ρ is their joint density (Plackett 1954); with ρ = sin θ the integral from independence has the smooth integrand
    exp(−(a² − 2ab sin θ + b²)/(2 cos² θ))/(2π).

    >>> round(float(normal_cumulative(np.zeros(1), np.zeros(1), 0.5)[0, 0]), 6)
    0.333333
    """
    angle = math.asin(max(-1.0, min(1.0, rho)))
    x, y = np.clip(a, -LARGEST, LARGEST)[:, None], np.clip(b, -LARGEST, LARGEST)[None, :]
    at, weight = _nodes(32)
    theta = angle * (at + 1) / 2
    squares, product = x * x + y * y, 2 * x * y
    cumulative: Reals = ndtr(x) * ndtr(y)
    for each, share in zip(theta, weight * angle / 2, strict=True):
        scale = max(2 * math.cos(each) ** 2, 1e-12)
        cumulative = cumulative + share / (2 * math.pi) * np.exp((product * math.sin(each) - squares) / scale)
    return cumulative


def pair_probabilities(p: Reals, q: Reals, rho: float, nu: float | None = None) -> Reals:
    """The table of two attributes with margins ``p`` and ``q`` under a normal or t copula of correlation ``rho``.

    A t variable is a normal one times a common random scale: its tables are means of normal ones over quantiles of
    that scale.

    >>> pair_probabilities(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.5).round(4).tolist()
    [[0.3333, 0.1667], [0.1667, 0.3333]]
    """
    a, b = (thresholds(np.cumsum(margin)[:-1], nu) for margin in (p, q))
    if nu is None:
        inner = normal_cumulative(a, b, rho)
    else:
        levels = (np.arange(MIXTURE) + 0.5) / MIXTURE
        scales = np.sqrt(chdtri(nu, levels) / nu)
        inner = np.mean([normal_cumulative(a * s, b * s, rho) for s in scales], axis=0)
    full = np.zeros((p.size + 1, q.size + 1))
    full[1:-1, 1:-1] = inner
    full[1:, -1], full[-1, 1:] = np.cumsum(p), np.cumsum(q)
    return np.maximum(np.diff(np.diff(full, axis=0), axis=1), 0.0)


def tau_of_table(table: Reals) -> float:
    """Kendall's τ-a of two variables with this table of probabilities: P(concordant) − P(discordant).

    >>> tau_of_table(np.array([[0.5, 0.0], [0.0, 0.5]]))
    0.5
    """
    return float(_taus_of_tables(table[None])[0])


def _taus_of_tables(tables: Reals) -> Reals:
    left = np.cumsum(np.cumsum(tables, axis=1)[:, :-1], axis=2)
    above = tables[:, 1:]
    both = (above * left).sum(axis=(1, 2))
    ties = (above.sum(axis=2) * left[:, :, -1]).sum(axis=1)
    strict = (above[:, :, 1:] * left[:, :, :-1]).sum(axis=(1, 2))
    taus: Reals = 2 * (both - ties + strict)
    return taus


def gathered(p: Reals, count: int = GROUPS) -> NDArray[np.int64]:
    """A group for every value, in order, so that groups have about equal mass; heavy values stay alone.

    >>> gathered(np.array([0.1, 0.1, 0.6, 0.1, 0.1]), 3).tolist()
    [0, 0, 1, 2, 2]
    """
    middle = np.cumsum(p) - p / 2
    return np.minimum((middle * count).astype(np.int64), count - 1)


def masses(groups: NDArray[np.int64], p: Reals, count: int) -> Reals:
    """The probability of each of ``count`` groups."""
    return np.asarray(np.bincount(groups, p, minlength=count), dtype=np.float64)


def latent_correlation(tau: float | Reals, p: Reals, q: Reals) -> Reals:
    """The correlation of a normal copula under which two attributes with margins ``p`` and ``q`` have this τ-a.

    Several τ-a give as many correlations. Without ties it is sin(πτ/2). Ties only lower τ-a, so that the plain formula
    would find too little dependence between attributes with few values; where one has, the table of the two is computed
    for a range of correlations and τ-a read backwards. Fine margins are gathered first and the ties that this adds are
    divided out.

    >>> float(latent_correlation(0.25, np.array([0.5, 0.5]), np.array([0.5, 0.5])).round(3))
    0.707
    >>> float(latent_correlation(1 / 3, np.full(500, 0.002), np.full(500, 0.002)).round(2))
    0.5
    """
    unequal = [float(1 - (margin**2).sum()) for margin in (p, q)]
    if min(unequal) < 1e-9:
        return np.zeros(np.shape(tau))
    if min(unequal) > 1 - 1 / GROUPS:
        return np.asarray(np.sin(math.pi / 2 * np.clip(tau / math.sqrt(unequal[0] * unequal[1]), -1.0, 1.0)))
    coarse = [masses(gathered(margin), margin, GROUPS) for margin in (p, q)]
    coarse = [margin[margin > 0] for margin in coarse]
    lost = [float(1 - (margin**2).sum()) / share for margin, share in zip(coarse, unequal, strict=True)]
    if min(lost) < 1e-9:
        return np.zeros(np.shape(tau))
    correlations = np.sin(np.linspace(-1.55, 1.55, ANGLES))
    taus = _taus(coarse[0], coarse[1]) / math.sqrt(lost[0] * lost[1])
    return np.asarray(np.interp(tau, np.maximum.accumulate(taus), correlations))


def _taus(p: Reals, q: Reals) -> Reals:
    """τ-a for correlations sin(θ), θ from −1.55 to 1.55 in equal steps: one integral over θ for all of them."""
    a, b = (thresholds(np.cumsum(margin)[:-1], None) for margin in (p, q))
    x, y = np.clip(a, -LARGEST, LARGEST)[:, None], np.clip(b, -LARGEST, LARGEST)[None, :]
    fine = np.linspace(-1.55, 1.55, 2 * ANGLES - 1)[:, None, None]
    density = np.exp((2 * x * y * np.sin(fine) - x * x - y * y) / (2 * np.cos(fine) ** 2)) / (2 * math.pi)
    step = 1.55 / (ANGLES - 1)
    pieces = (density[:-2:2] + 4 * density[1::2] + density[2::2]) * (step / 3)
    running = np.concatenate([np.zeros((1, a.size, b.size)), np.cumsum(pieces, axis=0)])
    inner = running - running[ANGLES // 2] + ndtr(x) * ndtr(y)
    full = np.zeros((ANGLES, p.size + 1, q.size + 1))
    full[:, 1:-1, 1:-1] = inner
    full[:, 1:, -1], full[:, -1, 1:] = np.cumsum(p), np.cumsum(q)
    tables = np.maximum(np.diff(np.diff(full, axis=1), axis=2), 0.0)
    return _taus_of_tables(tables)
