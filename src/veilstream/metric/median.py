"""The median, or another quantile, of points on a line of which one may move a little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.metric.guarantee import MetricGuarantee
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import BITS, SealedPoints
from veilstream.trusted.statistics.metric import MAX_SMOOTHNESS, order_scores, smooth_order
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class SmoothMedian:
    """The quantile plus noise as wide as its *smooth sensitivity*: little where points lie close around it.

    One move within δ moves the median by at most the gap to the next point, and never by more than δ. The smooth
    sensitivity is the largest such gap after k moves, discounted by e^{−βk}; under δ-neighbours it is exactly that of
    Nissim et al. with every gap capped at δ (proved in ``trusted.statistics.metric.smooth_order``, computed in
    O(n log n)). With β = ``share``·ε, Cauchy noise of scale S/(ε − β) is ε-private without any failure probability
    (``Meter.smooth_cauchy``), drawn exactly and rounded to 2⁻³⁰ of the line.

    Corrected: the paper reports the sensitivity alone. Laplace noise of that scale would need a failure probability;
    Cauchy noise does not, but has no variance: now and then it is far off. Its scale is private, so that no interval
    comes with it.

    >>> from veilstream.metric import Space, simulate_points
    >>> g = MetricGuarantee(1, "0.001", Space(0, 1))
    >>> points = np.linspace(0, 1, 1001)
    >>> simulate_points(SmoothMedian(), g, points, seed=1).numbers.round(1).tolist()
    [0.5]

    Fang, Chang, ASIACCS 2014, section 5.5.2; Nissim, Raskhodnikova, Smith: Smooth sensitivity and sampling in private
    data analysis, STOC 2007, section 3.1.
    """

    quantile: Exact = "1/2"
    share: Exact = "1/2"

    def __post_init__(self) -> None:
        _inside(self.quantile, "quantile")
        _inside(self.share, "share")

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        guarantee.space.require_line()
        return 1

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        guarantee.space.require_line()
        smoothness = min(rational(self.share, "share") * guarantee.epsilon, Fraction(MAX_SMOOTHNESS))
        value = smooth_order(x, rank_of(self.quantile, x.count), smoothness)
        noisy = meter.smooth_cauchy(value, guarantee.epsilon, "median")
        return Values(guarantee.space.decode(noisy.numbers), math.nan)


@dataclass(frozen=True, slots=True)
class ChosenMedian:
    """One of 2^bits + 1 evenly spaced values, the likelier the fewer moves would make it the quantile.

    The exponential mechanism on the number of δ-moves (``trusted.statistics.metric.order_scores``). A value beyond δ
    costs the points between two moves each, beyond 2δ three, so that far values are out of reach sooner than under the
    standard guarantee. Pure and exact, without the heavy tails of ``SmoothMedian``. δ is rounded up to a multiple of
    the distance between neighbouring values: choose ``bits`` so that they are finer.

    >>> from veilstream.metric import Space, simulate_points
    >>> g = MetricGuarantee(1, "0.001", Space(0, 1))
    >>> points = np.linspace(0, 1, 1001)
    >>> simulate_points(ChosenMedian(), g, points, seed=1).numbers.round(1).tolist()
    [0.5]

    Asi, Duchi: Near instance-optimality in differential privacy, 2020, the inverse sensitivity mechanism, with moves of
    at most δ in the place of replacements; as the alternative to ``SmoothMedian`` of the same paper section.
    """

    quantile: Exact = "1/2"
    bits: int = 16

    def __post_init__(self) -> None:
        _inside(self.quantile, "quantile")
        if type(self.bits) is not int or not 1 <= self.bits <= 20:
            raise InvalidInputError(name="bits", value=self.bits, limit="a whole number from 1 to 20")

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        guarantee.space.require_line()
        return 1

    def ranks(self, guarantee: MetricGuarantee, points: int, level: float = 0.95) -> tuple[int, int]:
        """Ranks of points between which the released value lies with probability at least ``level``.

        A value that needs k moves has at most k points between itself and the quantile, for each of them must move.
        The best value needs one move at most, since the values are no farther apart than δ. Of the N = 2^bits + 1
        values those that need at least k + 1 are chosen with probability at most N·e^{−εk/2}, which is 1 − level for
        k = (2/ε)·ln(N/(1 − level)). How many points there are is public, so these ranks are too.

        >>> from veilstream.metric import Space
        >>> ChosenMedian().ranks(MetricGuarantee(1, "0.001", Space(0, 1)), 1001)
        (471, 531)
        """
        if not 0 < level < 1:
            raise InvalidInputError(name="level", value=level, limit="it lies strictly between 0 and 1")
        moves = 1 + math.ceil(2 / float(guarantee.epsilon) * math.log(((1 << self.bits) + 1) / (1 - level)))
        rank = rank_of(self.quantile, points)
        return max(1, rank - moves), min(points, rank + moves)

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        guarantee.space.require_line()
        scores = order_scores(x, rank_of(self.quantile, x.count), self.bits)
        chosen = meter.select(scores, guarantee.epsilon, "median")
        code = np.array([chosen << (BITS - self.bits)], dtype=np.int64)
        return Values(guarantee.space.decode(code), math.nan)


def rank_of(quantile: Exact, points: int) -> int:
    """The rank ⌈q·n⌉ of a quantile, at least 1; the median of an even number is the lower one.

    >>> rank_of("1/2", 5), rank_of("1/2", 4), rank_of("1/100", 5)
    (3, 2, 1)
    """
    return max(1, math.ceil(rational(quantile, "quantile") * points))


def _inside(value: Exact, name: str) -> None:
    if not 0 < rational(value, name) < 1:
        raise InvalidInputError(name=name, value=value, limit="it lies strictly between 0 and 1")
