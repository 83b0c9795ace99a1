"""What one move does to statistics of points, against brute force and neighbouring sets."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metric.support import NOW, line, moves, smooth_by_definition, uniform_points
from veilstream.errors import InvalidInputError, SealedAccessError
from veilstream.trusted.opening import open_counts, open_points, open_scores, opened
from veilstream.trusted.points import SIDE, Metric, SealedPoints, carried, degrees, edges_of
from veilstream.trusted.statistics.metric import (
    SmoothValue,
    cell_counts,
    hat_counts,
    largest_discounted_gap,
    order_scores,
    smooth_order,
    sorted_points,
)

RATE = Fraction(1, 2)


def spread(value: SmoothValue) -> float:
    return float(opened(value)[1])


def centre(value: SmoothValue) -> int:
    return opened(value)[0]


small = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 7), min_size=n, max_size=n),
        st.integers(1, n),
        st.integers(1, 8),
        st.sampled_from([1, 3]),
    )
)


@given(small)
@settings(max_examples=120, deadline=None)
def test_smooth_sensitivity_is_its_definition_over_all_sets(case: tuple[list[int], int, int, int]) -> None:
    x, rank, reach, tenths = case
    rate = Fraction(tenths, 10)
    found = smooth_order(line(x, reach, side=7), rank, rate)
    assert centre(found) == sorted(x)[rank - 1]
    assert spread(found) == pytest.approx(smooth_by_definition(x, rank, reach, 7, float(rate)), rel=1e-9)


@given(
    st.lists(st.integers(0, 4000), min_size=1, max_size=60),
    st.integers(0, 59),
    st.integers(-300, 300),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_spread_bounds_a_move_and_is_smooth(x: list[int], index: int, by: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, len(x)))
    y = list(x)
    index %= len(x)
    y[index] = min(max(y[index] + by, 0), 4000)
    one, two = (smooth_order(line(points, 300, side=4000), rank, RATE) for points in (x, y))
    assert abs(centre(one) - centre(two)) <= min(spread(one), spread(two))
    # The exact spread is smooth at 1/2 less the slack; so is the computed one at 1/2.
    assert abs(math.log(spread(one) / spread(two))) <= 0.5


@given(st.lists(st.integers(0, 100), min_size=1, max_size=80), st.integers(0, 79), st.sampled_from([0.02, 0.3, 2.0]))
@settings(max_examples=100, deadline=None)
def test_halving_finds_the_largest_of_all_pairs(gaps: list[int], split: int, rate: float) -> None:
    x = np.cumsum(gaps).astype(np.float64)
    at = split % x.size
    lower, upper = x[: at + 1][::-1], x[at:]
    for cap in (1.0, 40.0, 1e9):
        p, q = np.meshgrid(np.arange(lower.size), np.arange(upper.size), indexing="ij")
        every = np.minimum(upper[q] - lower[p], cap) * np.exp(-rate * (p + q - 1))
        assert largest_discounted_gap(lower, upper, rate, cap) == pytest.approx(float(every.max()), rel=1e-12)


def test_reach_of_the_whole_line_is_the_standard_smooth_sensitivity() -> None:
    x = np.sort((uniform_points(41, 1, 5)[:, 0] * 1000).astype(int))
    m, beta = 21, 0.1
    padded = np.concatenate([[0], x, [1000]])
    # Nissim, Raskhodnikova, Smith: max over k of e^{−kβ} max over t of x_{m+t} − x_{m+t−k−1}, all ranks within 0..n+1.
    standard = max(
        math.exp(-k * beta) * max(padded[min(m + t, 42)] - padded[max(m + t - k - 1, 0)] for t in range(k + 2))
        for k in range(42)
    )
    found = [spread(smooth_order(line(x.tolist(), reach, 1000), m, Fraction(1, 10))) for reach in (1000, 2000)]
    assert found == pytest.approx([standard, standard], rel=1e-9)


@given(small)
@settings(max_examples=60, deadline=None)
def test_scores_count_the_fewest_moves_and_change_by_one(case: tuple[list[int], int, int, int]) -> None:
    x, rank, reach, _ = case
    unit = SIDE // 8
    scores = order_scores(line([place * unit for place in x], reach * unit), rank, bits=3)
    exact = open_scores(scores)
    fewest = dict.fromkeys(range(9), 99)
    seen, frontier, distance = set[tuple[int, ...]](), {tuple(sorted(x))}, 0
    while frontier:
        for state in frontier:
            fewest[state[rank - 1]] = min(fewest[state[rank - 1]], distance)
        seen |= frontier
        frontier = {other for state in frontier for other in moves(state, reach, 8)} - seen
        distance += 1
    assert (-exact).tolist() == list(fewest.values())
    for other in list(moves(tuple(sorted(x)), reach, 8))[:20]:
        moved = order_scores(line([place * unit for place in other], reach * unit), rank, bits=3)
        assert np.abs(open_scores(moved) - exact).max() <= scores.sensitivity


coordinates = st.integers(0, SIDE)


@given(st.lists(coordinates, min_size=1, max_size=30), st.integers(0, 29), coordinates)
@settings(max_examples=100, deadline=None)
def test_sorted_points_move_as_far_as_the_point(x: list[int], index: int, to: int) -> None:
    y = list(x)
    index %= len(x)
    y[index] = to
    reach = max(abs(x[index] - to), 1)
    one, two = (sorted_points(line(points, reach)) for points in (x, y))
    assert int(np.abs(open_counts(one) - open_counts(two)).sum()) <= one.l1 == reach


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[SealedPoints, SealedPoints, int]:
    """Two sets of points of which one moved, by no more than the reach of both."""
    axes = draw(st.integers(1, 3))
    sides = (SIDE, *(draw(st.integers(SIDE // 9, SIDE)) for _ in range(axes - 1)))
    count = draw(st.integers(1, 4))
    x = np.array([[draw(st.integers(0, side)) for side in sides] for _ in range(count)])
    y = x.copy()
    far = draw(st.sampled_from([10, 10**4, 10**7, SIDE]))
    y[0] = [min(max(int(p) + draw(st.integers(-far, far)), 0), side) for p, side in zip(x[0], sides, strict=True)]
    metric = draw(st.sampled_from(list(Metric)))
    gap = np.abs(y[0] - x[0])
    length = {
        Metric.EUCLIDEAN: math.isqrt(int((gap.astype(object) ** 2).sum())) + 1,
        Metric.MANHATTAN: int(gap.sum()),
        Metric.MAXIMUM: int(gap.max()),
    }[metric]
    reach = Fraction(max(length, 1))
    sets = [SealedPoints(points, sides, reach, metric, NOW) for points in (x, y)]
    return sets[0], sets[1], draw(st.integers(1, 12))


def edge_cost(change: np.ndarray, shape: tuple[int, ...]) -> float:
    """The least Σ|v| with B·v = change: a linear programme."""
    from scipy.optimize import linprog

    count = edges_of(shape)
    incidence = carried(np.eye(count, dtype=np.int64), shape).T
    # The rows add up to 0: one of them follows from the others.
    solved = linprog(np.ones(2 * count), A_eq=np.hstack([incidence, -incidence])[1:], b_eq=change[1:], method="highs")
    assert solved.success
    return float(solved.fun or 0.0)


@given(neighbours())
@settings(max_examples=60, deadline=None)
def test_a_move_carries_no_more_than_the_flow(pair: tuple[SealedPoints, SealedPoints, int]) -> None:
    one, two, cells = pair
    if one.axes == 3:
        cells = min(cells, 3)
    a, b = hat_counts(one, cells), hat_counts(two, cells)
    change = open_counts(b) - open_counts(a)
    assert int(change.sum()) == 0
    assert int(open_counts(a).sum()) == one.count * a.mass
    assert int(np.abs(change).sum()) <= a.l1 <= 2 * a.mass
    assert edge_cost(change / a.mass, a.shape) <= float(a.flow / a.mass) * (1 + 1e-7)


@given(neighbours())
@settings(max_examples=60, deadline=None)
def test_a_move_changes_counts_in_cells_by_one_point(pair: tuple[SealedPoints, SealedPoints, int]) -> None:
    one, two, cells = pair
    if one.axes == 3:
        cells = min(cells, 3)
    a, b = cell_counts(one, cells), cell_counts(two, cells)
    change = open_counts(b) - open_counts(a)
    assert a.l1 == a.replaced == 2
    assert (a.mass, a.shape) == (1, hat_counts(one, cells).shape)
    assert int(change.sum()) == 0
    assert int(open_counts(a).min()) >= 0
    assert int(open_counts(a).sum()) == one.count
    assert int(np.abs(change).sum()) in (0, 2)
    assert edge_cost(change, a.shape) <= float(a.flow) * (1 + 1e-7)


@given(neighbours(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_point_counts_at_its_nearest_node_whatever_the_others_are(
    pair: tuple[SealedPoints, SealedPoints, int], data: st.DataObject
) -> None:
    points, _, cells = pair
    exact = [[int(p) for p in point] for point in open_points(points)]
    # Half-way between two nodes, as near as whole coordinates come to it, and one unit below.
    for axis, side in enumerate(points.sides):
        middle = -(-(2 * data.draw(st.integers(0, cells - 1)) + 1) * SIDE // (2 * cells))
        for place in (middle - 1, middle):
            exact.append([min(place, side) if at == axis else p for at, p in enumerate(exact[0])])
    exact = data.draw(st.permutations(exact))

    def sealed(some: list[list[int]]) -> SealedPoints:
        return SealedPoints(np.array(some), points.sides, points.reach, points.metric, NOW)

    alone = [open_counts(cell_counts(sealed([point]), cells)) for point in exact]
    together = cell_counts(sealed(exact), cells)
    assert (open_counts(together) == sum(alone)).all()
    for point, counts in zip(exact, alone, strict=True):
        node = np.unravel_index(int(counts.argmax()), together.shape)
        for p, at, length in zip(point, node, together.shape, strict=True):
            far = [abs(p * cells - k * SIDE) for k in range(length)]
            # Of two nodes that are equally near the upper one.
            assert int(at) == max(k for k, gap in enumerate(far) if gap == min(far))


def test_the_shortest_move_changes_two_cells_by_one() -> None:
    border = SIDE // 20
    below, above = (cell_counts(line([border + step], 1), 10) for step in (0, 1))
    assert int(np.abs(open_counts(above) - open_counts(below)).sum()) == 2 == below.l1


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_noise_on_edges_leaves_only_the_boundary_of_a_box(shape: tuple[int, ...]) -> None:
    count = edges_of(shape)
    gained = carried(np.eye(count, dtype=np.int64), shape)
    assert (gained.sum(axis=1) == 0).all()
    assert (np.abs(gained).sum(axis=1) == 2).all()
    assert (np.abs(gained).sum(axis=0) == degrees(shape)).all()
    inside = np.zeros(shape, dtype=bool)
    inside[tuple(slice(0, 2) for _ in shape)] = True
    crossing = int((np.abs(gained @ inside.reshape(-1)) == 1).sum())
    grid = [np.array(np.unravel_index(node, shape)) for node in range(inside.size)]
    pairs = [(a, b) for a, b in combinations(range(inside.size), 2) if np.abs(grid[a] - grid[b]).sum() == 1]
    assert len(pairs) == count
    assert crossing == sum(inside.reshape(-1)[a] != inside.reshape(-1)[b] for a, b in pairs)


def test_points_do_not_show_themselves() -> None:
    points = line([123456, 654321], 10)
    derived = (smooth_order(points, 1, RATE), hat_counts(points, 4), cell_counts(points, 4))
    assert "123456" not in "".join(map(repr, (points, *derived)))
    for use in (list, len, float, np.asarray, bool):
        with pytest.raises(SealedAccessError):
            use(points)


@pytest.mark.parametrize(
    "make",
    [
        lambda: line([5], 1, side=4),
        lambda: line([-1], 1),
        lambda: SealedPoints(np.zeros((0, 1), dtype=np.int64), (SIDE,), Fraction(1), Metric.MANHATTAN, NOW),
        lambda: smooth_order(line([1], 1), 2, RATE),
        lambda: smooth_order(line([1], 1), 1, Fraction(0)),
        lambda: order_scores(line([1], 1), 1, 21),
        lambda: hat_counts(line([1], 1), 0),
        lambda: cell_counts(line([1], 1), 0),
        lambda: sorted_points(
            SealedPoints(np.zeros((2, 2), dtype=np.int64), (SIDE, SIDE), Fraction(1), Metric.MANHATTAN, NOW)
        ),
    ],
)
def test_what_cannot_be_is_refused(make: object) -> None:
    with pytest.raises(InvalidInputError):
        make()  # type: ignore[operator]
