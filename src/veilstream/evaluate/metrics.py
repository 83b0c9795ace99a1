"""How far released series are from the original ones.

Series are arrays of steps, of steps × bins, or of runs × steps × bins; the original may lack the axis of runs.
Every metric is one number, the mean over bins and runs. The original is private: so is a metric of real data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from veilstream.errors import InvalidInput


def average_relative_error(released: ArrayLike, original: ArrayLike, bound: float = 1.0) -> float:
    """Mean of |r − x| / max{x, bound}; the sanity ``bound`` keeps small counts from ruling the mean.

    >>> average_relative_error([11, 4], [10, 0])
    2.05
    """
    r, x = _aligned(released, original)
    if not bound > 0:
        raise InvalidInput(f"bound {bound}: it must be above 0; nothing was measured")
    return float((np.abs(r - x) / np.maximum(x, bound)).mean())


def mean_absolute_error(released: ArrayLike, original: ArrayLike) -> float:
    """Mean of |r − x|.

    >>> mean_absolute_error([11, 4], [10, 0])
    2.5
    """
    r, x = _aligned(released, original)
    return float(np.abs(r - x).mean())


def outbreak_f1(released: ArrayLike, original: ArrayLike, share: float = 0.05) -> float:
    """F1 of finding outbreaks: steps at which a series rises by more than ``share`` of the original's median.

    The harmonic mean of precision and recall over the steps of a series; 1 where there is nothing to find and nothing
    was found.

    >>> outbreak_f1([10, 10, 20, 30], [10, 20, 30, 30])
    0.5
    """
    r, x = _aligned(released, original)
    level = share * np.median(x, axis=1, keepdims=True)
    truth, found = np.diff(x, axis=1) > level, np.diff(r, axis=1) > level
    hits = (truth & found).sum(axis=1)
    marked = truth.sum(axis=1) + found.sum(axis=1)
    return float(np.where(marked == 0, 1.0, 2 * hits / np.maximum(marked, 1)).mean())


def rank_correlation(released: ArrayLike, original: ArrayLike) -> float:
    """Spearman's rank correlation over time, ties at their mean rank; 0 where a series does not move at all.

    >>> rank_correlation([1, 5, 3], [10, 30, 20])
    1.0
    """
    r, x = _aligned(released, original)
    centred = [ranks - ranks.mean(axis=1, keepdims=True) for ranks in (rankdata(r, axis=1), rankdata(x, axis=1))]
    together = (centred[0] * centred[1]).sum(axis=1)
    size = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    return float(np.where(size == 0, 0.0, together / np.where(size == 0, 1.0, size)).mean())


def coverage(low: ArrayLike, high: ArrayLike, original: ArrayLike) -> float:
    """The share of original values that lie in their interval.

    >>> coverage([0, 5], [2, 6], [1, 9])
    0.5
    """
    below, x = _aligned(low, original)
    above, _ = _aligned(high, original)
    return float(((below <= x) & (x <= above)).mean())


def _aligned(released: ArrayLike, original: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as runs × steps × bins, finite and of one shape."""
    r, x = _runs(released), _runs(original)
    if r.size == 0 or r.shape[1:] != x.shape[1:] or x.shape[0] not in (1, r.shape[0]):
        raise InvalidInput(
            f"series of shapes {np.shape(released)} and {np.shape(original)}: they must have the same steps and bins, "
            "and at least one; nothing was measured"
        )
    if not (np.isfinite(r).all() and np.isfinite(x).all()):
        raise InvalidInput("series with NaN or infinity: every value must be a number; nothing was measured")
    return r, np.broadcast_to(x, r.shape)


def _runs(series: Any) -> NDArray[np.float64]:
    array = np.asarray(series, dtype=np.float64)
    if array.ndim == 1:
        return array[None, :, None]
    if array.ndim == 2:
        return array[None]
    if array.ndim == 3:
        return array
    raise InvalidInput(f"series of {array.ndim} axes: steps, steps × bins or runs × steps × bins; nothing was measured")
