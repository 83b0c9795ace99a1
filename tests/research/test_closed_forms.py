"""Measured errors of the baselines against formulas worked out apart from the code.

With q = e^(−1/s), discrete Laplace noise X of scale s has E|d + X| = |d| + 2q^(|d|+1)/(1 − q²) for whole d. Each mean
of n independent bins may be 6 standard errors off: about 2·10⁻⁹ for the normal law it nearly has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from veilstream.mechanisms.streams import BudgetAbsorption, BudgetDistribution, FixedRate, Sample, Uniform

BINS = 40_000
SIGMAS = 6.0


def mean_distance(shift: int, scale: float) -> float:
    """E|shift + X| for discrete Laplace X."""
    q = math.exp(-1 / scale)
    return abs(shift) + 2 * q ** (abs(shift) + 1) / (1 - q * q)


def errors(mechanism: Any, guarantee: vs.Guarantee, series: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean absolute error of every step over independent equal bins, and its standard error."""
    stream = np.repeat(np.array(series)[:, None], BINS, axis=1)
    gaps = np.abs(np.asarray(vs.simulate(mechanism, guarantee, stream, seed=20150101)) - stream)
    return gaps.mean(axis=1), gaps.std(axis=1) / math.sqrt(BINS)


def assert_near(found: tuple[NDArray[Any], NDArray[Any]], expected: list[float]) -> None:
    assert np.all(np.abs(found[0] - expected) <= SIGMAS * found[1]), (found[0], expected)


@pytest.mark.parametrize(("epsilon", "w"), [("1", 1), ("1/2", 10), ("1", 40)])
def test_uniform_errs_by_w_over_epsilon(epsilon: str, w: int) -> None:
    guarantee = vs.Guarantee(epsilon, w=w)
    scale = w / float(guarantee.epsilon)
    assert_near(errors(Uniform(), guarantee, [300, 20, 0, 7]), [mean_distance(0, scale)] * 4)
    assert math.isclose(mean_distance(0, scale), scale, rel_tol=0.2 if w == 1 else 1e-2)


def test_sample_errs_by_its_noise_and_by_what_changed_since() -> None:
    series, w = [50, 53, 40, 50, 90, 90, 80, 70], 4
    drift = [series[t] - series[t - t % w] for t in range(len(series))]
    assert_near(errors(Sample(), vs.Guarantee("1/4", w=w), series), [mean_distance(d, 4.0) for d in drift])


def test_fixed_rate_errs_by_its_shares_and_by_what_changed_since() -> None:
    series, w, interval = [50, 53, 40, 50, 90, 90, 80, 70], 6, 2
    drift = [series[t] - series[t - t % interval] for t in range(len(series))]
    found = errors(FixedRate(interval=interval), vs.Guarantee("1/2", w=w), series)
    assert_near(found, [mean_distance(d, (w / interval) / 0.5) for d in drift])


def test_distribution_halves_its_budget_while_everything_changes() -> None:
    series = [0, 10**9] * 4
    found = errors(BudgetDistribution(), vs.Guarantee(1, w=20), series)
    assert_near(found, [mean_distance(0, 2.0 ** (2 + releases)) for releases in range(len(series))])


def test_distribution_keeps_its_first_release_while_nothing_changes() -> None:
    """Releases of ε/4, then ε/8, would err by 4 and by 8: with 40,000 bins the mean distance is known well enough."""
    w = 20
    found = errors(BudgetDistribution(), vs.Guarantee(1, w=w), [100] * w)
    assert_near(found, [mean_distance(0, 4.0)] * w)


def test_absorption_spends_one_share_a_step_while_everything_changes() -> None:
    series, w = [0, 10**9] * 6, 5
    found = errors(BudgetAbsorption(), vs.Guarantee("1/2", w=w), series)
    assert_near(found, [mean_distance(0, 2 * w / 0.5)] * len(series))
