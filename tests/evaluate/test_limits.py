"""Limits from a noisy histogram of rows: right about what is kept, deaf to noise in far levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from veilstream.data.bounding.frequency import LEVELS
from veilstream.evaluate.advise import Facts
from veilstream.evaluate.limits import RowLevels, kept_shares, limit_choices, mean_rows, suggested


def levels(rows: np.ndarray[tuple[int], np.dtype[np.int64]], noise: float = 0.0) -> RowLevels:
    places = np.minimum(np.ceil(np.log2(rows)).astype(int), LEVELS - 1)
    counts = np.bincount(places, minlength=LEVELS).astype(float)
    drawn = np.random.default_rng(3).laplace(0, noise, LEVELS) if noise else 0.0  # noqa: TID251 (a picture of noise)
    return RowLevels(counts + drawn, half_width=6.0 * noise + 0.5, std=1.4 * noise)


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_the_part_that_is_kept_is_near_the_truth(noise: float) -> None:
    rows = np.random.default_rng(5).geometric(0.2, 20_000)  # noqa: TID251 (data)
    for choice in limit_choices(levels(rows, noise), None, None):
        true = np.minimum(rows, choice.limit).sum() / rows.sum()
        assert choice.kept == pytest.approx(true, abs=0.03)
        assert choice.low <= choice.kept <= choice.high


def test_noise_in_empty_levels_is_no_evidence_of_heavy_users() -> None:
    rows = np.ones(2000, dtype=np.int64)
    choices = limit_choices(levels(rows, 10.0), None, None)
    assert [choice.limit for choice in choices] == [1]
    assert suggested(choices).limit == 1
    assert limit_choices(RowLevels(np.zeros(LEVELS), 5.0, 2.0), None, None)[0].kept == 1


def test_the_suggestion_weighs_noise_against_rows_left_out() -> None:
    rows = np.random.default_rng(5).geometric(0.2, 20_000)  # noqa: TID251 (data)
    few, many = Facts(count=20, bins=1, w=24), Facts(count=20_000, bins=1, w=24)
    small = suggested(limit_choices(levels(rows), few, Fraction(1)))
    large = suggested(limit_choices(levels(rows), many, Fraction(1)))
    assert small.limit == 1
    assert large.limit >= 16
    assert large.error == pytest.approx((large.noise or 0) + (large.lost or 0))
    assert suggested(limit_choices(levels(rows), None, None)).kept >= 0.95


def test_shares_grow_with_the_limit_and_reach_one() -> None:
    shares = kept_shares(np.ones(LEVELS), [2**k for k in range(LEVELS)])
    assert (np.diff(shares) > 0).all()
    assert shares[-1] == 1
    assert (np.diff(mean_rows()) > 0).all()
