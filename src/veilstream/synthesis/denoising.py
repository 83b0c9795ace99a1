"""What a noisy table says beyond a public prediction of it: strong patterns, then cells by how far they can be off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
FEWEST_FOR_PATTERNS: Final = 6
"""Values of both attributes from which on the table of a pair is so large that patterns stand out against noise."""
FITTINGS: Final = 8
TRACE: Final = 1e-6
"""Share of a prediction that is left everywhere, so that fitting can reach all sums."""
SMALLEST: Final = 1e-300
NEGLIGIBLE: Final = 1e-6
"""Rows of noise below which whole counts have none."""
FLOOR: Final = 0.1
"""Share of the prediction that a cell keeps as its possible deviation where the strong patterns say it is empty."""


def denoised(noisy: Reals, expected: Reals, std: float, ordered: Sequence[bool] = ()) -> Reals:
    """Noisy counts with the noise taken out as far as a prediction allows; the prediction where there is only noise.

    First comes what the order of attributes lets one see (``with_trend``), if one of two is ``ordered``. Then the
    singular values of the difference are shrunk by the rule that is best in squared error for noise of known
    deviation (Gavish and Donoho, 2017): dependence of two attributes has few strong patterns. What is left is
    then drawn to 0 cell by cell, as if cells deviated with variances in proportion to what they are expected to hold.
    A table of more than two attributes has the first for a side, all others for the other.

    >>> expected = np.full((2, 2), 25.0)
    >>> denoised(np.array([[26.0, 24.0], [25.0, 25.0]]), expected, std=5.0).tolist()
    [[25.0, 25.0], [25.0, 25.0]]
    >>> denoised(np.array([[50.0, 1.0], [-1.0, 50.0]]), expected, std=1.0).round().tolist()
    [[50.0, 0.0], [0.0, 50.0]]
    """
    if std < NEGLIGIBLE:
        return noisy
    if noisy.ndim == 2 and any(ordered):
        expected = with_trend(noisy, expected, std, ordered)
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


def with_trend(noisy: Reals, expected: Reals, std: float, ordered: Sequence[bool]) -> Reals:
    """A prediction of a pair's table with the trend that noisy counts show: rows rise and columns rise with them.

    Of two ordered attributes the trend is one number, a covariance of places; of an ordered one and categories it is
    a mean place for every category. Noise that hides every cell leaves such sums readable: they are drawn to 0 by the
    rule of James and Stein for their few numbers, and spread over the cells in proportion to the prediction.

    >>> even = np.full((4, 4), 25.0)
    >>> noisy = even + 20 * np.outer([-1.5, -0.5, 0.5, 1.5], [-1.5, -0.5, 0.5, 1.5])
    >>> with_trend(noisy, even, 10.0, [True, True])[0].round().tolist()
    [54.0, 37.0, 9.0, 0.0]
    """
    sides = [_places(expected.sum(axis=1 - axis), ordered[axis]) for axis in (0, 1)]
    (rows, of_rows), (columns, of_columns) = sides
    sums = rows.T @ (noisy - expected) @ columns
    deviations = std * np.outer(np.sqrt(np.square(rows).sum(axis=0)), np.sqrt(np.square(columns).sum(axis=0)))
    scaled = sums / np.maximum(deviations, 1e-300)
    freedom = max(scaled.size - (1 if scaled.size > 1 else 0), 1)
    kept = max(1 - freedom / max(float(np.square(scaled).sum()), 1e-9), 0.0)
    return _with_sums(np.maximum(expected + kept * of_rows @ sums @ of_columns.T, 0.0), expected)


def _with_sums(table: Reals, other: Reals) -> Reals:
    """A table with the sums of another along both sides, fitted in turn: clipping at 0 has moved them."""
    found = table + TRACE * other
    for _ in range(FITTINGS):
        for axis in (0, 1):
            sums = np.maximum(found.sum(axis=axis, keepdims=True), SMALLEST)
            found = found * (other.sum(axis=axis, keepdims=True) / sums)
    return found


def trend_noise(expected: Reals, noise: float, ordered: Sequence[bool]) -> float:
    """The L1 distance that noise of this mean puts into a table of a pair through its trend alone."""
    sides = [_places(expected.sum(axis=1 - axis), ordered[axis]) for axis in (0, 1)]
    weights = [np.sqrt(np.square(scores).sum(axis=0)) * np.abs(spread).sum(axis=0) for scores, spread in sides]
    return noise * float(weights[0].sum() * weights[1].sum())


def _places(counts: Reals, ordered: bool) -> tuple[Reals, Reals]:
    """What is summed along one side of a table, one column for each sum, and how sums are spread over the side."""
    p = counts / counts.sum() if counts.sum() > 0 else np.full(counts.size, 1 / counts.size)
    if not ordered:
        return np.eye(counts.size), np.eye(counts.size)
    place = np.arange(counts.size) - float(p @ np.arange(counts.size))
    spread = float(p @ np.square(place))
    place = place[:, None] / np.sqrt(spread) if spread > 1e-12 else np.zeros((counts.size, 1))
    return place, p[:, None] * place


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
