"""Rank and block statistics are exact, and no neighbouring table moves them by more than their sensitivity."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.data.bounding.keyed import Key
from veilstream.errors import InvalidInputError
from veilstream.synthesis.rows import content_hashes
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts, open_rows, open_scores
from veilstream.trusted.rows import SealedRows, ordered_rows
from veilstream.trusted.statistics.blocks import block_correlations, likeliest_correlation
from veilstream.trusted.statistics.dependence import mean_dependence
from veilstream.trusted.statistics.kendall import concordance, inversions, kendall_sums
from veilstream.trusted.statistics.marginal_counts import marginal_counts, table_distances
from veilstream.trusted.statistics.pair_tables import pair_tables, prediction_scores, range_error

Table = NDArray[np.int64]
DOMAIN = 4


def sealed(table: Table, key: bytes, domain: int = DOMAIN) -> SealedRows:
    columns = [np.ascontiguousarray(column) for column in table.T]
    return ordered_rows(columns, content_hashes(columns, Key(key)), [domain] * len(columns), t=0)


def brute_force(table: Table) -> list[int]:
    signs = [np.sign(column[:, None] - column[None, :]) for column in table.T]
    return [int(np.triu(a * b, 1).sum()) for a, b in combinations(signs, 2)]


def moved(a: Sealed, b: Sealed) -> Fraction:
    return Fraction(int(np.abs(open_counts(a) - open_counts(b)).sum()), 1 << a.grid)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Table, Table, bytes]:
    """A table, the same with one row more at any place, and a key."""
    attributes = draw(st.integers(2, 5))
    rows = draw(st.integers(0, 9))
    values = st.integers(0, DOMAIN - 1)
    table = np.array(
        draw(st.lists(values, min_size=(rows + 1) * attributes, max_size=(rows + 1) * attributes)), dtype=np.int64
    ).reshape(rows + 1, attributes)
    without = np.delete(table, draw(st.integers(0, rows)), axis=0)
    return (
        draw(st.permutations(list(without)).map(lambda r: np.array(r).reshape(-1, attributes))),
        table,
        draw(st.binary(min_size=16, max_size=16)),
    )


@given(neighbours(), st.integers(2, 12))
def test_no_neighbour_moves_kendall_sums_by_more_than_their_sensitivity(
    pair: tuple[Table, Table, bytes], size: int
) -> None:
    less, more, key = pair
    a, b = kendall_sums(sealed(less, key), size), kendall_sums(sealed(more, key), size)
    assert moved(a, b) <= a.l1 == b.l1


@pytest.mark.parametrize("attributes", [2, 3, 4, 5])
def test_the_sensitivity_of_kendall_sums_is_the_least_possible(attributes: int) -> None:
    """By brute force over all sign patterns, ties included: one replaced row moves all sums by ⌊m²/2⌋ per other row."""
    patterns = np.array(list(product((-1, 0, 1), repeat=attributes)))
    first, second = np.triu_indices(attributes, k=1)
    products = patterns[:, first] * patterns[:, second]
    worst = int(np.abs(products[:, None, :] - products[None, :, :]).sum(axis=2).max())
    rows = sealed(np.zeros((3, attributes), dtype=np.int64), bytes(16))
    assert worst == attributes**2 // 2
    assert kendall_sums(rows, 11).l1 == worst * 10


@given(neighbours())
def test_kendall_sums_count_pairs_exactly_with_ties(pair: tuple[Table, Table, bytes]) -> None:
    _, table, key = pair
    assert open_counts(kendall_sums(sealed(table, key), 1000)).tolist() == brute_force(table)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=40))
def test_tables_and_inversions_agree(points: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, dtype=np.int64) for column in zip(*points, strict=True))
    expected = brute_force(np.array(points))[0]
    assert concordance(x, 41, y, 41) == concordance(x, 10**9, y, 10**9) == expected
    assert inversions(y) == sum(y[i] > y[j] for i, j in combinations(range(len(y)), 2))


@given(neighbours())
def test_hashes_of_rows_do_not_depend_on_other_rows_or_on_order(pair: tuple[Table, Table, bytes]) -> None:
    """The hashed rows of the larger table are those of the smaller one and a single one more."""
    less, more, key = pair

    def entries(table: Table) -> list[tuple[int, ...]]:
        columns, hashes = open_rows(sealed(table, key))
        return [(int(h), *row) for h, row in zip(hashes, zip(*(c.tolist() for c in columns), strict=True), strict=True)]

    smaller, larger = entries(less), entries(more)
    assert larger == sorted(larger)
    for entry in smaller:
        larger.remove(entry)
    assert len(larger) == 1


@given(neighbours(), st.integers(1, 12))
def test_one_row_changes_one_block(pair: tuple[Table, Table, bytes], blocks: int) -> None:
    less, more, key = pair
    scores = [np.array([-1.2, -0.3, 0.3, 1.2])] * less.shape[1]
    a = block_correlations(sealed(less, key), scores, blocks)
    b = block_correlations(sealed(more, key), scores, blocks)
    assert moved(a, b) <= a.l1 == b.l1


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-4, 4), st.floats(-4, 4)), min_size=1, max_size=20))
def test_likeliest_correlation_is_a_stationary_point(points: list[tuple[float, float]]) -> None:
    x, y = (np.array(column) for column in zip(*points, strict=True))
    xy, squares = (x * y).mean(keepdims=True), (x * x + y * y).mean(keepdims=True)
    rho = likeliest_correlation(xy, squares)
    slope = rho**3 - xy * rho**2 + (squares - 1) * rho - xy
    assert -1 <= rho[0] <= 1
    assert abs(slope[0]) < 1e-4 or squares[0] == 0


@given(neighbours())
def test_pair_tables_predictions_and_range_errors_keep_their_bounds(pair: tuple[Table, Table, bytes]) -> None:
    less, more, key = pair
    attributes = less.shape[1]
    edges = [(0, k) for k in range(1, attributes)]
    labels = [np.array([0, 0, 1, 2])] * attributes
    tables = [pair_tables(sealed(table, key), labels, 3, edges) for table in (less, more)]
    assert moved(*tables) <= tables[0].l1 == attributes - 1
    prediction = np.linspace(0, 3, 9 * len(edges))
    a, b = (prediction_scores(table, [prediction, None], [Fraction(0), Fraction(7)]) for table in tables)
    assert np.abs(open_scores(a) - open_scores(b)).max() <= a.sensitivity
    low = np.zeros((3, attributes), dtype=np.int64)
    high = np.full((3, attributes), 3)
    answers = np.array([0.0, 1.5, 4.0])
    c, d = (range_error(sealed(table, key), low, high, answers) for table in (less, more))
    assert moved(c, d) <= c.l1 == 3


@given(neighbours())
def test_distances_of_tables_keep_their_bound_and_reach_it(pair: tuple[Table, Table, bytes]) -> None:
    less, more, key = pair
    scopes: list[tuple[int, ...]] = [(0,), *((0, k) for k in range(1, less.shape[1]))]
    labels = [np.arange(DOMAIN)] * less.shape[1]
    for near, tight in ((1.5, False), (0.0, True)):
        public = [np.full(DOMAIN ** len(scope), near) for scope in scopes]
        a, b = (table_distances(marginal_counts(sealed(rows, key), labels, scopes), public) for rows in (less, more))
        assert moved(a, b) <= a.l1 == len(scopes)
        # With nothing expected, the row adds 1 to every distance.
        assert not tight or moved(a, b) == a.l1


@given(neighbours())
def test_no_neighbour_moves_the_mean_dependence_by_more_than_its_sensitivity(pair: tuple[Table, Table, bytes]) -> None:
    less, more, key = pair
    a, b = (mean_dependence(sealed(table, key)) for table in (less, more))
    assert moved(a, b) <= a.l1 == 2
    apart = [
        np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(more)).sum() / 2
        for j, k in combinations(range(more.shape[1]), 2)
        for counts in [np.histogram2d(more[:, j], more[:, k], bins=[np.arange(DOMAIN + 1)] * 2)[0]]
    ]
    assert open_counts(b)[0] / (1 << b.grid) == pytest.approx(np.mean(apart), abs=1 / (1 << b.grid))


def test_the_sensitivity_of_the_mean_dependence_is_reached_in_the_limit() -> None:
    """Two lonely values beside many rows of one: the sum of their table and its distance to independence grow by 2."""
    many = np.zeros((5000, 2), dtype=np.int64)
    a, b = (mean_dependence(sealed(np.vstack([many, *[[[1, 1]]] * count]), bytes(16))) for count in (0, 1))
    assert 1.99 < moved(a, b) <= 2
    wide = np.column_stack([np.arange(100), np.arange(100)])
    assert moved(mean_dependence(sealed(wide[:0], bytes(16), 100)), mean_dependence(sealed(wide, bytes(16), 100))) > 85


def test_bad_public_sizes_are_refused() -> None:
    rows = sealed(np.array([[0, 1], [1, 0]]), bytes(16))
    with pytest.raises(InvalidInputError, match="sample_size 1"):
        kendall_sums(rows, 1)
    with pytest.raises(InvalidInputError, match="blocks 0"):
        block_correlations(rows, [np.zeros(4)] * 2, 0)
    with pytest.raises(InvalidInputError, match="at least 2"):
        kendall_sums(rows.project([0]), 10)
    with pytest.raises(InvalidInputError, match="at least 2"):
        mean_dependence(rows.project([0]))
