"""Selection follows e^(-rate · gap) exactly, for ties, huge gaps, millions of candidates and many questions."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.noise.selection import select_each

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


def test_many_questions_follow_the_law_of_each() -> None:
    """Every case above as questions that are asked together; eight chi-square tests at level 1e-8."""
    asked = [np.array(gaps, dtype=np.int64) for gaps, _ in CASES.values()][:-1]
    rate = Fraction(7, 11)
    sampler = ExactSampler(SeededBits(13))
    drawn = sampler.select_each(
        np.concatenate(asked * RUNS), np.array([gaps.size for gaps in asked] * RUNS), rate
    ).reshape(RUNS, len(asked))
    assert len(asked) > 0
    for gaps, chosen in zip(asked, drawn.T, strict=True):
        weights = np.exp(-float(rate) * (gaps - gaps.min()))
        expected = weights / weights.sum() * RUNS
        observed = np.bincount(chosen, minlength=gaps.size)
        likely = expected > 1e-6
        assert observed[~likely].sum() == 0
        statistic = float(((observed - expected)[likely] ** 2 / expected[likely]).sum())
        assert stats.chi2.sf(statistic, max(int(likely.sum()) - 1, 1)) > LEVEL


def test_runs_follow_the_law_of_the_candidates_they_stand_for() -> None:
    """Two questions, one in runs of up to 300; two chi-square tests at level 1e-8."""
    gaps, lengths = np.array([4, 0, 9, 1, 3]), np.array([300, 1, 7, 2, 3])
    rate = Fraction(5, 7)
    sampler = ExactSampler(SeededBits(15))
    drawn = sampler.select_each(
        np.tile(gaps, RUNS), np.array([3, 2] * RUNS), rate, lengths=np.tile(lengths, RUNS)
    ).reshape(RUNS, 2)
    for first, last, chosen in ((0, 3, drawn[:, 0]), (3, 5, drawn[:, 1])):
        listed = np.repeat(gaps[first:last], lengths[first:last])
        weights = np.exp(-float(rate) * listed)
        expected = weights / weights.sum() * RUNS
        observed = np.bincount(chosen, minlength=listed.size)
        assert stats.chi2.sf(float(((observed - expected) ** 2 / expected).sum()), listed.size - 1) > LEVEL


def test_few_good_candidates_beat_very_many_bad_ones() -> None:
    """2^40 candidates that weigh e^-100 each are together 4e-32 of the one good candidate between them."""
    lengths = np.array([2**39, 1, 2**39])
    drawn = SecureNoise().select_each(np.array([100, 0, 100]), np.array([3]), 1, lengths=lengths)
    assert drawn.tolist() == [2**39]


def test_candidates_of_a_run_are_uniform() -> None:
    """A Kolmogorov-Smirnov test at level 1e-8 on a run of 2^40."""
    sampler = ExactSampler(SeededBits(16))
    drawn = sampler.select_each(
        np.zeros(RUNS, dtype=np.int64), np.ones(RUNS, dtype=np.int64), 1, lengths=np.full(RUNS, 2**40)
    )
    assert stats.kstest(drawn / 2.0**40, "uniform").pvalue > LEVEL


def test_answers_to_different_questions_are_independent() -> None:
    """Two fair questions asked together give all four pairs of answers equally often; level 1e-8."""
    sampler = ExactSampler(SeededBits(14))
    drawn = sampler.select_each(np.zeros(4 * RUNS, dtype=np.int64), np.full(2 * RUNS, 2), 1).reshape(RUNS, 2)
    assert stats.chisquare(np.bincount(2 * drawn[:, 0] + drawn[:, 1], minlength=4)).pvalue > LEVEL


def test_covers_are_drawn_with_exact_integer_masses() -> None:
    """Over all values of the leading bits: covers 1, 1/2, 1/2 get 2, 1, 1 quarters where every draw is kept."""
    gaps = np.array([0, 1, 1], dtype=np.int64)
    kept, redrawn = 0, [0, 0]
    drawn = [
        int(select_each(ScriptedBits([lead << 60, kept, *redrawn]), gaps, np.array([3]), Fraction("0.7"))[0])
        for lead in range(16)
    ]
    # The sum of covers is 2, in units of which a word holds 4: half of all draws miss and take the script's second.
    assert [drawn[:8].count(i) for i in range(3)] == [4, 2, 2]
    assert drawn[8:] == [0] * 8


def test_a_tie_is_decided_by_further_bits() -> None:
    """Candidate 1 is kept with probability 2/e: 64 bits equal to its own, then bits that are less or more."""
    with localcontext(Context(prec=60)):
        lead, rest = divmod(int(Decimal(-1).exp() * 2**129), 2**64)
    gaps, sizes = np.array([0, 1], dtype=np.int64), np.array([2])
    second = 1 << 63  # of the covers 1 and 1/2, in a word that holds 2: beyond the first
    below = ScriptedBits([second, lead, rest - 2**20])
    above = ScriptedBits([second, lead, rest + 2**20, 0, 0])
    assert int(select_each(below, gaps, sizes, Fraction(1))[0]) == 1
    assert int(select_each(above, gaps, sizes, Fraction(1))[0]) == 0
    assert below.left == above.left == []


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
    with pytest.raises(InvalidInputError, match=r"nothing was released$") as caught:
        SecureNoise().select(gaps, 1)
    assert "424242" not in str(caught.value)
    assert "717171" not in str(caught.value)


@pytest.mark.parametrize("rate", [-1, "nan", float("inf"), True, None, 10**13])
def test_bad_rates_are_refused(rate: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^rate .*nothing was released$"):
        SecureNoise().select(np.array([0, 1]), rate)


@pytest.mark.parametrize("sizes", [[], [3], [2, 0], [3, -1]])
def test_questions_that_do_not_fit_the_gaps_are_refused(sizes: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="at least 1 candidate"):
        SecureNoise().select_each(np.array([0, 1]), np.array(sizes, dtype=np.int64), 1)


@pytest.mark.parametrize("lengths", [[1], [1, 0], [1, 1, 1]])
def test_lengths_that_do_not_fit_are_refused(lengths: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="each is at least 1"):
        SecureNoise().select_each(np.array([0, 1]), np.array([2]), 1, lengths=np.array(lengths))
