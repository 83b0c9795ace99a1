"""Sorted points on a line, each with a little noise, made to rise again."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression

from veilstream.metric.guarantee import MetricGuarantee
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import SealedPoints
from veilstream.trusted.statistics.metric import sorted_points
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class SortedPoints:
    """All points of a line in order, each with Laplace noise of scale δ/ε, then brought into order and into the line.

    A move of one point by δ moves the sorted points by δ in all, however many there are (proved in
    ``trusted.statistics.metric``). With δ the length m of the line this is Lap(m/ε), with less of it Lap(δ/ε): the mean
    square error falls by (m/δ)². The released points rise (the nearest such sequence in least squares, which is never
    farther from the truth) and lie on the line; a range count is the number of released points in it.

    The text writes the domain's length times δ, δ being a share of it; here δ is a length.

    >>> from veilstream.metric import Space, simulate_points
    >>> g = MetricGuarantee(1, "0.001", Space(0, 1))
    >>> y = simulate_points(SortedPoints(), g, [0.9, 0.2, 0.5], seed=1).numbers
    >>> y.round(1).tolist()
    [0.2, 0.5, 0.9]

    Fang, Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, section
    5.5.1, on the mechanism of Fang, Chang: Adaptive differentially private histogram of low-dimensional data, PETS
    2012.
    """

    isotonic: bool = True

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        """How many numbers are released for so many points."""
        guarantee.space.require_line()
        return points

    def multiple(self, guarantee: MetricGuarantee, points: int) -> Fraction:
        """How many times epsilon one person costs: as many as the line has protected distances."""
        return min(Fraction(guarantee.moves), max(Fraction(1), guarantee.space.sides[0] / guarantee.reach))

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        """The sorted points, in the space's own lengths; the deviation is that of the noise before regression."""
        guarantee.space.require_line()
        noisy = meter.laplace(sorted_points(x), guarantee.epsilon, "sorted points")
        numbers = np.asarray(noisy.numbers, dtype=np.float64)
        if self.isotonic:
            numbers = np.apply_along_axis(_rising, -1, numbers)
        std = float(np.max(noisy.std)) * float(guarantee.space.unit)
        return Values(guarantee.space.decode(numbers), std, NoiseLaw.MIXED)


def count_between(points: NDArray[np.float64], low: ArrayLike, high: ArrayLike) -> NDArray[np.int64]:
    """How many of sorted released points lie in low ≤ y < high, for every pair.

    >>> count_between(np.array([0.1, 0.4, 0.8]), [0.0, 0.4], [0.5, 0.8]).tolist()
    [2, 1]
    """
    ends = [np.searchsorted(points, np.asarray(end, dtype=np.float64), side="left") for end in (low, high)]
    return np.asarray(ends[1] - ends[0], dtype=np.int64)


def expected_error(guarantee: MetricGuarantee) -> float:
    """The standard deviation of one sorted point before regression, in the space's own lengths: √2·δ/ε."""
    return (
        2**0.5
        * float(min(guarantee.reach, Fraction(guarantee.space.sides[0])) * guarantee.space.unit)
        / float(guarantee.epsilon)
    )


def _rising(values: NDArray[np.float64]) -> NDArray[np.float64]:
    fitted: NDArray[np.float64] = isotonic_regression(values).x
    return fitted
