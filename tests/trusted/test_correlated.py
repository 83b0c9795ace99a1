"""Answers whose noise takes back what earlier ones added: no unit moves them by more than they are charged for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError, SealedAccessError
from veilstream.mechanisms.no_noise import NoNoise
from veilstream.mechanisms.streams.running.buffered import square_root
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import decode, encode
from veilstream.trusted.correlated import CorrelatedNoise, next_answer, with_correlated
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import opened

Integers = NDArray[np.int64]

UNIT = Fraction(1, 7)
kernels = st.sampled_from(
    [square_root(24), square_root(None), square_root(30, Fraction(3, 4)), Buffers((1, 6), (5, 5), (4, 4), 24)]
)


def fresh_noise(counts: Integers, answers: Integers, buffers: Buffers, reach: int) -> tuple[NDArray[np.float64], float]:
    """The fresh noise of every row that leads to given answers d·x + n on counts, in counts, and its deviation."""
    past: CorrelatedNoise | None = None
    found: list[NDArray[np.float64]] = []
    sigma = 0.0
    for t, now in enumerate(counts):
        x = seal(now, t)
        answer = next_answer(x, t, buffers, UNIT, reach, past)
        wanted = answers[t] - now * (buffers.scale(t) << (answer.grid - SCALE_BITS))
        taken = np.zeros_like(wanted)
        # What the buffers take back, by fresh noise of none.
        with_correlated(x, taken, answer, past)
        needed = wanted - taken
        found.append(needed * 2.0**-answer.grid)
        _, past = with_correlated(x, needed.copy(), answer, past)
        sigma = answer.std
    return np.array(found), sigma


@settings(max_examples=40, deadline=None)
@given(kernels, st.lists(st.integers(0, 23), min_size=1, max_size=3, unique=True), st.data())
def test_no_unit_moves_all_rows_by_more_than_its_dearest_timestamp_pays(
    buffers: Buffers, present: list[int], data: st.DataObject
) -> None:
    """By the trusted code itself, rounding and all: the noise that explains the same answers without the unit."""
    length, seed = 24, data.draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)  # noqa: TID251 (answers of any kind)
    answers = (rng.normal(size=(length, 2)) * 2.0**36).astype(np.int64)
    change = np.zeros((length, 2), dtype=np.int64)
    for t in present:
        change[t, data.draw(st.integers(0, 1))] = data.draw(st.sampled_from([-1, 1]))
    counts = np.full((length, 2), 5)
    one, sigma = fresh_noise(counts, answers, buffers, len(present))
    other, _ = fresh_noise(counts + change, answers, buffers, len(present))
    moved = float(((one - other) ** 2).sum()) / sigma**2
    assert moved <= float(UNIT * buffers.spent(length)) * (1 + 1e-12)


def test_rows_are_known_up_to_their_fresh_noise() -> None:
    """Σ c·(answer − d·x) is the fresh noise, up to rounding."""
    buffers = square_root(200)
    past: CorrelatedNoise | None = None
    held: list[float] = []
    rng = np.random.default_rng(1)  # noqa: TID251 (noise that is known here)
    for t in range(200):
        x = seal(np.array([t]), t)
        answer = next_answer(x, t, buffers, UNIT, 1, past)
        fresh = (rng.normal(size=1) * float(answer.sigma)).astype(np.int64)
        drawn = float(fresh[0]) * 2.0**-answer.grid
        numbers, past = with_correlated(x, fresh, answer, past)
        held.append((float(numbers[0]) - t) * buffers.scale(t) / (1 << SCALE_BITS))
        row = float(buffers.coefficients(t + 1)[::-1] @ np.array(held))
        assert row == pytest.approx(drawn, abs=0.05)


def test_noise_survives_storage_and_shows_nothing() -> None:
    guarantee = Guarantee(1, w=1, delta="1e-6")
    past: CorrelatedNoise | None = None
    book = Accountant(guarantee, 2)
    for t in range(5):
        values, past = Meter(book, NoNoise(), t).correlated(
            seal(np.array([31337, 4]), t), square_root(9), guarantee.mu_squared / 9, "total", past
        )
        assert values.numbers.tolist() == [31337, 4]
    assert past is not None
    stored = encode(past)
    again = decode(stored.header, stored.arrays, CorrelatedNoise)
    assert repr(again) == repr(past)
    assert np.array_equal(opened(again), opened(past))
    assert (again.buffers, again.grid, again.l1) == (past.buffers, past.grid, past.l1)
    with pytest.raises(SealedAccessError):
        list(past)


def test_what_does_not_fit_is_refused() -> None:
    guarantee, buffers = Guarantee(1, w=1, delta="1e-6"), square_root(9)
    unit = guarantee.mu_squared / 9
    book = Accountant(guarantee, 2)
    _, past = Meter(book, NoNoise(), 5).correlated(seal(np.array([3, 4]), 5), buffers, unit, "total")
    for t, counts in ((5, [3, 4]), (6, [3, 4, 5]), (20, [3, 4])):
        with pytest.raises(InvalidInputError):
            Meter(book, NoNoise(), max(t, 5)).correlated(seal(np.array(counts), t), buffers, unit, "total", past)
    person = Guarantee(1, w=None, delta="1e-6")
    with pytest.raises(InvalidBudgetError):
        Meter(Accountant(person, 2), NoNoise(), 5).correlated(seal(np.array([3, 4]), 5), buffers, unit, "total")
    with pytest.raises(InvalidBudgetError):
        next_answer(seal(np.array([3, 4]), 0), 0, buffers, Fraction(1, 1 << 70), 1, None)
