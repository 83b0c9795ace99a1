"""No score of a partition moves by more than its sensitivity between neighbouring data."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import seal
from veilstream.trusted.opening import open_scores
from veilstream.trusted.statistics import bisection_scores, boundaries, stretches
from veilstream.trusted.statistics.order import RangeOrder

Counts = NDArray[np.int64]


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Counts, Counts, int]:
    """Two histograms that differ by one person's l1 counts or fewer."""
    l1 = draw(st.integers(1, 3))
    large = draw(st.sampled_from([3, 50, 2**28 + 5]))
    counts = draw(st.lists(st.integers(0, large), min_size=2, max_size=12))
    one = np.array(counts, dtype=np.int64)
    other = one.copy()
    for b in draw(st.lists(st.integers(0, one.size - 1), max_size=l1)):
        other[b] += 1
    return one, other, l1


@settings(max_examples=300, deadline=None)
@given(pair=neighbours(), data=st.data())
def test_bisection_scores_are_lipschitz_over_all_clusters_together(
    pair: tuple[Counts, Counts, int], data: st.DataObject
) -> None:
    one, other, l1 = pair
    ends = sorted(data.draw(st.sets(st.integers(1, one.size - 1), max_size=3)))
    clusters = np.array(list(zip([0, *ends], [*ends, one.size], strict=True)), dtype=np.int64)
    cuts = np.concatenate([np.arange(first + 1, after, dtype=np.int64) for first, after in clusters])
    sizes = clusters[:, 1] - clusters[:, 0] - 1
    a, b = (bisection_scores(stretches(seal(c, 0, l1)), clusters, cuts, sizes, Fraction(3, 2)) for c in (one, other))
    moved = np.maximum.reduceat(np.abs(open_scores(a) - open_scores(b)), np.cumsum(a.sizes) - a.sizes)
    assert a.sensitivity == b.sensitivity
    assert moved.sum() <= a.sensitivity


@settings(max_examples=300, deadline=None)
@given(pair=neighbours(), data=st.data())
def test_boundary_scores_are_lipschitz(pair: tuple[Counts, Counts, int], data: st.DataObject) -> None:
    one, other, l1 = pair
    inner = data.draw(st.sets(st.integers(1, one.size - 1), min_size=1))
    edges = np.array(sorted({0, one.size} | inner), dtype=np.int64)
    buckets = data.draw(st.integers(2, edges.size - 1))
    found = [boundaries(seal(c, 0, l1), edges, buckets) for c in (one, other)]
    for k in range(2, buckets + 1):
        for end in range(k, edges.size):
            a, b = (each.scores(k, end) for each in found)
            assert a.sensitivity == l1
            assert np.abs(open_scores(a) - open_scores(b)).max() <= a.sensitivity


@settings(max_examples=200, deadline=None)
@given(values=st.lists(st.integers(-9, 9), min_size=1, max_size=20), data=st.data())
def test_order_statistics_equal_the_definition(values: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values) - 1))
    after = data.draw(st.integers(first + 1, len(values)))
    limit = data.draw(st.integers(-12, 12))
    order = RangeOrder(np.array(values, dtype=np.int64))
    low, high = np.array([first]), np.array([after])
    part = values[first:after]
    count, total = order.below(low, high, np.array([limit]))
    small = [v for v in part if v < limit]
    assert (count[0], total[0]) == (len(small), sum(small))
    assert order.absolute_deviation(low, high)[0] == min(sum(abs(v - c) for v in part) for c in part)


def test_the_best_cut_has_the_best_score() -> None:
    data = stretches(seal(np.array([9, 9, 0, 0, 0, 0]), 0))
    scores = bisection_scores(data, np.array([[0, 6]]), np.arange(1, 6), np.array([5]), Fraction(1))
    # Whole: Σ|v − 3| = 24, and one noise. Cut before bin 2: nothing but two noises.
    assert (open_scores(scores)[[0, 2]] / 256).tolist() == [-25.0, -2.0]
    assert int(np.argmax(open_scores(scores))) == 2


def test_scores_of_many_clusters_are_those_of_each() -> None:
    data = stretches(seal(np.array([9, 9, 0, 0, 0, 7, 5]), 0))
    clusters, cuts, sizes = np.array([[0, 3], [5, 7], [3, 5]]), np.array([1, 2, 6, 4]), np.array([2, 1, 1])
    together = bisection_scores(data, clusters, cuts, sizes, Fraction(1))
    parts = np.split(cuts, np.cumsum(sizes)[:-1])
    alone = [
        open_scores(bisection_scores(data, clusters[[i]], part, sizes[[i]], Fraction(1)))
        for i, part in enumerate(parts)
    ]
    assert together.sizes.tolist() == [3, 2, 2]
    assert open_scores(together).tolist() == np.concatenate(alone).tolist()


def test_scores_do_not_print_what_they_know() -> None:
    data = stretches(seal(np.array([123456, 0]), 0))
    found = boundaries(seal(np.array([123456, 0, 1]), 0), np.arange(4), 2)
    assert "123456" not in f"{data!r} {found!r} {found.scores(2, 3)!r}"


def test_clusters_that_overlap_and_edges_that_do_not_fit_are_refused() -> None:
    data = stretches(seal(np.zeros(6, dtype=np.int64), 0))
    with pytest.raises(InvalidInputError, match="disjoint"):
        bisection_scores(data, np.array([[0, 4], [3, 6]]), np.array([1, 4]), np.array([1, 1]), Fraction(1))
    with pytest.raises(InvalidInputError, match="strictly inside"):
        bisection_scores(data, np.array([[0, 4]]), np.array([4]), np.array([1]), Fraction(1))
    with pytest.raises(InvalidInputError, match="increase from 0 to 6"):
        boundaries(data.x, np.array([0, 3]), 2)
    with pytest.raises(InvalidInputError, match="buckets before edge"):
        boundaries(data.x, np.array([0, 3, 6]), 2).scores(3, 2)
