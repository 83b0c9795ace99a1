"""Noise per window: exact sums by a few additions per step, charged for every window that an event is in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.streams import SlidingWindow
from veilstream.privacy.accountant import Accountant
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(0, 1000), min_size=1, max_size=30),
    window=st.integers(1, 8),
    w=st.sampled_from([1, 2, 5, 20]),
)
def test_without_noise_every_window_is_exact_and_all_are_paid(counts: list[int], window: int, w: int) -> None:
    mechanism, guarantee, noise = SlidingWindow(window=window), vs.Guarantee(1, w=w), NoNoise()
    accountant, state = Accountant(guarantee, 1), mechanism.start(guarantee, 1)
    for t, now in enumerate(counts):
        meter = Meter(accountant, noise, t)
        state, values = mechanism.step(state, seal(np.array([now]), t), meter)
        assert values.numbers[0] == sum(counts[max(0, t + 1 - window) : t + 1])
        assert len(state.ending) + len(state.fresh) <= window
    reads = min(len(counts), window)
    assert noise.scales[-1] == min(w, reads) * (w + window - 1)
    if len(counts) > w + window:
        with pytest.raises(BudgetExceededError):
            meter.laplace(seal(np.array([1]), meter.t), Fraction(1, 10**6) + accountant.left, "more")


def test_additions_per_step_do_not_grow_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    add = Sealed.__add__

    def counted(self: Sealed, other: Sealed) -> Sealed:
        made.append(1)
        return add(self, other)

    monkeypatch.setattr(Sealed, "__add__", counted)
    for window in (3, 10, 50):
        made.clear()
        vs.simulate(SlidingWindow(window=window), vs.Guarantee(1, w=1), np.ones((300, 1)), seed=1)
        assert len(made) <= 3 * 300


def test_an_endless_stream_of_windows_is_refused_at_user_level() -> None:
    with pytest.raises(InvalidInputError, match="user level"):
        SlidingWindow().start(vs.Guarantee(1, w=None), 3)
