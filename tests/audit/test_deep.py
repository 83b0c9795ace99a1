"""Long statistical runs, made by ``make audit``: the noise by hundreds of millions of draws, and attacks on streams."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, chi2

import veilstream as vs
from veilstream.noise import SecureNoise
from veilstream.streams import FixedRate, Sample, Uniform

pytestmark = pytest.mark.audit
DRAWS, CHUNK = 200_000_000, 10_000_000


def laplace_cells(scale: Fraction, edge: int) -> NDArray[np.float64]:
    """P(X = x) for |x| < edge, with both tails in the outer cells."""
    q = math.exp(-1 / float(scale))
    inner = (1 - q) / (1 + q) * q ** np.abs(np.arange(-edge + 1, edge))
    tail = q**edge / (1 + q)
    return np.concatenate([[tail], inner, [tail]])


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 3), Fraction(10), Fraction(1, 2)], ids=str)
def test_secure_laplace_noise_by_hundreds_of_millions_of_draws(scale: Fraction) -> None:
    """Chi-square over all cells with an expected count above 1,000; false alarm 1e-9 each."""
    edge = max(2, int(float(scale) * math.log(DRAWS / 4000)))
    seen = np.zeros(2 * edge + 1)
    noise = SecureNoise()
    for _ in range(DRAWS // CHUNK):
        draws = np.clip(noise.laplace(scale, CHUNK), -edge, edge)
        seen += np.bincount(draws + edge, minlength=2 * edge + 1)
    expected = laplace_cells(scale, edge) * DRAWS
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(1e-9, 2 * edge)


def epsilon_bound(one: NDArray[np.bool_], other: NDArray[np.bool_], confidence: float = 1 - 1e-6) -> float:
    """A lower bound on epsilon from how often an event happened under each of two neighbours (Clopper-Pearson)."""
    miss = (1 - confidence) / 2
    hits, misses = int(one.sum()), int(other.sum())
    low = float(beta.ppf(miss, hits, one.size - hits + 1)) if hits else 0.0
    high = float(beta.isf(miss, misses + 1, other.size - misses))
    return math.log(low / high) if low > 0 else 0.0


@pytest.mark.parametrize(
    "mechanism", [Uniform(), Sample(), FixedRate(interval=3)], ids=lambda mechanism: type(mechanism).__name__
)
def test_attacks_on_streams_find_no_more_than_was_promised(mechanism: object) -> None:
    """The likelihood-ratio attack on a person who is there in every step of a window of 10, 10⁶ runs a side.

    The event is chosen on one half of the runs and bounded on the other: a mechanism that keeps its promise fails with
    probability below 1e-6. Sample, which spends all in one release, must show at least 80 % of what it is charged.
    """
    guarantee, runs, steps = vs.Guarantee(1, w=10), 1_000_000, 10
    without = np.full((steps, 1), 5)
    neighbours = [without + 1, without]
    sums = [
        np.asarray(vs.simulate_many(mechanism, guarantee, data, seed=seed, runs=runs)).sum(axis=(1, 2))  # type: ignore[arg-type]
        for seed, data in enumerate(neighbours)
    ]
    half = runs // 2
    levels = np.quantile(sums[0][:half], np.linspace(0.05, 0.95, 37))
    found = [epsilon_bound(sums[0][:half] >= level, sums[1][:half] >= level) for level in levels]
    best = levels[int(np.argmax(found))]
    bound = epsilon_bound(sums[0][half:] >= best, sums[1][half:] >= best)
    assert bound <= 1
    if isinstance(mechanism, Sample):
        assert bound > 0.8
