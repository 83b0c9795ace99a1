"""Tables whose attributes depend on each other as in a Gaussian, whatever their margins."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from research.workloads.base import Counts, at_least, generator


class Margin(StrEnum):
    """The law of each attribute."""

    GAUSSIAN = "gaussian"
    UNIFORM = "uniform"
    ZIPF = "zipf"


def random_correlation(attributes: int, seed: int, factors: int = 2) -> NDArray[np.float64]:
    """A correlation matrix from ``factors`` common random factors and as much noise again: never near singular."""
    loads = generator(seed).normal(size=(attributes, factors)) / np.sqrt(factors)
    covariance = loads @ loads.T + np.diag(0.5 + (loads**2).sum(axis=1) * 0.1)
    scale = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(scale, scale), dtype=np.float64)


def dependent_table(
    seed: int,
    rows: int = 50_000,
    attributes: int = 8,
    domain: int = 1000,
    margin: Margin | str = Margin.GAUSSIAN,
    correlation: NDArray[np.float64] | None = None,
) -> Counts:
    """``rows`` × ``attributes`` whole numbers from 0 to ``domain`` − 1 with Gaussian dependence.

    The thesis: 50,000 records, 2 to 8 attributes of 1000 values, Gaussian, uniform or Zipf margins, Gaussian
    dependence. Assumed: Gaussian margins span ±4 standard deviations, Zipf margins have exponent 1, and the correlation
    matrix, where none is given, is ``random_correlation``.

    >>> table = dependent_table(seed=1, rows=2000, attributes=3, correlation=np.full((3, 3), 0.9) + 0.1 * np.eye(3))
    >>> table.shape, bool(np.corrcoef(table.T)[0, 1] > 0.85)
    ((2000, 3), True)

    Li: thesis, section 3.3.1.
    """
    for name, value in (("rows", rows), ("attributes", attributes), ("domain", domain)):
        at_least(value, 1, name)
    matrix = random_correlation(attributes, seed) if correlation is None else correlation
    normal = generator(seed + 1).normal(size=(rows, attributes)) @ np.linalg.cholesky(matrix).T
    match Margin(margin):
        case Margin.GAUSSIAN:
            quantile = (normal + 4) / 8
        case Margin.UNIFORM:
            quantile = ndtr(normal)
        case Margin.ZIPF:
            rising = np.cumsum(1 / np.arange(1, domain + 1))
            return np.searchsorted(rising / rising[-1], ndtr(normal)).clip(0, domain - 1).astype(np.int64)
    return np.floor(quantile * domain).clip(0, domain - 1).astype(np.int64)
