"""Meters for the tests of spatial and sparse histograms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.fakes import NoNoise
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter


def silent(epsilon: Fraction = Fraction(1)) -> Meter:
    return Meter(Accountant(Guarantee(epsilon, w=1), 1), NoNoise(), 0)


def seeded(seed: int, epsilon: Fraction = Fraction(1), w: int | None = 1) -> Meter:
    return Meter(Accountant(Guarantee(epsilon, w=w), 1), ExactSampler(SeededSource(seed)), 0)


class OneByOne:
    """Repeatable exact noise that chooses question by question, candidate by candidate."""

    def __init__(self, seed: int) -> None:
        self._sampler = ExactSampler(SeededSource(seed))

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._sampler.laplace(scale, size)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._sampler.gaussian(sigma, size)

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        return self._sampler.select(gaps, rate)


def one_by_one(seed: int, epsilon: Fraction) -> Meter:
    return Meter(Accountant(Guarantee(epsilon, w=1), 1), OneByOne(seed), 0)
