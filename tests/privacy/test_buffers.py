"""Weights by decaying buffers: what they cost is never said too low, and records bring them back."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_windows import fullest
from veilstream.privacy.profile import Profile

DELTA = Guarantee(1, w=1, delta="1e-3")


@st.composite
def some_buffers(draw: st.DrawFn, horizon: int | None = None) -> Buffers:
    size = draw(st.integers(1, 4))
    rates = tuple(draw(st.integers(0, 12)) for _ in range(size))
    factors = tuple(draw(st.integers(1, 16)) for _ in range(size))
    return Buffers(rates, factors, (6,) * size, horizon)


def row(buffers: Buffers, t: int, unit: Fraction) -> Charge:
    return Charge(Fraction(0), Span(0, t), "total", unit, starts=Profile(buffers, 0, t).encoded())


@settings(max_examples=60, deadline=None)
@given(some_buffers(), st.integers(1, 3000))
def test_squares_are_added_up_and_rounded_up(buffers: Buffers, count: int) -> None:
    exact = float((buffers.coefficients(count) ** 2).sum())
    assert exact - 1e-9 <= float(buffers.squares(count)) <= exact + 1e-6
    assert buffers.squares(count) <= buffers.squares(None)
    assert buffers.spent(count) >= buffers.squares(count)


@settings(max_examples=40, deadline=None)
@given(some_buffers(), st.integers(1, 300))
def test_no_position_costs_more_than_all_rows_of_the_first(buffers: Buffers, horizon: int) -> None:
    """Also at every row before the last, as the accountant says by its one number."""
    planned = Buffers(buffers.rates, buffers.factors, buffers.shifts, horizon)
    squares = np.cumsum(planned.coefficients(horizon) ** 2)
    scales = np.array([planned.scale(s) for s in range(horizon)]) / float(1 << SCALE_BITS)
    assert (np.diff(scales) >= 0).all()
    assert scales[0] == 1
    for last in {horizon - 1, horizon // 2, horizon // 5}:
        paid = scales[: last + 1] ** 2 * squares[: last + 1][::-1]
        assert paid.max() <= float(planned.spent(last + 1)) + 1e-9


@settings(max_examples=30, deadline=None)
@given(
    some_buffers(horizon=60),
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=20),
    st.sampled_from([Fraction(1, 3), Fraction(1, 5), Fraction(1, 20)]),
)
def test_skipped_and_repeated_rows_are_never_charged_too_little(
    buffers: Buffers, steps: list[tuple[int, int]], part: Fraction
) -> None:
    book, unit = Accountant(DELTA, bins=1), DELTA.mu_squared * part
    admitted: list[Charge] = []
    t = -1
    for gap, repeats in steps:
        t += gap
        book.advance(t)
        for _ in range(repeats):
            try:
                book.admit([row(buffers, t, unit)])
            except BudgetExceededError:
                continue
            admitted.append(row(buffers, t, unit))
            assert fullest(admitted, DELTA)[1] <= DELTA.mu_squared
    resumed = Accountant(DELTA, bins=1)
    resumed.restore(book.snapshot())
    assert resumed.gaussian_left == book.gaussian_left


@settings(max_examples=40)
@given(some_buffers(), st.integers(-5, 10**6), st.integers(0, 5000), st.sampled_from([None, 1, 10**6]))
def test_a_profile_survives_its_record(buffers: Buffers, start: int, index: int, horizon: int | None) -> None:
    planned = Buffers(buffers.rates, buffers.factors, buffers.shifts, horizon)
    profile = Profile(planned, start, index)
    assert Profile.decoded(profile.encoded()) == profile


def test_what_is_no_set_of_buffers_is_refused() -> None:
    for wrong in (((1,), (1,), (1, 2)), ((), (), ()), ((1,), (3,), (1,)), ((-1,), (1,), (1,)), ((1,), (0,), (1,))):
        with pytest.raises(InvalidInputError):
            Buffers(*wrong)
    with pytest.raises(InvalidInputError):
        Buffers((1,), (1,), (1,), horizon=4).scale(4)
