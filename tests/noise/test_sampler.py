"""Drawn noise follows its law at every scale; bad parameters are refused.

Goodness of fit: each test states its own level; together they raise a false alarm with probability below 1e-6
(and, seeds being fixed, always or never).
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.noise.plans import COARSE, FINE, MEDIUM, SMALL, GaussianPlan, Grain, LaplacePlan

from .bits import SeededBits

LEVEL = 1e-9
"""Level of each of fewer than 200 tests of fit below."""

SCALES = ["1/1048576", "1/40", "1/3", "0.7", 1, "7/3", 10, "12345/67", 100, 1000, 10**4, 10**8, 10**12]
GRAINS = {"coarse": COARSE, "small": SMALL, "medium": MEDIUM, "fine": FINE}
EVERY_GRAIN = pytest.mark.parametrize("grain", GRAINS.values(), ids=GRAINS.keys())
EVERY_SCALE = pytest.mark.parametrize("scale", SCALES)
DRAWS = 120_000


def laplace_cdf(scale: Fraction, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(X <= x) in closed form."""
    rate = float(1 / scale)
    q = math.exp(-rate)
    below = np.exp(np.minimum(x, 0) * rate) / (1 + q)
    return np.where(x < 0, below, 1 - q * np.exp(-np.maximum(x, 0) * rate) / (1 + q))


def gaussian_cdf(sigma: Fraction, x: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(X <= x): summed for small sigma; for large, the normal law at x + 1/2 is within 1/σ² of it."""
    if sigma >= 1000:
        return np.asarray(stats.norm.cdf((x + 0.5) / float(sigma)), dtype=np.float64)
    most = int(40 * sigma) + 2
    grid = np.arange(-most, most + 1)
    masses = np.exp(-(grid**2) / (2 * float(sigma) ** 2))
    sums = np.cumsum(masses) / masses.sum()
    return np.asarray(sums[np.clip(x + most, 0, 2 * most)])


def assert_fits(drawn: NDArray[np.int64], cdf: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> None:
    """Chi-square over cells of about 30 expected draws, and a Poisson bound on what falls elsewhere."""
    spread = max(int(np.abs(drawn).max()), 1)
    cuts = np.unique(np.round(np.linspace(-spread, spread, 400)).astype(np.int64))
    expected = np.diff(np.concatenate([[0.0], cdf(cuts), [1.0]])) * drawn.size
    observed = np.bincount(np.searchsorted(cuts, drawn), minlength=cuts.size + 1).astype(np.float64)
    filled = np.minimum(np.floor(np.cumsum(expected) / 30), drawn.size // 30 - 1)
    starts = np.unique(filled, return_index=True)[1]
    expected = np.add.reduceat(expected, starts)
    observed = np.add.reduceat(observed, starts)
    kept = expected >= 5
    assert observed[~kept].sum() <= stats.poisson.isf(LEVEL, max(expected[~kept].sum(), 1e-12))
    statistic = float(((observed - expected)[kept] ** 2 / expected[kept]).sum())
    assert stats.chi2.sf(statistic, int(kept.sum())) > LEVEL


def draw(plan: LaplacePlan | GaussianPlan, seed: int, count: int = DRAWS) -> NDArray[np.int64]:
    out = np.empty(count, dtype=np.int64)
    plan.fill(SeededBits(seed), out)
    return out


@EVERY_GRAIN
@EVERY_SCALE
def test_laplace_follows_its_law(scale: Any, grain: Grain) -> None:
    exact = Fraction(scale)
    drawn = draw(LaplacePlan(exact, grain), seed=1)
    assert_fits(drawn, lambda x: laplace_cdf(exact, x))
    assert_fits(-drawn, lambda x: laplace_cdf(exact, x))


@EVERY_GRAIN
@EVERY_SCALE
def test_gaussian_follows_its_law(scale: Any, grain: Grain) -> None:
    exact = Fraction(scale)
    drawn = draw(GaussianPlan(exact, grain), seed=2)
    assert_fits(drawn, lambda x: gaussian_cdf(exact, x))
    assert_fits(-drawn, lambda x: gaussian_cdf(exact, x))


@EVERY_GRAIN
@pytest.mark.parametrize("scale", [256, "12345/67", 5000, 10**6])
def test_low_digits_follow_their_law(scale: Any, grain: Grain) -> None:
    """|X| modulo 64, where an error in a low digit would show that a histogram of X smooths over."""
    exact = Fraction(scale)
    drawn = draw(LaplacePlan(exact, grain), seed=3)
    with mpmath.workprec(100):
        q = mpmath.exp(mpmath.mpf(-exact.denominator) / exact.numerator)
        whole = (1 - q**64) * (1 + q) / (1 - q)
        expected = np.array([float(2 * q**r / whole) for r in range(1, 64)])
    expected = np.concatenate([[1 - expected.sum()], expected]) * drawn.size
    observed = np.bincount(np.abs(drawn) % 64, minlength=64)
    assert stats.chi2.sf(float(((observed - expected) ** 2 / expected).sum()), 63) > LEVEL


@EVERY_GRAIN
@pytest.mark.parametrize("sigma", [300, 10**5])
def test_low_part_of_a_large_gaussian_is_uniform(sigma: int, grain: Grain) -> None:
    """X modulo 16 is uniform up to e^(-2π²σ²/256) < 1e-300 when σ >= 300."""
    observed = np.bincount(draw(GaussianPlan(Fraction(sigma), grain), seed=4) % 16, minlength=16)
    assert stats.chisquare(observed).pvalue > LEVEL


@pytest.mark.parametrize("scale", [1, "7/3", 100, 10**4])
def test_moments(scale: Any) -> None:
    """Mean 0 and variance 2q/(1-q)², each within 7 standard errors (kurtosis at most 7 at these scales)."""
    q = math.exp(-1 / float(Fraction(scale)))
    variance = 2 * q / (1 - q) ** 2
    count = 400_000
    drawn = ExactSampler(SeededBits(5)).laplace(scale, count).astype(np.float64)
    assert abs(drawn.mean()) < 7 * (variance / count) ** 0.5
    assert abs((drawn**2).mean() / variance - 1) < 7 * (6 / count) ** 0.5


def test_tiny_scales_give_zero() -> None:
    """P(X != 0) < e^(-2^19) at the smallest scale."""
    noise = SecureNoise()
    assert not noise.laplace(Fraction(1, 2**20), 200_000).any()
    assert not noise.gaussian(Fraction(1, 2**20), 200_000).any()


def test_acceptance_within_the_floating_point_margin_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the margin widened to everything, integer arithmetic decides alone and must agree draw by draw.

    The sources differ only in the extra words that ties consume, so those come from a stream of their own.
    """
    sigma = Fraction(1234, 3)
    plan = GaussianPlan(sigma, COARSE)
    step = np.repeat(np.arange(0, 30, dtype=np.int64), 60)
    low = np.resize(np.arange(0, 64, dtype=np.int64), step.size)
    quick = plan._accept(SeededBits(6), step, low)
    monkeypatch.setattr("veilstream.noise.plans._MARGIN", 2.0)
    exact = plan._accept(SeededBits(6), step, low)
    np.testing.assert_array_equal(quick, exact)
    assert 0 < int(quick.sum()) < quick.size


@pytest.mark.parametrize("size", [0, 1, 5, 8192, (), (3,), (2, 0, 4), (70, 1000), (400, 500)])
def test_shapes(size: Any) -> None:
    noise = SecureNoise()
    for drawn in (noise.laplace(3, size), noise.gaussian(300, size)):
        assert drawn.dtype == np.int64
        assert drawn.shape == (size if isinstance(size, tuple) else (size,))


@pytest.mark.parametrize("count", [10, 20_000, 300_000])
def test_a_seeded_source_reproduces_draws_whatever_was_cached(count: int) -> None:
    first = ExactSampler(SeededBits(7)).laplace(37, count)
    SecureNoise().laplace(37, 10)
    np.testing.assert_array_equal(first, ExactSampler(SeededBits(7)).laplace(37, count))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [10, 10**4])
