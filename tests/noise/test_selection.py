"""Selection follows e^(-rate · gap) exactly, for ties, huge gaps and millions of candidates."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilstream.errors import InvalidInput
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.noise.selection import _below, _draw_level

from .bits import ScriptedBits, SeededBits

LEVEL = 1e-8
RUNS = 3000
CASES: dict[str, tuple[list[int], Any]] = {
    "one candidate": ([5], 3),
    "equal": ([0] * 7, 1),
    "rate zero": ([0, 10, 2**62], 0),
    "spread": ([0, 1, 2, 3, 4, 5, 8], Fraction(1, 2)),
    "non-dyadic": ([3, 0, 1, 1, 7], "7/11"),
    "fine grid": ([0, 2**30, 2**31, 3 * 2**29], Fraction(1, 2**30)),
    "no zero gap": ([10**18, 10**18 + 1, 10**18 + 2], 0.9),
    "astronomic gaps": ([0, 2**63 - 1, 1], 10**12),
    "many bad, few good": ([0, 1] + [9] * 5000, "0.75"),
}


@pytest.mark.parametrize(("gaps", "rate"), CASES.values(), ids=CASES.keys())
def test_frequencies(gaps: list[int], rate: Any) -> None:
    """Chi-square over distinct gaps; nine tests at level 1e-8."""
    shifted = [gap - min(gaps) for gap in gaps]
    weights = np.array([np.exp(-float(Fraction(rate) * gap)) for gap in shifted])
    values, group = np.unique(np.array(shifted), return_inverse=True)
    expected = np.bincount(group, weights) / weights.sum() * RUNS
    sampler = ExactSampler(SeededBits(11))
    array = np.array(gaps, dtype=np.int64)
    drawn = np.array([sampler.select(array, rate) for _ in range(RUNS)])
    observed = np.bincount(group[drawn], minlength=values.size)
    likely = expected > 1e-6
    assert observed[~likely].sum() == 0
    statistic = float(((observed - expected)[likely] ** 2 / expected[likely]).sum())
    assert stats.chi2.sf(statistic, max(int(likely.sum()) - 1, 1)) > LEVEL


def test_equal_candidates_are_equally_likely() -> None:
    sampler = ExactSampler(SeededBits(12))
    gaps = np.array([2, 0, 2, 0, 2, 2], dtype=np.int64)
    drawn = np.array([sampler.select(gaps, 1) for _ in range(RUNS)])
    for same in ([1, 3], [0, 2, 4, 5]):
        assert stats.chisquare([int((drawn == index).sum()) for index in same]).pvalue > LEVEL


def test_levels_are_drawn_with_exact_integer_masses() -> None:
    """All values of four bits: 3 at level 0 weigh 12, 1 at level 1 weighs 2, 2 at level 2 weigh 2 of 16."""
    counts = np.array([3, 1, 2], dtype=np.int64)
    drawn = [_draw_level(ScriptedBits([value << 60]), counts) for value in range(16)]
    assert [drawn.count(level) for level in range(3)] == [12, 2, 2]


@pytest.mark.parametrize("bound", [1, 2, 5, 16])
def test_bounded_integers_are_exact_over_all_bit_strings(bound: int) -> None:
    """Over all strings of 4 bits each value is met equally often; the others are drawn again."""
    sentinel = bound - 1
    bits = (bound - 1).bit_length()
    drawn = [
        _below(ScriptedBits([value << (64 - bits), sentinel << (64 - bits)][: 2 if bits else 0]), bound)
        for value in range(2**bits)
    ]
    redrawn = 2**bits - bound
    assert [drawn.count(value) for value in range(bound - 1)] == [1] * (bound - 1)
    assert drawn.count(sentinel) == 1 + redrawn


def test_the_best_of_a_million_wins_at_a_high_rate() -> None:
    """The others weigh at most 10^6 e^-100 together."""
    gaps = np.full(1_000_000, 100, dtype=np.int64)
    gaps[654_321] = 0
    assert SecureNoise().select(gaps, 1) == 654_321


def test_the_gaps_are_left_as_they_were() -> None:
    gaps = np.array([4, 2, 9], dtype=np.int64)
    SecureNoise().select(gaps, 1)
    assert gaps.tolist() == [4, 2, 9]


@pytest.mark.parametrize(
    "gaps",
    [
        np.array([], dtype=np.int64),
        np.array([[0, 1]], dtype=np.int64),
        np.array([0.0, 1.0]),
        np.array([0, 424242, -717171], dtype=np.int64),
    ],
    ids=["empty", "two dimensions", "floats", "negative"],
)
def test_bad_gaps_are_refused_without_showing_them(gaps: Any) -> None:
    with pytest.raises(InvalidInput, match=r"nothing was drawn$") as caught:
        SecureNoise().select(gaps, 1)
    assert "424242" not in str(caught.value)
    assert "717171" not in str(caught.value)


@pytest.mark.parametrize("rate", [-1, "nan", float("inf"), True, None, 10**13])
def test_bad_rates_are_refused(rate: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^rate .*nothing was drawn$"):
        SecureNoise().select(np.array([0, 1]), rate)
