"""The offline schedule is optimal, and exact about every window."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.allocation import (
    ErrorFunction,
    GeometricError,
    PowerError,
    Schedule,
    largest_window_sum,
    optimal_schedule,
)
from veilstream.mechanisms.allocation.offline import solve
from veilstream.mechanisms.allocation.schedule import clip, clip_cycle
from veilstream.mechanisms.allocation.windows import sliding


def by_definition(budgets: Sequence[Fraction], window: int) -> Fraction:
    """The fullest of all windows, the one of all steps among them when there are few."""
    starts = range(max(1, len(budgets) - window + 1))
    return max(sum(budgets[first : first + window], Fraction(0)) for first in starts)


def generic_optimum(weights: list[float], epsilon: float, window: int, error: ErrorFunction) -> float:
    """The same problem given to a general convex solver."""
    n = len(weights)
    rows = max(1, n - window + 1)
    matrix = np.array([[1.0 if k <= i < k + window else 0.0 for i in range(n)] for k in range(rows)])
    w = np.array(weights)
    start = np.full(n, 0.9 * epsilon / min(window, n))
    found = cast(Any, minimize)(
        lambda x: float(w @ error.value(x)) / float(w @ error.value(start)),
        start,
        jac=lambda x: w * error.slope(x) / float(w @ error.value(start)),
        method="SLSQP",
        bounds=[(1e-6 * epsilon, epsilon)] * n,
        constraints=[LinearConstraint(matrix, -np.inf, epsilon)],
        options={"maxiter": 500, "ftol": 1e-13},
    )
    return float(w @ error.value(found.x))


@given(
    st.lists(st.fractions(0, 50, max_denominator=8), min_size=1, max_size=40).filter(any),
    st.integers(1, 50),
    st.fractions("1/90", 20, max_denominator=97),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_no_window_passes_epsilon_and_zero_weights_get_nothing(
    weights: list[Fraction], window: int, epsilon: Fraction, repeat: bool
) -> None:
    schedule = optimal_schedule(weights, epsilon, window, repeat=repeat)
    budgets = list(schedule.budgets)
    unrolled = budgets * (2 + window // len(budgets)) if repeat else budgets
    assert by_definition(unrolled, window) == schedule.fullest <= epsilon
    assert all((budget > 0) == (weight > 0) for budget, weight in zip(budgets, weights, strict=True))
    assert all((budget * 2**30).denominator == 1 for budget in budgets)
    assert schedule.gap < 1e-5


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize(("steps", "window"), [(1, 1), (5, 9), (9, 9), (24, 8)])
def test_closed_form_for_one_window_and_for_weights_that_repeat_with_it(power: int, steps: int, window: int) -> None:
    period = np.array([1.0, 27.0, 8.0, 0.125, 64.0, 2.0, 3.0, 5.0, 0.5])[: min(steps, window)]
    weights = np.resize(period, steps)
    roots = weights ** (1 / (power + 1))
    schedule = optimal_schedule(weights.tolist(), "3/2", window, error=PowerError(power=power))
    expected = 1.5 * roots / roots[: min(steps, window)].sum()
    assert np.array([float(b) for b in schedule.budgets]) == pytest.approx(expected, rel=2e-4)
    assert schedule.cost == pytest.approx(float(weights @ PowerError(power=power).value(expected)), rel=1e-7)


@pytest.mark.parametrize("error", [PowerError(), PowerError(1, 1), GeometricError()], ids=repr)
@pytest.mark.parametrize(("steps", "window"), [(10, 3), (14, 5), (12, 11), (9, 1)])
def test_as_good_as_a_generic_convex_solver(error: ErrorFunction, steps: int, window: int) -> None:
    rng = np.random.default_rng(steps * window)  # noqa: TID251 (public test weights)
    for epsilon in (0.3, 4.0):
        weights = np.exp(1.5 * rng.normal(size=steps)).tolist()
        schedule = optimal_schedule(weights, epsilon, window, error=error)
        other = generic_optimum(weights, epsilon, window, error)
        assert schedule.cost <= other * (1 + 1e-6)
        assert schedule.lower <= other * (1 + 1e-9)


@pytest.mark.parametrize(("steps", "window"), [(60, 7), (400, 30), (80, 70)])
def test_optimality_conditions_hold(steps: int, window: int) -> None:
    """Stationary, feasible, multipliers not negative and zero where a window is loose."""
    rng = np.random.default_rng(3)  # noqa: TID251 (public test weights)
    weights, error = np.exp(rng.normal(size=steps)), PowerError()
    windows = sliding(np.arange(steps), steps, window)
    found = solve(weights, error, windows, 1.0)
    pull = -weights * error.slope(found.budgets)
    assert windows.gather(found.multipliers) == pytest.approx(pull, rel=1e-6)
    slack = 1.0 - windows.sums(found.budgets)
    assert (slack > 0).all()
    assert (found.multipliers >= 0).all()
    assert float(found.multipliers @ slack) < 1e-8 * found.cost
    assert found.budgets == pytest.approx((4 * weights / windows.gather(found.multipliers)) ** (1 / 3), rel=1e-6)


def test_a_cycle_does_as_well_per_period_as_a_long_stream() -> None:
    weights = [1, 5, 0, 2, 30, 1, 1]
    cycle = optimal_schedule(weights, 1, 10, repeat=True)
    long = optimal_schedule(weights * 40, 1, 10)
    assert cycle.cost * 40 == pytest.approx(long.cost, rel=0.01)
    assert cycle.cost * 40 >= long.lower
    assert cycle.at(7 * 11 + 4) == cycle.budgets[4]


def test_every_step_may_have_its_own_error() -> None:
    flat, steep = PowerError(1, 1), PowerError(2, 2)
    mixed = optimal_schedule([1, 0, 1, 1], 1, 4, error=[flat, steep, steep, flat])
    x = [float(budget) for budget in mixed.budgets]
    assert x[0] == pytest.approx(x[3], rel=1e-4)
    assert 1 / x[0] ** 2 == pytest.approx(4 / x[2] ** 3, rel=1e-3)


def test_a_large_stream_is_solved_to_a_small_certified_gap() -> None:
    weights = [1 + (i * i) % 97 for i in range(1_500)]
    schedule = optimal_schedule(weights, 1, 40)
    assert 0 <= schedule.gap < 1e-6
    assert by_definition(schedule.budgets, 40) <= 1


def test_derivatives_are_those_of_the_value() -> None:
    x, h = np.array([0.05, 0.7, 3.0, 9.0]), 1e-5
    for error in (PowerError(), PowerError(1, 3), GeometricError()):
        up, down = x * (1 + h), x * (1 - h)
        assert error.slope(x) == pytest.approx((error.value(up) - error.value(down)) / (up - down), rel=1e-5)
        assert error.curvature(x) == pytest.approx((error.slope(up) - error.slope(down)) / (up - down), rel=1e-5)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 40), st.integers(1, 300))
def test_clipping_alone_makes_any_proposal_safe(units: list[int], window: int, limit: int) -> None:
    kept = [Fraction(unit) for unit in clip(units, limit, window)]
    assert by_definition(kept, window) <= limit
    assert all(new <= old for new, old in zip(kept, units, strict=True))
    cycle = [Fraction(unit) for unit in clip_cycle(units, limit, window)]
    assert by_definition(cycle * (2 + window // len(cycle)), window) <= limit


@given(st.lists(st.fractions(0, 9), min_size=1, max_size=12), st.integers(1, 40))
def test_the_largest_window_sum_is_the_definition(budgets: list[Fraction], window: int) -> None:
    assert largest_window_sum(budgets, window) == by_definition(budgets, window)
    unrolled = budgets * (2 + window // len(budgets))
    assert largest_window_sum(budgets, window, cyclic=True) == by_definition(unrolled, window)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": []}, "none above 0"),
        ({"weights": [0, 0]}, "none above 0"),
        ({"weights": [1, -1]}, r"weights\[1\] -1"),
        ({"weights": [1, float("nan")]}, "weights nan"),
        ({"window": 0}, "window 0"),
        ({"window": True}, "window True"),
        ({"epsilon": 0}, "epsilon 0"),
        ({"error": [PowerError()]}, "1 error functions for 2 weights"),
        ({"weights": [1] * 2001, "repeat": True}, "repeat after 2001 steps"),
        ({"epsilon": 400, "error": GeometricError()}, "at most 300"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"weights": [1, 2], "epsilon": 1, "window": 1} | changes
    with pytest.raises(InvalidInputError, match=words):
        optimal_schedule(**given)


def test_a_budget_finer_than_the_grid_is_refused() -> None:
    with pytest.raises(InvalidBudgetError, match="less than 2\\^-30"):
        optimal_schedule([1, 1, 1], Fraction(1, 2**30), 3)


def test_a_schedule_knows_its_gap() -> None:
    exact = Schedule((Fraction(1, 2), Fraction(1, 2)), Fraction(1), 2, False, cost=16.0, lower=16.0)
    assert (exact.gap, exact.fullest, exact.at(1)) == (0.0, Fraction(1), Fraction(1, 2))
