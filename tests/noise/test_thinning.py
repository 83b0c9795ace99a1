"""Samples follow the binomial law exactly, and the noise on them makes good for every way a person is sampled."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler
from veilstream.noise.thinning import thinned, thinned_scale
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

from .bits import ScriptedBits


@pytest.mark.parametrize(("n", "rate"), [(1, "1/256"), (5, "1/2"), (70, "77/256"), (64, "255/256"), (200, "3/4")])
def test_a_sample_is_binomial(n: int, rate: str) -> None:
    """Chi-squared over the outcomes expected 20 times or more; false alarm 1e-7."""
    runs, exact = 60_000, Fraction(rate)
    seen = np.bincount(thinned(np.full(runs, n), exact, ExactSampler(SeededSource(n))), minlength=n + 1)
    expected = runs * binom.pmf(np.arange(n + 1), n, float(exact))
    usual = expected >= 20
    statistic = float((((seen - expected) ** 2) / np.where(usual, expected, 1))[usual].sum())
    assert statistic < chi2.isf(1e-7, int(usual.sum()))
    assert seen.size == n + 1


def test_everybody_and_nobody_are_sampled_for_sure_at_the_ends() -> None:
    counts = np.array([0, 1, 63, 64, 65, 1000])
    assert np.array_equal(thinned(counts, Fraction(1), ExactSampler(ScriptedBits([]))), counts)
    assert thinned(counts * 0, Fraction(3, 4), ExactSampler(SeededSource(1))).sum() == 0


@settings(max_examples=200, deadline=None)
@given(
    epsilon=st.fractions("1/1000", 20, max_denominator=1000),
    sensitivity=st.integers(1, 4),
    rate=st.integers(1, 255),
)
def test_no_output_is_likelier_than_the_budget_allows(epsilon: Fraction, sensitivity: int, rate: int) -> None:
    """Noise of scale b on a sample: all ways to draw a person's counts, the worst output, both directions."""
    gamma = rate / 256
    scale = thinned_scale(epsilon, Fraction(sensitivity), Fraction(rate, 256))
    drawn = np.arange(sensitivity + 1)
    ways = binom.pmf(drawn, sensitivity, gamma)
    up = math.log(float((ways * np.exp(drawn / float(scale))).sum()))
    down = -math.log(float((ways * np.exp(-drawn / float(scale))).sum()))
    assert down <= up + 1e-12
    assert up <= float(epsilon) * (1 + 1e-9)
    assert up >= float(epsilon) * (1 - 1e-6)


def test_the_meter_estimates_without_bias_and_charges_what_it_says() -> None:
    accountant = Accountant(Guarantee(1, w=1), bins=20_000)
    meter = Meter(accountant, ExactSampler(SeededSource(4)), 0)
    seen = meter.sampled_laplace(seal(np.full(20_000, 100), 0), Fraction(1, 2), Fraction(1, 2), "monitor")
    assert accountant.left == Fraction(1, 2)
    std = math.sqrt(float(seen.std) ** 2 + 100)
    assert abs(seen.numbers.mean() - 100) < 5 * std / math.sqrt(20_000)
    assert abs(seen.numbers.std() / std - 1) < 0.05


def test_what_cannot_be_sampled_is_refused() -> None:
    meter = Meter(Accountant(Guarantee(1, w=1), bins=2), ExactSampler(SeededSource(4)), 0)
    x = seal(np.array([1, 2]), 0)
    for rate in (Fraction(1, 3), Fraction(0), Fraction(3, 2)):
        with pytest.raises(InvalidInputError, match="sampling rate"):
            meter.sampled_laplace(x, Fraction(1, 2), rate, "monitor")
    with pytest.raises(InvalidInputError, match="whole counts"):
        meter.sampled_laplace(x.minus(np.array([0.5, 0.5])), Fraction(1, 2), Fraction(1, 2), "monitor")
