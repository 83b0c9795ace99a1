"""Uniform, Sample and FixedRate: their shares are exact and their error is the closed form."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.histograms import Gaussian
from veilstream.mechanisms.streams import FixedRate, Sample, Uniform

FLAT = np.full((24, 50), 1_000)


def mean_absolute(scale: float) -> float:
    """E|X| of discrete Laplace noise."""
    q = np.exp(-1 / scale)
    return float(2 * q / (1 - q * q))


@pytest.mark.parametrize(
    ("mechanism", "guarantee", "scale"),
    [
        (Uniform(), vs.Guarantee(1, w=6), 6),
        (Uniform(), vs.Guarantee("1/2", w=1), 2),
        (Uniform(horizon=24), vs.Guarantee(2, w=None), 12),
        (Sample(), vs.Guarantee("1/2", w=6), 2),
        (Sample(), vs.Guarantee("1/4", w=None), 4),
        (FixedRate(interval=4), vs.Guarantee(1, w=6), 2),
        (FixedRate(interval=9), vs.Guarantee(1, w=6), 1),
        (FixedRate(interval=4, horizon=24), vs.Guarantee(1, w=None), 6),
    ],
    ids=str,
)
def test_mean_absolute_error_is_the_closed_form(mechanism: Any, guarantee: vs.Guarantee, scale: float) -> None:
    """Mean of |noise| over independent draws; 6 standard errors, false alarm below 1e-8 per case."""
    y = vs.simulate_many(mechanism, guarantee, FLAT, seed=3, runs=40)
    errors = np.abs(np.asarray(y) - 1_000)[:, y.fresh]
    margin = 6 * scale / np.sqrt(errors.size)
    assert errors.mean() == pytest.approx(mean_absolute(scale), abs=margin)


@pytest.mark.parametrize("mechanism", [Uniform(), Sample(), FixedRate(interval=5)], ids=str)
def test_unbiased(mechanism: Any) -> None:
    y = np.asarray(vs.simulate_many(mechanism, vs.Guarantee(1, w=10), FLAT[:1], seed=4, runs=4_000))
    # 200,000 draws of standard deviation at most 14.2: six standard errors, false alarm below 1e-8.
    assert abs(y.mean() - 1_000) < 6 * 14.2 / np.sqrt(y.size)


def test_shares_fill_the_window_exactly() -> None:
    y = vs.simulate(FixedRate(interval=3), vs.Guarantee(1, w=7), FLAT, seed=1)
    for start in range(24 - 7 + 1):
        assert sum(y.spent[start : start + 7], Fraction(0)) in (Fraction(2, 3), Fraction(1))


@pytest.mark.parametrize("mechanism", [Uniform(), FixedRate()], ids=str)
def test_user_level_needs_a_horizon(mechanism: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"horizon of '\w+': missing"):
        vs.Publisher(bins=3, guarantee=vs.Guarantee(1, w=None), mechanism=mechanism)


def test_nothing_is_published_beyond_the_horizon() -> None:
    p = vs.Publisher(bins=2, guarantee=vs.Guarantee(1, w=None), mechanism=Uniform(horizon=2))
    for _ in range(2):
        p.feed(np.array([1, 2]))
    with pytest.raises(BudgetExceededError, match="step 3 of a stream planned for 2"):
        p.feed(np.array([1, 2]))


@pytest.mark.parametrize("bad", [{"interval": 0}, {"interval": 2.5}, {"horizon": -1}, {"horizon": True}], ids=str)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(bad))):
        FixedRate(**bad)


def test_gaussian_noise_wins_over_many_releases() -> None:
    g = vs.Guarantee(1, w=400, delta="1e-6")
    gaussian = vs.simulate(Uniform(Gaussian()), g, FLAT, seed=1)
    assert 6 * gaussian.noise_std[0] < 400 * np.sqrt(2)
    assert gaussian.noise_std[0] == pytest.approx(np.std(gaussian - 1_000), rel=0.15)


def test_simulations_repeat_and_runs_differ() -> None:
    g = vs.Guarantee(1, w=5)
    one, two = (np.asarray(vs.simulate(Sample(), g, FLAT, seed=8)) for _ in range(2))
    assert np.array_equal(one, two)
    many = np.asarray(vs.simulate_many(Sample(), g, FLAT, seed=8, runs=3))
    assert many.shape == (3, 24, 50)
    assert not np.array_equal(many[0], many[1])
