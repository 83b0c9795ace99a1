"""Noise per unit, summed: the sums are those of the last units, and their error is the one the formula gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.streams import TimeUnit
from veilstream.noise.spread import laplace_std
from veilstream.privacy.accountant import Accountant
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5)), min_size=1, max_size=25),
    window=st.integers(1, 8),
)
def test_without_noise_every_window_is_exact(counts: list[tuple[int, int]], window: int) -> None:
    mechanism, guarantee = TimeUnit(window=window), vs.Guarantee(1, w=1)
    accountant, state = Accountant(guarantee, 2), mechanism.start(guarantee, 2)
    for t, now in enumerate(counts):
        state, values = mechanism.step(state, seal(np.array(now), t), Meter(accountant, NoNoise(), t))
        assert values.numbers.tolist() == np.array(counts[max(0, t + 1 - window) : t + 1]).sum(axis=0).tolist()
        assert len(state.units) == min(window, t + 1)


@pytest.mark.parametrize(("w", "share"), [(1, 1), (6, 6)])
def test_error_is_that_of_as_many_noises_as_units(w: int, share: int) -> None:
    """3,000 independent bins per step; the mean of their squares is within 5.5 of its deviations: below 1e-6."""
    window, bins = 4, 3000
    y = np.asarray(vs.simulate(TimeUnit(window=window), vs.Guarantee("1/2", w=w), np.full((9, bins), 7), seed=2))
    variance = window * laplace_std(2.0 * share) ** 2
    squares = (y[8] - window * 7) ** 2
    assert abs(squares.mean() - variance) < 5.5 * squares.std() / np.sqrt(bins)


def test_the_declared_deviation_follows_the_units_in_the_window() -> None:
    mechanism, guarantee = TimeUnit(window=3), vs.Guarantee(1, w=1)
    accountant, state = Accountant(guarantee, 1), mechanism.start(guarantee, 1)
    for t in range(7):
        state, values = mechanism.step(state, seal(np.array([5]), t), Meter(accountant, NoNoise(), t))
        assert values.std == pytest.approx(laplace_std(1.0) * np.sqrt(min(3, t + 1)))
        assert values.law == (NoiseLaw.LAPLACE if t == 0 else NoiseLaw.MIXED)


def test_user_level_needs_a_horizon_and_keeps_to_it() -> None:
    with pytest.raises(InvalidInputError, match="horizon of 'TimeUnit'"):
        vs.simulate(TimeUnit(), vs.Guarantee(1, w=None), np.ones((2, 1)), seed=1)
    with pytest.raises(BudgetExceededError, match="planned for 3 steps"):
        vs.simulate(TimeUnit(horizon=3), vs.Guarantee(1, w=None), np.ones((4, 1)), seed=1)
    with pytest.raises(InvalidInputError, match="window 0 of TimeUnit"):
        TimeUnit(window=0)
