"""Metrics of series: against their definitions, written out or by an independent library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from research.workloads import series as series_workloads
from veilstream.errors import InvalidInputError
from veilstream.evaluate.metrics import (
    area_under_curve,
    average_relative_error,
    coverage,
    mean_absolute_error,
    mean_squared_error,
    misclassification,
    outbreak_f1,
    rank_correlation,
    relative_frequency_error,
    sum_of_squared_errors,
)


def some_series() -> tuple[Any, Any]:
    x = series_workloads.linear(seed=4, steps=60, series=3)
    return x + series_workloads.logistic(seed=5, steps=60, series=3) - 5000, x


def test_relative_error_uses_the_sanity_bound() -> None:
    assert average_relative_error([5, 8], [0, 10], bound=2) == pytest.approx((5 / 2 + 2 / 10) / 2)
    assert average_relative_error([5, 8], [5, 8]) == 0
    assert mean_absolute_error([5, 8], [0, 10]) == 3.5


def test_squares_and_frequencies_are_those_of_their_definitions() -> None:
    r, x = some_series()
    assert sum_of_squared_errors(r, x) == pytest.approx(3 * mean_squared_error(r, x))
    assert mean_squared_error(r, x) == pytest.approx(float(((r - x) ** 2).mean()))
    assert relative_frequency_error(r, x, people=50) == pytest.approx(mean_absolute_error(r, x) / 50)
    with pytest.raises(InvalidInputError, match="people 0"):
        relative_frequency_error(r, x, people=0)


def test_area_under_the_curve_counts_pairs() -> None:
    scores = np.round(series_workloads.linear(seed=6, steps=80)[:, 0] / 500)
    labels = series_workloads.linear(seed=7, steps=80)[:, 0] % 2
    ones, zeros = scores[labels == 1], scores[labels == 0]
    pairs = (ones[:, None] > zeros).mean() + (ones[:, None] == zeros).mean() / 2
    assert area_under_curve(scores, labels) == pytest.approx(float(pairs))
    assert misclassification(labels, labels) == 0
    assert misclassification(1 - labels, labels) == 1


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [
        ([1, 2], [1, 1], "one class alone"),
        ([1, 2, 3], [1, 0], "shape"),
        ([1, 2], [1, 2], "labels 0 or 1"),
        ([1, np.nan], [1, 0], "must be numbers"),
    ],
)
def test_rows_without_a_class_are_refused(scores: list[float], labels: list[int], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        area_under_curve(scores, labels)
    with pytest.raises(InvalidInputError, match="predicted classes"):
        misclassification([0.5, 1], [0, 1])


def test_f1_is_that_of_its_definition() -> None:
    r, x = some_series()
    scores: list[float] = []
    for b in range(3):
        level = 0.05 * float(np.median(x[:, b]))
        truth = {k for k in range(1, 60) if x[k, b] - x[k - 1, b] > level}
        found = {k for k in range(1, 60) if r[k, b] - r[k - 1, b] > level}
        precision, recall = len(truth & found) / max(len(found), 1), len(truth & found) / max(len(truth), 1)
        scores.append(2 * precision * recall / (precision + recall) if precision + recall else float(truth == found))
    assert outbreak_f1(r, x) == pytest.approx(np.mean(scores))
    assert outbreak_f1(x, x) == 1
    assert outbreak_f1([5, 5, 5], [5, 5, 5]) == 1
    assert outbreak_f1([5, 9, 5], [5, 5, 5]) == 0


def test_rank_correlation_is_spearmans() -> None:
    r, x = some_series()
    expected = np.mean([float(np.asarray(spearmanr(r[:, b], x[:, b]))[0]) for b in range(3)])
    assert rank_correlation(r, x) == pytest.approx(expected)
    assert rank_correlation([1, 1, 2, 2], [3, 4, 4, 9]) == pytest.approx(
        float(np.asarray(spearmanr([1, 1, 2, 2], [3, 4, 4, 9]))[0])
    )
    assert rank_correlation([7, 7, 7], [1, 2, 3]) == 0


def test_runs_are_averaged() -> None:
    r, x = some_series()
    both = np.stack([r, x])
    for metric in (average_relative_error, outbreak_f1, rank_correlation):
        assert metric(both, x) == pytest.approx((metric(r, x) + metric(x, x)) / 2)
    assert coverage(both - 1, both + 1, x) >= 0.5


@pytest.mark.parametrize(
    "metric",
    [
        average_relative_error,
        mean_absolute_error,
        mean_squared_error,
        sum_of_squared_errors,
        outbreak_f1,
        rank_correlation,
    ],
)
def test_bad_series_are_refused(metric: Callable[[Any, Any], float]) -> None:
    with pytest.raises(InvalidInputError, match="NaN"):
        metric([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="shapes"):
        metric([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="at least one"):
        metric([], [])


def test_workloads_follow_their_models_and_repeat() -> None:
    walk = series_workloads.linear(seed=1, steps=2000, series=5, start=1e6)
    steps = np.diff(walk, axis=0).astype(np.float64)
    # The variance of 9,995 normal steps is within 6 standard errors (8.5 %) but for a chance below 1e-8.
    assert steps.var() == pytest.approx(1e5, rel=0.085)
    assert np.array_equal(walk, series_workloads.linear(seed=1, steps=2000, series=5, start=1e6))
    assert not np.array_equal(walk, series_workloads.linear(seed=2, steps=2000, series=5, start=1e6))
    assert abs(series_workloads.logistic(seed=1)[10:].mean() - 5000) < 6 * 316 / np.sqrt(990)
    wave = series_workloads.sinusoidal(seed=1, steps=1200).reshape(-1, 12).mean(axis=0)
    assert wave.argmax() == 0
    assert wave.max() - wave.min() == pytest.approx(10_000, abs=6 * 316 * 2 / 10)
    assert series_workloads.linear(seed=1, start=0.0).min() == 0
