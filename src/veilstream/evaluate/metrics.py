"""How far released series are from the original ones, and how well classifiers do.

Series are arrays of steps, of steps × bins, or of runs × steps × bins; the original may lack the axis of runs.
Every metric is one number, the mean over bins and runs. The original is private: so is a metric of real data.
Errors of range counts are in ``range_error``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from veilstream.errors import InvalidInputError


def average_relative_error(released: ArrayLike, original: ArrayLike, bound: float = 1.0) -> float:
    """Mean of |r − x| / max{x, bound} (MRE); the sanity ``bound`` keeps small counts from ruling the mean.

    >>> average_relative_error([11, 4], [10, 0])
    2.05
    """
    r, x = _aligned(released, original)
    if not bound > 0:
        raise InvalidInputError(name="bound", value=bound, limit="it must be above 0")
    return float((np.abs(r - x) / np.maximum(x, bound)).mean())


def mean_absolute_error(released: ArrayLike, original: ArrayLike) -> float:
    """Mean of |r − x|.

    >>> mean_absolute_error([11, 4], [10, 0])
    2.5
    """
    r, x = _aligned(released, original)
    return float(np.abs(r - x).mean())


def mean_squared_error(released: ArrayLike, original: ArrayLike) -> float:
    """Mean of (r − x)².

    >>> mean_squared_error([11, 4], [10, 0])
    8.5
    """
    r, x = _aligned(released, original)
    return float(np.square(r - x).mean())


def sum_of_squared_errors(released: ArrayLike, original: ArrayLike) -> float:
    """Σ(r − x)² over the bins of one histogram, the mean over steps (SSE).

    >>> sum_of_squared_errors([[11, 4], [3, 3]], [[10, 0], [3, 2]])
    9.0
    """
    r, x = _aligned(released, original)
    return float(np.square(r - x).sum(axis=2).mean())


def relative_frequency_error(released: ArrayLike, original: ArrayLike, people: int) -> float:
    """Mean of |r − x| / n, where n = ``people`` is the number of people behind the counts.

    The thesis of H. Li (section 5.3) prints it without the modulus, by which errors of both signs would cancel.

    >>> relative_frequency_error([11, 4], [10, 0], people=100)
    0.025
    """
    if people < 1:
        raise InvalidInputError(name="people", value=people, limit="at least 1 is needed")
    return mean_absolute_error(released, original) / people


def outbreak_f1(released: ArrayLike, original: ArrayLike, share: float = 0.05) -> float:
    """F1 of finding outbreaks: steps at which a series rises by more than ``share`` of the original's median.

    The harmonic mean of precision and recall over the steps of a series; 1 where there is nothing to find and nothing
    was found.

    >>> outbreak_f1([10, 10, 20, 30], [10, 20, 30, 30])
    0.5
    """
    r, x = _aligned(released, original)
    level = share * np.median(x, axis=1, keepdims=True)
    truth, reported = np.diff(x, axis=1) > level, np.diff(r, axis=1) > level
    hits = (truth & reported).sum(axis=1)
    marked = truth.sum(axis=1) + reported.sum(axis=1)
    return float(np.where(marked == 0, 1.0, 2 * hits / np.maximum(marked, 1)).mean())


def rank_correlation(released: ArrayLike, original: ArrayLike) -> float:
    """Spearman's rank correlation over time, ties at their mean rank; 0 where a series does not move at all.

    >>> rank_correlation([1, 5, 3], [10, 30, 20])
    1.0
    """
    r, x = _aligned(released, original)
    centred = [ranks - ranks.mean(axis=1, keepdims=True) for ranks in (rankdata(r, axis=1), rankdata(x, axis=1))]
    products = (centred[0] * centred[1]).sum(axis=1)
    size = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    return float(np.where(size == 0, 0.0, products / np.where(size == 0, 1.0, size)).mean())


def coverage(low: ArrayLike, high: ArrayLike, original: ArrayLike) -> float:
    """The share of original values that lie in their interval.

    >>> coverage([0, 5], [2, 6], [1, 9])
    0.5
    """
    below, x = _aligned(low, original)
    above, _ = _aligned(high, original)
    return float(((below <= x) & (x <= above)).mean())


def area_under_curve(scores: ArrayLike, labels: ArrayLike) -> float:
    """The chance that a row of class 1 has a higher score than one of class 0, ties counted half (AUC of ROC).

    >>> area_under_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    s, truth = _labelled(scores, labels)
    ones = int(truth.sum())
    zeros = truth.size - ones
    if not (ones and zeros):
        raise InvalidInputError("labels of one class alone: the curve needs both 0 and 1")
    ranks = rankdata(s)
    return float((ranks[truth].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def misclassification(predicted: ArrayLike, labels: ArrayLike) -> float:
    """The share of rows whose predicted class, 0 or 1, is not their own.

    >>> misclassification([0, 1, 1, 1], [0, 0, 1, 1])
    0.25
    """
    guessed, truth = _labelled(predicted, labels)
    if not np.isin(guessed, (0, 1)).all():
        raise InvalidInputError("predicted classes other than 0 and 1: scores have no class yet")
    return float(((guessed == 1) != truth).mean())


def _labelled(values: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A number and a class, 0 or 1, for every row."""
    numbers, classes = np.asarray(values, dtype=np.float64), np.asarray(labels)
    if numbers.ndim != 1 or numbers.shape != classes.shape or not numbers.size:
        raise InvalidInputError(
            f"values of shape {numbers.shape} with labels of shape {classes.shape}: one of each for every "
            "row, and at least one row"
        )
    if not (np.isfinite(numbers).all() and np.isin(classes, (0, 1)).all()):
        raise InvalidInputError("values must be numbers and labels 0 or 1 in every row")
    return numbers, classes == 1


def _aligned(released: ArrayLike, original: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as runs × steps × bins, finite and of one shape."""
    r, x = _runs(released), _runs(original)
    if r.size == 0 or r.shape[1:] != x.shape[1:] or x.shape[0] not in (1, r.shape[0]):
        raise InvalidInputError(
            f"series of shapes {np.shape(released)} and {np.shape(original)}: they must have the same "
            "steps and bins, and at least one"
        )
    if not (np.isfinite(r).all() and np.isfinite(x).all()):
        raise InvalidInputError("series with NaN or infinity: every value must be a number")
    return r, np.broadcast_to(x, r.shape)


def _runs(series: Any) -> NDArray[np.float64]:
    array = np.asarray(series, dtype=np.float64)
    if array.ndim == 1:
        return array[None, :, None]
    if array.ndim == 2:
        return array[None]
    if array.ndim == 3:
        return array
    raise InvalidInputError(f"series of {array.ndim} axes: steps, steps × bins or runs × steps × bins")