def test_memory_is_at_most_64_bytes_per_draw(law: str, scale: int) -> None:
    count = 500_000
    noise = SecureNoise()
    getattr(noise, law)(scale, count)
    tracemalloc.start()
    try:
        getattr(noise, law)(scale, count)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 64 * count


BAD_SCALES: list[Any] = [
    0,
    -1,
    float("nan"),
    float("inf"),
    "-inf",
    Fraction(1, 2**21),
    10**13,
    10**6000,
    True,
    np.True_,
    None,
    "",
    "ten",
    "1/0",
    "1e999999999",
    Decimal("NaN"),
    1j,
    [1],
    np.array([1, 2]),
]


@pytest.mark.parametrize("scale", BAD_SCALES, ids=range(len(BAD_SCALES)))
def test_bad_scales_are_refused(scale: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^scale .*nothing was released$"):
        SecureNoise().laplace(scale, 3)
    with pytest.raises(InvalidInputError, match=r"^sigma .*nothing was released$"):
        SecureNoise().gaussian(scale, 3)


@pytest.mark.parametrize("size", [-1, 1.0, True, None, "3", (2, -1), (2, 1.5), [3]])
def test_bad_sizes_are_refused(size: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^size .*nothing was released$"):
        SecureNoise().laplace(1, size)
    with pytest.raises(InvalidInputError, match=r"^size .*nothing was released$"):
        SecureNoise().gaussian(1, size)


@pytest.mark.parametrize("size", [-1, 1.0, True, None, (2,)])
def test_bad_word_counts_are_refused(size: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^size .*nothing was released$"):
        SecureNoise().uniform_words(size)


def test_equal_numbers_of_every_type_are_the_same_scale() -> None:
    same: list[Any] = [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1), "1/10"]
    drawn = [ExactSampler(SeededBits(8)).laplace(scale, 200) for scale in same]
    assert all(np.array_equal(drawn[0], other) for other in drawn)
    whole: list[Any] = [3, 3.0, "3", np.int64(3), np.uint8(3)]
    drawn = [ExactSampler(SeededBits(8)).laplace(scale, 200) for scale in whole]
    assert all(np.array_equal(drawn[0], other) for other in drawn)
