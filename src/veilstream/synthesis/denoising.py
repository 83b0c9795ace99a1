"""What a noisy table says beyond a public prediction of it: strong patterns, then cells by how far they can be off."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
FEWEST_FOR_PATTERNS: Final = 6
"""Values of both attributes from which on the table of a pair is so large that patterns stand out against noise."""
FLOOR: Final = 0.1
"""Share of the prediction that a cell keeps as its possible deviation where the strong patterns say it is empty."""


def denoised(noisy: Reals, expected: Reals, std: float) -> Reals:
    """Noisy counts with the noise taken out as far as a prediction allows; the prediction where there is only noise.

    First the singular values of the difference are shrunk by the rule that is best in squared error for noise of known
    deviation (Gavish and Donoho, 2017): dependence of two attributes has few strong patterns. What is left is
    then drawn to 0 cell by cell, as if cells deviated with variances in proportion to what they are expected to hold.
    A table of more than two attributes has the first for a side, all others for the other.

    >>> expected = np.full((2, 2), 25.0)
    >>> denoised(np.array([[26.0, 24.0], [25.0, 25.0]]), expected, std=5.0).tolist()
    [[25.0, 25.0], [25.0, 25.0]]
    >>> denoised(np.array([[50.0, 1.0], [-1.0, 50.0]]), expected, std=1.0).round().tolist()
    [[50.0, 0.0], [0.0, 50.0]]
    """
    if std <= 0:
        return noisy
    difference, freedom = noisy - expected, noisy.size
    if noisy.ndim == 2:
        # Sums along the sides are known better from elsewhere: only what they do not tell is looked at.
        difference = difference - difference.mean(axis=0) - difference.mean(axis=1, keepdims=True) + difference.mean()
        freedom = (noisy.shape[0] - 1) * (noisy.shape[1] - 1)
    likely = expected
    if noisy.ndim > 2 or min(noisy.shape) >= FEWEST_FOR_PATTERNS:
        pattern = _strong(difference.reshape(noisy.shape[0], -1), std).reshape(noisy.shape)
        likely = np.maximum(expected + pattern, 0.0)
    rest = difference - (likely - expected)
    spread = np.maximum(likely, FLOOR * expected) + 1e-9
    excess = float(np.square(rest).sum()) - freedom * std**2
    if excess <= 0:
        return likely
    variance = excess / float(spread.sum()) * spread
    return np.asarray(likely + rest * variance / (variance + std**2 * freedom / noisy.size), dtype=np.float64)


def _strong(difference: Reals, std: float) -> Reals:
    if difference.shape[0] > difference.shape[1]:
        return _strong(difference.T, std).T
    unit = std * np.sqrt(difference.shape[1])
    ratio = difference.shape[0] / difference.shape[1]
    left, values, right = np.linalg.svd(difference, full_matrices=False)
    scaled = values / unit
    inside = np.maximum(np.square(np.square(scaled) - ratio - 1) - 4 * ratio, 0.0)
    kept = np.where(scaled > 1 + np.sqrt(ratio), np.sqrt(inside) / np.maximum(scaled, 1e-9), 0.0)
    return np.asarray((left * (kept * unit)) @ right, dtype=np.float64)
