"""Noise along edges and Cauchy noise: exact laws, exact charges, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.metric.support import line, meter
from veilstream.errors import BudgetExceededError, InvalidBudgetError
from veilstream.noise import ExactSampler
from veilstream.noise.cauchy import rounded_cauchy
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.opening import open_counts
from veilstream.trusted.points import SIDE
from veilstream.trusted.statistics.metric import hat_counts, smooth_order

FALSE_ALARM = 1e-6


def within(hits: int, trials: int, chance: float) -> bool:
    """Hoeffding: farther than this from the mean with probability below 1e-6."""
    return abs(hits / trials - chance) <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * trials))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(40, 7)])
def test_cauchy_noise_has_the_law_of_a_rounded_cauchy_variable(scale: Fraction) -> None:
    noise = ExactSampler(SeededSource(3))
    trials = 8_000
    draws = np.array([rounded_cauchy(-17, scale, noise) for _ in range(trials)]) + 17
    for edge in (-50, -6, -2, -1, 0, 1, 3, 8, 60):
        chance = 0.5 + math.atan((edge + 0.5) / float(scale)) / math.pi
        assert within(int((draws <= edge).sum()), trials, chance)


def loss(centre: float, spread: float, other: float, other_spread: float, s: float) -> float:
    """The largest log ratio of two Cauchy densities over a wide grid of places."""
    z = np.concatenate([np.linspace(-60, 60, 240_001), np.geomspace(60, 1e9, 2000), -np.geomspace(60, 1e9, 2000)])
    a, b = spread / s, other_spread / s
    y = centre + z * max(a, b)
    first = -math.log(a) - np.log1p(((y - centre) / a) ** 2)
    second = -math.log(b) - np.log1p(((y - other) / b) ** 2)
    return float(np.abs(first - second).max())


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_shift_and_a_stretch_cost_no_more_than_epsilon(epsilon: float) -> None:
    for share in (0.1, 0.5, 0.9):
        beta = share * epsilon
        for stretch in np.exp(np.linspace(-beta, beta, 9)):
            shift = min(1.0, float(stretch))
            assert loss(0.0, 1.0, shift, float(stretch), epsilon - beta) <= epsilon + 1e-9


def test_smooth_answers_are_charged_first_and_stay_in_the_domain() -> None:
    points = line([0, 0, SIDE], SIDE)
    value = smooth_order(points, 2, Fraction(1, 4))
    one = meter("1/2")
    answer = one.smooth_cauchy(value, Fraction(1, 2), "median")
    assert 0 <= int(answer.numbers[0]) <= SIDE
    assert math.isnan(float(answer.std))
    assert [(charge.epsilon, charge.purpose) for charge in one.charges] == [(Fraction(1, 2), "median")]
    with pytest.raises(BudgetExceededError):
        one.smooth_cauchy(value, Fraction(1, 2), "median")
    with pytest.raises(InvalidBudgetError):
        meter().smooth_cauchy(value, Fraction(1, 4), "median")
    many = meter(batch=(300,))
    drawn = many.smooth_cauchy(value, Fraction(1), "median").numbers
    assert drawn.shape == (300, 1)
    assert np.unique(drawn).size > 1
    assert [charge.epsilon for charge in many.charges] == [Fraction(1)]


def test_noise_along_edges_keeps_the_total_and_tells_its_deviation() -> None:
    grid = hat_counts(line([SIDE // 3] * 50 + [SIDE // 2] * 7, SIDE // 100), cells=8)
    runs = 4000
    one = meter(batch=(runs,))
    values = one.flow_laplace(grid, Fraction(1), "grid")
    assert (values.numbers.sum(axis=1) == 57 * grid.mass).all()
    assert [charge.epsilon for charge in one.charges] == [Fraction(1)]
    errors = values.numbers - open_counts(grid)
    # The fourth moment of one Laplace variable is 6σ⁴: a mean of 4,000 squares strays by 4 % a σ; 6σ is 1e-8.
    assert np.allclose((errors**2.0).mean(axis=0), np.square(values.std), rtol=0.25)
    half = errors[:, :4].sum(axis=1)
    assert half.std() == pytest.approx(np.asarray(values.std)[0], rel=0.12)
    with pytest.raises(BudgetExceededError):
        one.flow_laplace(grid, Fraction(1), "grid")
    with pytest.raises(InvalidBudgetError):
        meter().flow_laplace(grid, Fraction(0), "grid")
