"""Weights of running sums: groups nest, weights are those of the formula, and no column costs more than was said."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidInputError
from veilstream.privacy.kernels import WEIGHT_BITS, Kernel
from veilstream.privacy.profile import Profile

KERNELS = [
    Kernel(detail=1),
    Kernel(detail=3),
    Kernel(detail=8),
    Kernel(endless=True, detail=4),
    Kernel(decay=Fraction(9, 10), detail=2),
]
ids = [f"{k.decay}-{k.endless}-{k.detail}" for k in KERNELS]


@given(st.integers(0, 100_000), st.integers(1, 9))
def test_groups_only_merge(row: int, detail: int) -> None:
    kernel = Kernel(detail=detail)
    before, after = kernel.boundaries(row), kernel.boundaries(row + 1)
    assert before[0] == after[0] == 0
    assert (np.diff(after) > 0).all()
    assert after[-1] == row + 1
    assert set(after.tolist()) <= {*before.tolist(), row + 1}
    sizes = np.diff(after, append=row + 2)
    newest = row + 2 - np.append(after[1:], row + 2)
    assert ((sizes == 1) | (newest >= detail * sizes)).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_no_position_costs_more_than_the_kernel_says(kernel: Kernel) -> None:
    rows = 700
    squares = np.zeros(rows, dtype=np.int64)
    for row in range(rows):
        firsts, weights = kernel.pieces(row)
        squares[: row + 1] += np.repeat(weights, np.diff(firsts, append=row + 1)) ** 2
    assert Fraction(int(squares.max()), 1 << (2 * WEIGHT_BITS)) == kernel.cost(rows)


@pytest.mark.parametrize("kernel", [Kernel(endless=True), Kernel(endless=True, detail=1), Kernel(Fraction(99, 100))])
def test_what_all_rows_cost_is_above_what_many_do(kernel: Kernel) -> None:
    for_ever = kernel.cost(None)
    assert kernel.cost(1 << 19) <= for_ever < Fraction(3, 2) * kernel.cost(1 << 19)


def test_weights_are_those_of_the_square_root() -> None:
    weights = Kernel(detail=100).pieces(60)[1][::-1] / 2**WEIGHT_BITS
    exact = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, 61) - 1) / (2 * np.arange(1, 61))]))
    assert np.abs(weights - exact).max() < 2**-WEIGHT_BITS + 1e-9
    # The square of the series is that of prefix sums.
    assert np.abs(np.convolve(exact, exact)[:61] - 1).max() < 1e-12


@settings(max_examples=50)
@given(st.integers(-5, 10**6), st.integers(0, 5000), st.sampled_from(KERNELS))
def test_a_profile_survives_its_record(start: int, row: int, kernel: Kernel) -> None:
    profile = Profile(kernel, start, row)
    assert Profile.decoded(profile.encoded()) == profile


def test_what_is_no_profile_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        Profile.decoded(np.array([3, 0, 0, 8, 0, 1, 1]))
    with pytest.raises(InvalidInputError):
        Kernel(detail=0)
    with pytest.raises(InvalidInputError):
        Kernel().cost(None)
