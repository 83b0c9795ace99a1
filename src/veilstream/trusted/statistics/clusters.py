"""Scores of partitions of a vector into stretches of alike values."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts, opened
from veilstream.trusted.sealed import Opaque
from veilstream.trusted.statistics.base import JointScores, Scores
from veilstream.trusted.statistics.order import RangeOrder

LARGEST_VALUE = 1 << 28
"""Values are clipped to ±2²⁸ for scoring, which brings no two of them further apart and keeps sums within 64 bits."""
LARGEST_PENALTY = 1 << 59
"""Public penalties are cut off here, so that scores stay within 64 bits."""
MEAN_GRID = 8
"""Deviations from a mean are counted in units of 2⁻⁸."""


class Stretches(Opaque[RangeOrder]):
    """Exact order statistics of the sealed vector ``x``, for the scores below."""

    __slots__ = ("x",)

    def __init__(self, x: Sealed, order: RangeOrder) -> None:
        super().__init__(order)
        self.x = x


@hide_frames
def stretches(x: Sealed) -> Stretches:
    """Prepare ``x`` for scoring many stretches."""
    return Stretches(x, RangeOrder(np.clip(open_counts(x), -LARGEST_VALUE, LARGEST_VALUE)))


@hide_frames
def bisection_scores(
    data: Stretches,
    clusters: NDArray[np.int64],
    cuts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    penalty: Fraction,
) -> JointScores:
    """How good it is to leave each cluster whole (candidate 0) or to cut it before one of its ``cuts``.

    ``clusters`` holds first and end position of disjoint stretches, row by row; ``cuts`` positions strictly inside,
    cluster after cluster, ``sizes`` of them each.
    The score is −(Σ|v − mean| over the resulting parts + penalty for each part) in units of 2⁻⁸ of the grid of x.

    One count added to a stretch of m bins moves its own |v − mean| by at most 1 − 1/m and each of the m − 1 others by
    at most 1/m: 2(1 − 1/m) < 2 in all. A unit with l1 counts spread over all clusters moves the sum over the clusters
    by less than 2·l1; each part is rounded down to whole units, which adds less than one unit for every part
    that the unit of privacy touches: at most one part per whole count, hence 2·l1·2⁸ + l1 on whole grids (l1 as grid
    steps). The penalty is public.

    >>> from veilstream.trusted.counts import seal
    >>> data = stretches(seal(np.array([9, 9, 0, 0, 0, 0]), t=0))
    >>> bisection_scores(data, np.array([[0, 6]]), np.array([1, 2, 3]), np.array([3]), Fraction(1)).sizes.tolist()
    [4]
    """
    owner = np.repeat(np.arange(sizes.size), sizes)
    _check(data, clusters, cuts, owner)
    first = np.concatenate([clusters[:, 0], clusters[owner, 0], cuts])
    after = np.concatenate([clusters[:, 1], cuts, clusters[owner, 1]])
    uncut, left, right = np.split(_mean_deviation(opened(data), first, after), [sizes.size, sizes.size + cuts.size])
    public = min(math.floor(penalty * (1 << (MEAN_GRID + data.x.grid))), LARGEST_PENALTY)
    exact = np.empty(sizes.size + cuts.size, dtype=np.int64)
    exact[np.cumsum(sizes) - sizes + np.arange(sizes.size)] = -uncut - public
    exact[np.arange(cuts.size) + owner + 1] = -(left + right) - 2 * public
    moved = data.x.l1 * (1 << data.x.grid)
    sensitivity = moved * ((2 << MEAN_GRID) + 1)
    return JointScores(exact, data.x.span, sensitivity, sizes + 1, bins=data.x.bins)


def _mean_deviation(order: RangeOrder, first: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ|v − mean| = 2·Σ(mean − v) over the v below the mean, in units of 2⁻⁸, rounded down."""
    length = after - first
    whole, rest = np.divmod(order.sums(first, after), length)
    count, total = order.below(first, after, whole + (rest > 0))
    fraction = (2 << MEAN_GRID) * count * rest // length
    return (2 << MEAN_GRID) * (count * whole - total) + fraction


def _check(data: Stretches, clusters: NDArray[np.int64], cuts: NDArray[np.int64], owner: NDArray[np.int64]) -> None:
    ordered = clusters[np.argsort(clusters[:, 0])]
    disjoint = (ordered[1:, 0] >= ordered[:-1, 1]).all() and (ordered[:, 1] > ordered[:, 0]).all()
    within = ordered.size > 0 and ordered[0, 0] >= 0 and ordered[-1, 1] <= data.x.size
    owned = owner.size == cuts.size and bool((owner < len(clusters)).all())
    inside = owned and bool(((cuts > clusters[owner, 0]) & (cuts < clusters[owner, 1])).all())
    if not (disjoint and within and inside):
        raise InvalidInputError("clusters: they must be disjoint stretches with cuts strictly inside")


class Boundaries(Opaque[tuple[NDArray[np.int64], NDArray[np.int64]]]):
    """The best partitions of every beginning of a vector, from which boundaries are chosen backwards."""

    __slots__ = ("edges", "x")

    def __init__(self, x: Sealed, edges: NDArray[np.int64], best: NDArray[np.int64], cost: NDArray[np.int64]) -> None:
        super().__init__((best, cost))
        self.x = x
        self.edges = edges

    def scores(self, buckets: int, end: int) -> Scores:
        """Scores of the edges buckets−1..end−1 as the beginning of the last of ``buckets`` before edge ``end``.

        −(least Σ|v − median| of buckets−1 stretches up to the candidate + that of the stretch from it to ``end``).
        Σ|v − median| = min over c of Σ|v − c|, and minima and sums over disjoint stretches of functions that are
        1-Lipschitz in the L1 distance are so too: a unit moves each score by at most l1.
        """
        if not 2 <= buckets <= end < self.edges.size:
            raise InvalidInputError(f"boundary: {buckets} buckets before edge {end} of {self.edges.size}")
        starts = slice(buckets - 1, end)
        best, cost = opened(self)
        exact = -(best[buckets - 2, starts] + cost[starts, end])
        return Scores(exact, self.x.span, self.x.l1 * (1 << self.x.grid), bins=self.x.bins)


@hide_frames
def boundaries(x: Sealed, edges: NDArray[np.int64], buckets: int) -> Boundaries:
    """Costs of all stretches between public ``edges`` (0 to size, increasing) and of up to ``buckets`` of them.

    >>> from veilstream.trusted.counts import seal
    >>> costs = boundaries(seal(np.array([9, 9, 0, 0]), t=0), np.arange(5), buckets=2)
    >>> costs.scores(2, 4).size, costs.scores(2, 4).sensitivity
    (3, Fraction(1, 1))
    """
    if edges.size < 2 or edges[0] != 0 or edges[-1] != x.size or (np.diff(edges) < 1).any():
        raise InvalidInputError(f"edges: {edges.size} of them; they must increase from 0 to {x.size}")
    order = opened(stretches(x))
    first, end = np.triu_indices(edges.size, k=1)
    forbidden = np.iinfo(np.int64).max // 4
    cost = np.full((edges.size, edges.size), forbidden, dtype=np.int64)
    cost[first, end] = order.absolute_deviation(edges[first], edges[end])
    best = np.full((buckets, edges.size), forbidden, dtype=np.int64)
    best[0] = cost[0]
    for index in range(1, buckets):
        best[index] = np.minimum((best[index - 1][:, None] + cost).min(axis=0), forbidden)
    return Boundaries(x, edges, best, cost)
