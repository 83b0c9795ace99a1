"""Statistics of points of which one may move a little, each with what a move does to it proved where it stands."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_points
from veilstream.trusted.points import BITS, SIDE, SealedFlow, SealedPlaces, SealedPoints
from veilstream.trusted.sealed import Opaque
from veilstream.trusted.statistics.base import Scores

Reals: TypeAlias = NDArray[np.float64]
FLOAT_SLACK: Final = Fraction(1, 1 << 38)
"""Given up of every smoothness, for the floating-point error of ``smooth_order``."""
MAX_SMOOTHNESS: Final = 32
"""Beyond it the next points count for nothing, and the slack would not cover rounding the rate."""
WEIGHT_BITS: Final = 14
WEIGHT: Final = 1 << WEIGHT_BITS
MAX_CELLS: Final = 1 << 12
MAX_NODES: Final = 1 << 24


class SmoothValue(Opaque[tuple[int, Fraction]]):
    """One whole number between ``low`` and ``high``, with a bound on how far one unit moves it that depends on data.

    For neighbours D and D', |value(D) − value(D')| ≤ spread(D) and spread(D) ≤ e^smoothness · spread(D').
    """

    __slots__ = ("high", "low", "smoothness", "span")
    contents: ClassVar[str] = "numbers"

    def __init__(self, value: int, spread: Fraction, span: Span, smoothness: Fraction, low: int, high: int) -> None:
        super().__init__((value, spread))
        self.span = span
        self.smoothness = smoothness
        self.low = low
        self.high = high

    def __repr__(self) -> str:
        return f"SmoothValue(span={self.span}, smoothness={self.smoothness}, low={self.low}, high={self.high})"


@hide_frames
def sorted_points(points: SealedPoints) -> SealedPlaces:
    """The coordinates of points on a line, sorted.

    One point moves by at most the reach r. If x ≤ y in every place, the same holds once both are sorted, and sorting
    keeps the sum; so a point that moves up moves no sorted value down, and all of them together by exactly as far as
    it went, ≤ min{r, length of the line}. Down is the same from the other side. Put anywhere else, a point goes no
    farther than the line is long.

    >>> from veilstream.trusted.points import Metric
    >>> two = SealedPoints(np.array([[9], [3]]), (SIDE,), Fraction(5), Metric.EUCLIDEAN, Span(0, 0))
    >>> sorted_points(two)
    Sealed(size=2, span=0..0, l1=5)
    """
    x = np.sort(_line(points))
    return SealedPlaces(x, points.span, points.reach, replaced=Fraction(points.sides[0]))


@hide_frames
def smooth_order(points: SealedPoints, rank: int, smoothness: Fraction) -> SmoothValue:
    """The ``rank``-th smallest of points on a line, with its smooth sensitivity under moves of at most the reach r.

    Write x_1 ≤ … ≤ x_n for the points, x_0 and x_{n+1} for the ends of the line, m for the rank and β for the
    smoothness. The spread is

        S = max{ 1, max over i ≤ m ≤ j, i < j of e^{−β(j−i−1)} · min(r, x_j − x_i) }    (in units of the grid).

    *It bounds a move.* One move takes the m-th smallest up by at most min(r, x_{m+1} − x_m): to lift it beyond
    x_{m+1} it would take two points, and beyond x_m + r a longer move. Down likewise: these are pairs with j = i + 1.

    *It is exact.* S is the largest e^{−βk}·(local sensitivity of D') over all D' that k moves reach, apart from the
    constant 1. For the local sensitivity of D' is min(r, b − a) for a gap between its m-th and (m+1)-th points (or the
    (m−1)-th and m-th; the same with m − 1 for m): m points at most a, the others at least b. Only b − a ≤ r
    counts, and then no point need move twice: if b < x_m the gap can be shifted up until b = x_m without any point
    having further to go, so b ≥ x_m, hence a ≥ x_m − r, which the m lower points reach in one move each; and likewise
    for the upper ones. So k is the number of points strictly inside, at best j − i − 1 for a gap from x_i to x_j. With
    r the whole line this is the smooth sensitivity of Nissim, Raskhodnikova and Smith (2007).

    *It is smooth.* A pair i, j of D, k = j − i − 1, is a set D' reached in k moves, which a neighbour of D reaches in
    k + 1; the constant 1 changes nothing.

    *It takes O(n log n).* For i < i' and j < j', min(r, x_j' − x_i')/min(r, x_j − x_i') is at least as large as with i
    in the place of i', so the best j rises with i, and halving the rows finds all. Floating-point products are off by
    less than 2⁻⁴⁵, the powers that count being above 2⁻³¹; a comparison that errs costs a factor as close to
    1, at most one in each of 31 halvings. The spread is enlarged by 2⁻³⁹ and the rate reduced by 2⁻³⁸ to pay for both.

    >>> from veilstream.trusted.points import Metric
    >>> three = SealedPoints(np.array([[9], [3], [5]]), (SIDE,), Fraction(5), Metric.EUCLIDEAN, Span(0, 0))
    >>> smooth_order(three, 2, Fraction(1, 2))
    SmoothValue(span=Span(first=0, last=0), smoothness=1/2, low=0, high=1073741824)
    """
    if not 1 <= rank <= points.count:
        raise InvalidInputError(name="rank", value=rank, limit=f"from 1 to {points.count}, the number of points")
    if not Fraction(1, 1 << BITS) <= smoothness <= MAX_SMOOTHNESS:
        raise InvalidInputError(name="smoothness", value=smoothness, limit=f"from 2^-{BITS} to {MAX_SMOOTHNESS}")
    x, high = np.sort(_line(points)), points.sides[0]
    rate = float(smoothness - FLOAT_SLACK)
    reach = min(points.reach, Fraction(high))
    # Beyond these, e^{−βk}·r is below 1, which the constant covers.
    far = math.ceil(math.log(float(reach) + 1) / rate) + 1
    lower = np.concatenate([[0], x[:rank]])[::-1][: far + 1].astype(np.float64)
    upper = np.concatenate([x[rank - 1 :], [high]])[: far + 1].astype(np.float64)
    spread = max(1.0, largest_discounted_gap(lower, upper, rate, float(reach)))
    enlarged = Fraction(spread) * (1 + Fraction(1, 1 << 39))
    return SmoothValue(int(x[rank - 1]), enlarged, points.span, smoothness, 0, high)


def largest_discounted_gap(lower: Reals, upper: Reals, rate: float, cap: float) -> float:
    """max over p, q of e^{−rate(p+q−1)} · min(cap, upper_q − lower_p); lower falls and upper rises from one value.

    The best q falls as p rises. Rows are taken by halving: row 0 first, then the middle one between those
    known, each over the columns that its two neighbours leave.

    >>> largest_discounted_gap(np.array([5.0, 3.0, 0.0]), np.array([5.0, 9.0, 9.5]), 0.5, 100.0)
    4.0
    """
    of_upper = np.exp(-rate * (np.arange(upper.size) - 1))
    of_lower = np.exp(-rate * np.arange(lower.size))
    best = np.zeros(lower.size, dtype=np.int64)
    largest = 0.0
    stride = 1 << lower.size.bit_length()
    rows = np.zeros(1, dtype=np.int64)
    while stride:
        if rows.size:
            before, after = np.maximum(rows - stride, 0), rows + stride
            first = np.where(after < lower.size, best[np.minimum(after, lower.size - 1)], 0)
            last = np.where(rows > 0, best[before], upper.size - 1)
            widths = last - first + 1
            begins = np.cumsum(widths) - widths
            owner = np.repeat(np.arange(rows.size), widths)
            column = np.arange(owner.size) - begins[owner] + first[owner]
            row = rows[owner]
            value = np.minimum(upper[column] - lower[row], cap) * (of_upper[column] * of_lower[row])
            top = np.maximum.reduceat(value, begins)
            hits = np.flatnonzero(value == top[owner])
            best[row[hits]] = column[hits]
            largest = max(largest, float(top.max()))
        stride //= 2
        rows = np.arange(stride, lower.size, 2 * stride) if stride else rows
    return largest


@hide_frames
def order_scores(points: SealedPoints, rank: int, bits: int) -> Scores:
    """How few moves would make each of 2^bits + 1 even places of a line the ``rank``-th smallest point, negated.

    Points are first rounded to those places, 2^(30−bits) units apart, which turns the reach r into s = ⌈r·2^(bits−30)⌉
    of them. To make y the m-th smallest at least n − m + 1 points must be at y or above, and m at y or below. Bringing
    a point at x up to y takes ⌈(y − x)⁺/s⌉ moves, so y costs the larger of

        up   = min over n − m + 1 points of Σ ⌈(y − x)⁺/s⌉     (the largest points),
        down = min over m points of Σ ⌈(x − y)⁺/s⌉             (the smallest ones).

    One move changes one point's term by at most 1, hence every sum, their minimum and the larger of the two:
    sensitivity 1 (the inverse sensitivity mechanism of Asi and Duchi, 2020, for moves). With r the whole line it is the
    usual score, the number of points between y and the rank.

    >>> from veilstream.trusted.points import Metric
    >>> three = SealedPoints(np.array([[9], [3], [5]]), (SIDE,), Fraction(5), Metric.EUCLIDEAN, Span(0, 0))
    >>> order_scores(three, 2, bits=8).size
    257
    """
    if not 1 <= rank <= points.count or not 1 <= bits <= 20:
        raise InvalidInputError(
            f"rank {rank} of {points.count} points, {bits} bits: ranks begin at 1, bits are 1 to 20"
        )
    width = BITS - bits
    places = np.sort((_line(points) + (1 << width >> 1)) >> width)
    size = (points.sides[0] >> width) + 1
    step = min(math.ceil(points.reach / (1 << width)), size)
    up = _moves(places[rank - 1 :], size, step)
    down = _moves((size - 1 - places[:rank])[::-1], size, step)[::-1]
    return Scores(-np.maximum(up, down), points.span, Fraction(1))


def _moves(places: NDArray[np.int64], size: int, step: int) -> NDArray[np.int64]:
    """Σ ⌈(y − x)⁺/step⌉ over the places x, for y = 0..size−1: those below y, below y − step, below y − 2·step, …"""
    below = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=size))[:-1]])
    rows = -(-size // step)
    padded = np.zeros(rows * step, dtype=np.int64)
    padded[:size] = below
    return np.cumsum(padded.reshape(rows, step), axis=0).reshape(-1)[:size]


@hide_frames
def hat_counts(points: SealedPoints, cells: int) -> SealedFlow:
    """Points shared out among the nodes of a grid with ``cells`` cells along the longest side, by linear interpolation.

    Along an axis a point between two nodes gives each the share that the distance to the other one has of the spacing:
    counts of hat functions. In more dimensions shares multiply. A point weighs W^d = 2^(14·d) in all, so
    that shares are whole numbers.

    *What a move does.* Coordinates are read in units of a W-th of the spacing, rounded down: p ↦ q = ⌊p·cW/2³⁰⌋, so
    that a move by dp along an axis is one by less than dp·cW/2³⁰ + 1. A step of one unit along axis a stays between two
    layers of nodes and carries the share of 1/W of the point from the one to the other: W^(d−1), spread over the edges
    that join them in proportion to the other axes' shares. A move is a chain of such steps, fewer than T + d of them,
    T = (total reach)·cW/2³⁰: flow ≤ W^(d−1)·(⌈T⌉ + d − 1). Each edge changes two nodes, and a point cannot take away
    and bring back more than its weight: L1 ≤ 2·min{flow, W^d}.

    >>> from veilstream.trusted.points import Metric
    >>> two = SealedPoints(np.array([[9], [SIDE // 2]]), (SIDE,), Fraction(SIDE, 100), Metric.EUCLIDEAN, Span(0, 0))
    >>> grid = hat_counts(two, cells=10)
    >>> grid, float(grid.flow / grid.mass)
    (SealedFlow(shape=(11,), span=0..0, flow=1639, l1=3278), 0.1000...)
    """
    shape = _nodes(points, cells)
    scaled = open_points(points) * (cells << WEIGHT_BITS) >> BITS
    node = np.minimum(scaled >> WEIGHT_BITS, np.array(shape) - 2)
    share = scaled - (node << WEIGHT_BITS)
    axes = points.axes
    strides = [math.prod(shape[axis + 1 :]) for axis in range(axes)]
    at = node @ np.array(strides, dtype=np.int64)
    masses = np.zeros(math.prod(shape), dtype=np.int64)
    for corner in product((0, 1), repeat=axes):
        weight = np.ones(points.count, dtype=np.int64)
        for axis, upper in enumerate(corner):
            weight *= share[:, axis] if upper else WEIGHT - share[:, axis]
        np.add.at(masses, at + sum(stride for stride, upper in zip(strides, corner, strict=True) if upper), weight)
    flow, mass = hat_movement(points.total_reach, cells, axes)
    return SealedFlow(masses, shape, points.span, flow=flow, mass=mass)


def hat_movement(total_reach: Fraction, cells: int, axes: int) -> tuple[Fraction, int]:
    """How much one move carries over edges in ``hat_counts``, which has the proof, and what one point weighs.

    >>> hat_movement(Fraction(SIDE, 100), 10, 1)
    (Fraction(1639, 1), 16384)
    """
    steps = math.ceil(total_reach * (cells << WEIGHT_BITS) / SIDE) + axes - 1
    return Fraction(WEIGHT ** (axes - 1) * steps), WEIGHT**axes


@hide_frames
def cell_counts(points: SealedPoints, cells: int) -> SealedFlow:
    """Points counted at their nearest node of the grid of ``hat_counts``: a plain histogram of the cells around nodes.

    Coordinate p along an axis counts at node ⌊p·c/2³⁰ + 1/2⌋, c = ``cells``: half-way between two it is the upper one,
    whatever the other points are. As p ≤ side, that node is at most ⌈side·c/2³⁰⌉, the last one.

    *What a move does.* One point counts 1 at one node before and 1 at one node after, and the others stay: L1 is 0 or
    2, wherever the point goes. Two points as near as can be on both sides of a border show that no shorter reach
    lowers it, so there is nothing to gain from δ, and a point that is put anywhere else does no more (``replaced`` is 2
    too). Along an axis the node moves by less than dp·c/2³⁰ + 1, along all of them by a whole number below T + d,
    T = (total reach)·c/2³⁰, and a chain of so many edges joins the two nodes: flow ≤ ⌈T⌉ + d − 1, which is at least 1
    as every reach is above 0; so that ``l1`` = min{2·flow, 2} = 2.

    >>> from veilstream.trusted.points import Metric
    >>> two = SealedPoints(np.array([[9], [SIDE // 2]]), (SIDE,), Fraction(SIDE, 100), Metric.EUCLIDEAN, Span(0, 0))
    >>> cell_counts(two, cells=10)
    SealedFlow(shape=(11,), span=0..0, flow=1, l1=2)
    """
    shape = _nodes(points, cells)
    node = (open_points(points) * cells + SIDE // 2) >> BITS
    at = np.ravel_multi_index(tuple(node.T), shape)
    counts = np.bincount(at, minlength=math.prod(shape)).astype(np.int64)
    flow = Fraction(max(1, math.ceil(points.total_reach * cells / SIDE) + points.axes - 1))
    return SealedFlow(counts, shape, points.span, flow=flow, mass=1)


def _nodes(points: SealedPoints, cells: int) -> tuple[int, ...]:
    """How many nodes a grid with ``cells`` cells along the longest side has along each axis."""
    if type(cells) is not int or not 1 <= cells <= MAX_CELLS:
        raise InvalidInputError(name="cells", value=cells, limit=f"a whole number from 1 to {MAX_CELLS}")
    shape = tuple(-(-side * cells // SIDE) + 1 for side in points.sides)
    if math.prod(shape) > MAX_NODES:
        raise InvalidInputError(f"grid of {math.prod(shape)} nodes: at most {MAX_NODES}")
    return shape


def _line(points: SealedPoints) -> NDArray[np.int64]:
    if points.axes != 1:
        raise InvalidInputError(f"points on {points.axes} axes: 1 is needed for an order")
    return open_points(points)[:, 0]
