"""Sealed running sums: rows are what their profile says, and no unit moves them by more than they are charged for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError, SealedAccessError
from veilstream.mechanisms.no_noise import NoNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import Kernel
from veilstream.privacy.profile import SQUARED_ONE
from veilstream.storage.codec import decode, encode
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import opened
from veilstream.trusted.running import SealedRunning, weighted

kernels = st.sampled_from([Kernel(detail=1), Kernel(detail=2), Kernel(Fraction(3, 4), detail=1), Kernel(endless=True)])


def rows(counts: NDArray[np.int64], kernel: Kernel, steps: list[int]) -> NDArray[np.int64]:
    """The exact rows of a running sum to which the counts of these timestamps are added."""
    found: list[NDArray[np.int64]] = []
    sums: SealedRunning | None = None
    for t in steps:
        now = seal(counts[t], t)
        sums = SealedRunning.opened_with(now, kernel) if sums is None else sums.extended(now)
        found.append(weighted(opened(sums), sums.weights()))
    return np.array(found)


@settings(max_examples=60, deadline=None)
@given(kernels, st.lists(st.integers(0, 40), min_size=1, max_size=30, unique=True), st.data())
def test_rows_read_what_their_profile_says(kernel: Kernel, chosen: list[int], data: st.DataObject) -> None:
    steps = sorted(chosen)
    counts = np.array(data.draw(st.lists(st.integers(0, 9), min_size=41, max_size=41)), dtype=np.int64)[:, None]
    added = np.zeros_like(counts)
    added[steps] = counts[steps]
    for t, row in zip(steps, rows(counts, kernel, steps), strict=True):
        firsts, weights = kernel.pieces(t - steps[0])
        each = np.repeat(weights, np.diff(firsts, append=t - steps[0] + 1))
        assert row[0] == (each * added[steps[0] : t + 1, 0]).sum()


@settings(max_examples=60, deadline=None)
@given(kernels, st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True), st.data())
def test_no_unit_moves_all_rows_by_more_than_its_dearest_timestamp_pays(
    kernel: Kernel, present: list[int], data: st.DataObject
) -> None:
    length = 24
    change = np.zeros((length, 2), dtype=np.int64)
    for t in present:
        change[t, data.draw(st.integers(0, 1))] = data.draw(st.sampled_from([-1, 1]))
    moved = rows(change, kernel, list(range(length))).astype(np.float64)
    squares = np.zeros(length, dtype=np.int64)
    for row in range(length):
        firsts, weights = kernel.pieces(row)
        squares[: row + 1] += np.repeat(weights, np.diff(firsts, append=row + 1)) ** 2
    assert (moved**2).sum() <= len(present) ** 2 * squares.max() * (1 + 1e-12)
    assert kernel.cost(length) * SQUARED_ONE >= squares.max()


def test_a_running_sum_survives_storage() -> None:
    sums = SealedRunning.opened_with(seal(np.array([3, 4]), 0), Kernel(Fraction(3, 4), detail=2))
    for t in range(1, 20):
        sums = sums.extended(seal(np.array([t, 1]), t))
    stored = encode(sums)
    again = decode(stored.header, stored.arrays, SealedRunning)
    assert repr(again) == repr(sums)
    assert again.profile == sums.profile
    stored_groups: tuple[NDArray[np.int64], ...] = opened(again)
    groups: tuple[NDArray[np.int64], ...] = opened(sums)
    assert all(np.array_equal(a, b) for a, b in zip(stored_groups, groups, strict=True))


def test_a_running_sum_shows_nothing() -> None:
    sums = SealedRunning.opened_with(seal(np.array([31337, 4]), 0), Kernel())
    assert "31337" not in repr(sums)
    with pytest.raises(SealedAccessError):
        list(sums)


def test_what_does_not_fit_is_refused() -> None:
    sums = SealedRunning.opened_with(seal(np.array([3, 4]), 5), Kernel())
    for now in (seal(np.array([3, 4]), 5), seal(np.array([3, 4, 5]), 6), seal(np.array([3, 4]), 6).select([0])):
        with pytest.raises(InvalidInputError):
            sums.extended(now)
    delta, person = Guarantee(1, w=1, delta="1e-6"), Guarantee(1, w=None, delta="1e-6")
    with pytest.raises(InvalidInputError):
        Meter(Accountant(delta, 2), NoNoise(), 6).row_of(sums, delta.mu_squared / 9, "total")
    with pytest.raises(InvalidBudgetError):
        Meter(Accountant(person, 2), NoNoise(), 5).row_of(sums, delta.mu_squared / 9, "total")
