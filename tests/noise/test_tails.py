"""Counts of draws that reach a level have the exact binomial law, for any number of trials."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.noise.tails import ReachingCount, reaching_probability

from .bits import SeededBits

LEVEL = 1e-8


def exact_cdf(scale: Fraction, level: int, trials: int, k: int) -> Any:
    """P(count < k) from the definition, in 200 digits."""
    with mpmath.workdps(200):
        t = mpmath.mpf(scale.numerator) / scale.denominator
        p = mpmath.exp(-level / t) / (1 + mpmath.exp(-1 / t))
        return mpmath.fsum(mpmath.binomial(trials, j) * p**j * (1 - p) ** (trials - j) for j in range(k))


@pytest.mark.parametrize(
    ("scale", "level", "trials"),
    [(Fraction(1), 1, 1), (Fraction(7, 3), 5, 40), (Fraction(10), 400, 10**17), (Fraction(1, 2), 30, 10**24)],
)
def test_boundaries_enclose_the_binomial_law(scale: Fraction, level: int, trials: int) -> None:
    law = ReachingCount(scale, level, trials)
    key, found = law.boundaries(128)
    assert key == 1
    for k, (low, high) in enumerate(found, start=1):
        with mpmath.workdps(200):
            exact = exact_cdf(scale, level, trials, k) * 2**128
            assert low <= exact <= high
        assert high - low <= 2**40
        assert law.boundary(k, 128) == (low, high)
    assert len(found) == trials or (1 << 128) - found[-1][0] < 1 << 64


@pytest.mark.parametrize(
    ("scale", "level", "trials"), [(2, 1, 9), ("7/3", 5, 2_000), (10, 430, 10**20), ("1/2", 25, 10**24)]
)
def test_counts_follow_the_binomial_law(scale: Any, level: int, trials: int) -> None:
    """Chi-square over cells of at least 20 expected draws; four tests at level 1e-8."""
    draws = 4_000
    sampler = ExactSampler(SeededBits(31))
    seen = np.array([sampler.reaching(scale, level, trials) for _ in range(draws)], dtype=np.float64)
    p = float(reaching_probability(Fraction(scale), level))
    law: Any = stats.binom(trials, p) if trials < 10**9 else stats.poisson(float(trials) * p)
    edges = np.unique(law.ppf(np.linspace(0, 1, 30)[1:-1]))
    below = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    expected = np.diff(below) * draws
    observed = np.histogram(seen, np.concatenate([[-1.0], edges, [np.inf]]) + 0.5)[0]
    usable = expected > 20
    statistic = ((observed - expected)[usable] ** 2 / expected[usable]).sum()
    assert stats.chi2.sf(statistic, usable.sum() - 1) > LEVEL


def test_counting_agrees_with_drawing() -> None:
    """Two means over 200,000 draws each; false alarm at 6 sigma below 1e-8."""
    sampler = ExactSampler(SeededBits(32))
    drawn = int((sampler.laplace(3, 200_000) >= 4).sum())
    counted = sampler.reaching(3, 4, 200_000)
    assert abs(drawn - counted) < 6 * np.sqrt(2 * drawn)


@pytest.mark.parametrize("bound", [1, 2, 3, 1000, 1 << 40])
def test_uniform_numbers_are_uniform(bound: int) -> None:
    drawn = ExactSampler(SeededBits(33)).below(bound, 20_000)
    assert drawn.min() >= 0
    assert drawn.max() < bound
    tenths = np.bincount((drawn * min(bound, 10) // bound).astype(np.int64), minlength=min(bound, 10))
    sizes = np.diff([-(-i * bound // min(bound, 10)) for i in range(min(bound, 10) + 1)]) / bound
    assert bound == 1 or stats.chisquare(tenths, sizes * 20_000).pvalue > LEVEL


def test_bad_requests_are_refused() -> None:
    for level, trials in ((0, 5), (1, -1), (1.5, 3)):
        with pytest.raises(InvalidInputError, match="whole numbers from 1 and from 0"):
            SecureNoise().reaching(1, level, trials)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="bound 0"):
        SecureNoise().below(0, 3)
    assert SecureNoise().reaching(1, 1, 0) == 0
