"""No score of a cutoff moves by more than its sensitivity between neighbouring data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import seal
from veilstream.trusted.opening import open_scores
from veilstream.trusted.statistics import cutoff_scores


@settings(max_examples=300, deadline=None)
@given(
    counts=st.lists(st.integers(0, 10**6), min_size=1, max_size=24),
    bins=st.lists(st.integers(0, 23), max_size=3),
    penalty=st.fractions(0, 10**9),
)
def test_cutoff_scores_are_lipschitz(counts: list[int], bins: list[int], penalty: Fraction) -> None:
    one = np.array(counts, dtype=np.int64)
    other = one.copy()
    for place in bins:
        other[place % one.size] += 1
    kept = np.arange(1, one.size + 1)
    a, b = (cutoff_scores(seal(c, 0, max_contribution=3).fourier(), kept, penalty, Fraction(7)) for c in (one, other))
    assert a.sensitivity == b.sensitivity
    assert np.abs(open_scores(a) - open_scores(b)).max() <= a.sensitivity


def test_scores_are_dropped_norm_plus_penalty() -> None:
    wave = np.rint(100 * np.cos(2 * np.pi * np.arange(16) / 16)).astype(np.int64) + 100
    scores = (
        open_scores(cutoff_scores(seal(wave, 0).fourier(), np.array([1, 3, 16]), Fraction(2), Fraction(5))) / 2.0**20
    )
    dropped = np.linalg.norm(wave - wave.mean())
    assert scores == pytest.approx([-(dropped + 2), scores[1], -32, -5], abs=1e-3)
    assert -8 < scores[1] <= -6


def test_a_huge_penalty_stays_within_64_bits() -> None:
    scores = cutoff_scores(seal(np.array([1, 2, 3]), 0).fourier(), np.array([1, 2, 3]), Fraction(10**30))
    assert (open_scores(scores) <= -(1 << 59)).all()


@pytest.mark.parametrize("kept", [[], [0, 1], [1, 1], [2, 5]])
def test_candidates_that_do_not_fit_are_refused(kept: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="increase from 1 to 4"):
        cutoff_scores(seal(np.arange(4), 0).fourier(), np.array(kept, dtype=np.int64), Fraction(1))
