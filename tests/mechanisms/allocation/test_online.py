"""The online rule never passes its window, whatever the weights, and keeps its promise about cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.allocation import OnlineRule, OnlineState, PowerError, largest_window_sum, optimal_schedule
from veilstream.mechanisms.allocation.bounds import log_up, whole_root


def budgets_of(rule: OnlineRule, weights: list[Any]) -> list[Fraction]:
    state, budgets = OnlineState(), []
    for weight in weights:
        state, epsilon = rule.next(state, weight)
        budgets.append(epsilon)
        assert max(state.roots.size, state.shares.size) <= rule.window - 1
    return budgets


def cost(weights: list[Any], budgets: list[Fraction], power: int) -> float:
    paid = [(float(w), float(b)) for w, b in zip(weights, budgets, strict=True) if w]
    return sum(2 * w / b**power for w, b in paid)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Fraction], tuple[Fraction, Fraction]]:
    """Weights within their public bounds or 0; in half of the cases they grow, the worst for an online rule."""
    ratio = draw(st.fractions(1, 10**6, max_denominator=4))
    low = draw(st.fractions("1/50", 3, max_denominator=50))
    positions = draw(st.lists(st.fractions(0, 1, max_denominator=16) | st.none(), min_size=1, max_size=60))
    if draw(st.booleans()):
        positions = sorted(positions, key=lambda p: -1 if p is None else p)
    weights = [Fraction(0) if p is None else low + p * (low * ratio - low) for p in positions]
    return weights, (low, low * ratio)


@given(
    streams(),
    st.integers(1, 40),
    st.fractions("1/1000", 50, max_denominator=1000),
    st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(1)]),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=100)
def test_no_window_ever_passes_epsilon(
    stream: tuple[list[Fraction], tuple[Fraction, Fraction]],
    window: int,
    epsilon: Fraction,
    steady: Fraction,
    power: int,
) -> None:
    weights, bounds = stream
    rule = OnlineRule(epsilon, window, bounds, power, steady)
    budgets = budgets_of(rule, weights)
    assert largest_window_sum(budgets, window) <= epsilon
    assert all(budget == 0 for budget, weight in zip(budgets, weights, strict=True) if weight == 0)


@given(streams().filter(lambda s: any(s[0])), st.integers(1, 20), st.sampled_from([Fraction(1, 2), Fraction(1)]))
@settings(deadline=None, max_examples=60)
def test_cost_is_within_the_promised_factor_of_the_optimum(
    stream: tuple[list[Fraction], tuple[Fraction, Fraction]], window: int, steady: Fraction
) -> None:
    weights, bounds = stream
    for power in (1, 2):
        rule = OnlineRule(Fraction(1), window, bounds, power, steady)
        best = optimal_schedule(weights, 1, window, error=PowerError(power, 2))
        factor = (2 * float(rule.slowness / steady)) ** power
        assert cost(weights, budgets_of(rule, weights), power) <= factor * best.cost * 1.001


def test_growing_weights_ruin_sharing_alone_but_not_the_default() -> None:
    weights = [8 ** (t % 50 - 30) if t % 50 > 30 else 1 for t in range(200)]
    bounds = (1, max(weights))
    best = optimal_schedule(weights, 1, 50).cost
    ratio = {
        steady: cost(weights, budgets_of(OnlineRule(Fraction(1), 50, bounds, 2, steady), weights), 2) / best
        for steady in (Fraction(0), Fraction(1, 2), Fraction(1))
    }
    assert ratio[Fraction(1, 2)] < 0.5 * ratio[Fraction(1)]
    assert ratio[Fraction(1, 2)] < 0.5 * ratio[Fraction(0)]


def test_one_step_windows_give_everything_to_the_steady_rule() -> None:
    assert budgets_of(OnlineRule(Fraction(3), 1, (1, 100), steady=Fraction(1)), [1, 50, 100]) == [3, 3, 3]


@given(st.fractions(1, 10**15))
def test_log_up_is_above_and_close(value: Fraction) -> None:
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(value.numerator) / value.denominator)
        above = mpmath.mpf(log_up(value).numerator) / log_up(value).denominator - exact
        assert 0 <= above < 1e-12


@given(st.integers(0, 2**128), st.integers(1, 9))
def test_whole_root_is_the_largest(value: int, degree: int) -> None:
    root = whole_root(value, degree)
    assert root**degree <= value < (root + 1) ** degree


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"window": 0}, "window 0"),
        ({"epsilon": Fraction(0)}, "epsilon 0"),
        ({"bounds": (2, 1)}, "bounds 2 and 1"),
        ({"bounds": (0, 1)}, "bounds 0 and 1"),
        ({"bounds": (1, 10**40)}, "less than 2\\^96 apart"),
        ({"power": 0}, "power 0"),
        ({"steady": Fraction(2)}, "steady 2"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidInputError, InvalidBudgetError), match=words):
        OnlineRule(**{"epsilon": Fraction(1), "window": 5, "bounds": (1, 2), **changes})


def test_weights_outside_their_public_bounds_are_refused() -> None:
    rule = OnlineRule(Fraction(1), 5, (1, 2))
    for weight in ("1/2", 3, -1):
        with pytest.raises(InvalidInputError, match="outside its public bounds 1 to 2"):
            rule.next(OnlineState(), weight)


def test_sums_of_roots_cannot_overflow() -> None:
    rule = OnlineRule(Fraction(10**6), 10**9, (1, 1))
    state = OnlineState(np.full(1000, 2**32), np.zeros(1000, dtype=np.int64))
    _, epsilon = rule.next(state, 1)
    assert 0 < epsilon < Fraction(10**6)
