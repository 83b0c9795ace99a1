"""Totals that do not fall: the nearest non-decreasing series to noisy ones, as free post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


def nondecreasing(values: Reals, std: Reals) -> Reals:
    """Of every bin (steps × bins) the non-decreasing series nearest to it, by least squares weighted by 1/std².

    It uses later releases for earlier steps; ``RunningTotal(nondecreasing=True)`` does without, step by step.

    >>> nondecreasing(np.array([[1.0], [5.0], [3.0], [9.0]]), np.ones(4))[:, 0].tolist()
    [1.0, 4.0, 4.0, 9.0]
    """
    from scipy.optimize import isotonic_regression

    weights = 1 / np.square(std)
    fitted = [np.asarray(isotonic_regression(series, weights=weights).x, dtype=np.float64) for series in values.T]
    return np.stack(fitted, axis=1)
