"""Long statistical runs, made by ``make audit``: the noise by hundreds of millions of draws, and attacks on streams."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from veilstream.audit import attack, stream_claim
from veilstream.audit.pairs import constant
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import FixedRate, Sample, Uniform
from veilstream.noise import SecureNoise
from veilstream.privacy.guarantee import Guarantee

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


@pytest.mark.parametrize(
    ("mechanism", "least"), [(Uniform(), 0.93), (Sample(), 0.99), (FixedRate(interval=2), 0.97)], ids=repr
)
def test_ten_million_runs_find_no_more_than_was_promised(mechanism: StreamMechanism[Any], least: float) -> None:
    """A person who is there in every step of a window of 4. A claim that is kept fails with probability below 1e-6;
    so many runs show nearly all of it."""
    claim = stream_claim(mechanism, Guarantee(1, w=4), constant(4))
    result = attack(claim, 10_000_000, confidence=1 - 1e-6)
    result.require()
    assert result.bound.epsilon > least
