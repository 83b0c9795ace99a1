"""Rows of running sums in the accountant: it equals the sum over rows by definition, and refuses what passes it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, ChargeError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.presence_windows import fullest
from veilstream.privacy.profile import Profile

DELTA = Guarantee(1, w=1, delta="1e-3")


def row(t: int, unit: Fraction, start: int = 0, kernel: Kernel | None = None) -> Charge:
    profile = Profile(Kernel(detail=1) if kernel is None else kernel, start, t - start)
    return Charge(Fraction(0), Span(start, t), "total", unit, starts=profile.encoded())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=25),
    st.integers(1, 3),
    st.sampled_from([Fraction(1, 3), Fraction(1, 5), Fraction(1, 20)]),
)
def test_one_running_sum_equals_the_sum_over_rows(steps: list[tuple[int, int]], detail: int, part: Fraction) -> None:
    """Timestamps are left out and rows are repeated, as skipped and failed steps do."""
    book, unit, kernel = Accountant(DELTA, bins=1), DELTA.mu_squared * part, Kernel(detail=detail)
    admitted: list[Charge] = []
    t = -1
    for gap, repeats in steps:
        t += gap
        book.advance(t)
        for _ in range(repeats):
            charge = row(t, unit, kernel=kernel)
            cost = fullest([*admitted, charge], DELTA)[1]
            if cost <= DELTA.mu_squared:
                book.admit([charge])
                admitted.append(charge)
            else:
                with pytest.raises(BudgetExceededError):
                    book.admit([charge])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["row", "other", "answer"]), st.sampled_from([Fraction(1, 7), Fraction(1, 40)])),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([1, 3]),
)
def test_several_sums_and_other_answers_are_never_charged_too_little(
    wanted: list[tuple[str, Fraction]], w: int
) -> None:
    guarantee = Guarantee(1, w=w, delta="1e-3")
    book = Accountant(guarantee, bins=1)
    admitted: list[Charge] = []
    for t, (kind, part) in enumerate(wanted):
        book.advance(t)
        unit = guarantee.mu_squared * part
        charge = {
            "row": row(t, unit),
            "other": row(t, unit, start=t - t % 4),
            "answer": Charge(Fraction(0), Span(max(0, t - 2), t), "publish", unit),
        }[kind]
        try:
            book.admit([charge])
        except BudgetExceededError:
            continue
        admitted.append(charge)
        assert fullest(admitted, guarantee)[1] <= guarantee.mu_squared


def test_a_replayed_accountant_answers_alike() -> None:
    unit = DELTA.mu_squared / 2
    one, other = Accountant(DELTA, bins=1), Accountant(DELTA, bins=1)
    for t in range(40):
        one.advance(t)
        try:
            one.admit([row(t, unit)])
        except BudgetExceededError:
            break
        other.advance(t)
        other.replay(row(t, unit))
        assert one.gaussian_left == other.gaussian_left
    else:
        pytest.fail("the budget never ended")


def test_only_gaussian_rows_of_the_present_are_taken() -> None:
    book = Accountant(DELTA, bins=1)
    book.advance(5)
    with pytest.raises(ChargeError):
        book.admit([row(4, DELTA.mu_squared / 9)])
    profile = Profile(Kernel(), 0, 5).encoded()
    with pytest.raises(ChargeError):
        book.admit([Charge(Fraction(1, 9), Span(0, 5), "total", starts=profile)])


def test_many_running_sums_are_remembered_as_few() -> None:
    """Sums one after the other cost no more than one of them, however many there are."""
    book, unit = Accountant(DELTA, bins=1), DELTA.mu_squared / 2
    for t in range(600):
        book.advance(t)
        book.admit([row(t, unit, start=t - t % 3)])
    assert book.gaussian_left == DELTA.mu_squared - unit
