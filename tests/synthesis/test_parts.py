"""The pieces of a model: margins on the simplex, correlation matrices, tables of copulas, sealed rows."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 (to show that it is refused)

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import multivariate_t, norm

from veilstream.data import Categories, Edges, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.errors import InvalidDomainError, SealedAccessError, UnknownValueError
from veilstream.synthesis import TableDomain, read_rows
from veilstream.synthesis.bivariate import (
    latent_correlation,
    normal_cumulative,
    pair_probabilities,
    tau_of_table,
)
from veilstream.synthesis.correlation import matrix_of, repaired
from veilstream.synthesis.layout import Layout, Part
from veilstream.synthesis.tree import consistent, spanning_tree
from veilstream.trusted.opening import open_counts, open_rows
from veilstream.values.projection import onto_simplex


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e4, 1e4)), st.floats(0, 1e5))
def test_projection_is_the_nearest_point_of_the_simplex(values: np.ndarray, total: float) -> None:
    found = onto_simplex(values, total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, abs=1e-6)
    # No other point of the simplex is nearer: the angle to each corner is not acute.
    corners = total * np.eye(values.size)
    assert (((values - found) * (corners - found)).sum(axis=1) <= 1e-3 * (1 + total)).all()


@given(st.integers(2, 7), st.data())
def test_a_repaired_matrix_is_a_correlation_matrix(attributes: int, data: st.DataObject) -> None:
    pairs = attributes * (attributes - 1) // 2
    upper = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=pairs, max_size=pairs)))
    fixed = repaired(matrix_of(upper, attributes))
    assert np.allclose(fixed.diagonal(), 1)
    assert np.array_equal(fixed, fixed.T)
    assert np.abs(fixed).max() <= 1 + 1e-12
    assert np.isfinite(np.linalg.cholesky(fixed)).all()


def test_a_good_matrix_is_left_alone() -> None:
    good = matrix_of(np.array([0.3, -0.2, 0.5]), 3)
    assert repaired(good) is good


@pytest.mark.parametrize("rho", [-0.95, -0.4, 0.0, 0.7, 0.99])
def test_normal_tables_are_the_integral(rho: float) -> None:
    """SciPy's own law of two variables is computed by sampling, to fewer digits."""
    a = np.array([-2.0, -0.5, 0.0, 1.3])

    def below(x: float, y: float) -> float:
        found = quad(lambda u: norm.pdf(u) * norm.cdf((y - rho * u) / np.sqrt(1 - rho * rho)), -12, x, limit=200)
        return float(found[0])

    expected = [[below(x, y) for y in a] for x in a]
    assert np.allclose(normal_cumulative(a, a, rho), expected, atol=2e-6)


def test_t_tables_agree_with_scipy() -> None:
    p = np.full(4, 0.25)
    table = pair_probabilities(p, p, 0.5, nu=3)
    law = multivariate_t(loc=[0, 0], shape=[[1, 0.5], [0.5, 1]], df=3, seed=1)
    assert table.sum() == pytest.approx(1)
    edge = -0.7648923284
    assert table[0, 0] == pytest.approx(float(law.cdf(np.array([edge, edge]))), abs=3e-3)


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.2, 0.6, 0.9])
@pytest.mark.parametrize("values", [(2, 2), (2, 300), (5, 12), (40, 300)])
def test_latent_correlation_undoes_ties(rho: float, values: tuple[int, int]) -> None:
    """From the exact τ-a of a table under a normal copula its correlation comes back, few values or many."""
    p, q = (np.linspace(1, 3, count) / np.linspace(1, 3, count).sum() for count in values)
    tau = tau_of_table(pair_probabilities(p, q, rho))
    assert latent_correlation(tau, p, q) == pytest.approx(rho, abs=0.03)


def test_a_constant_column_depends_on_nothing() -> None:
    assert latent_correlation(0.3, np.array([1.0, 0.0]), np.array([0.5, 0.5])) == 0


def test_trees_join_all_attributes_and_tables_keep_margins() -> None:
    rng = np.random.default_rng(1)  # noqa: TID251
    matrix = repaired(matrix_of(rng.uniform(-1, 1, 15), 6))
    edges = spanning_tree(matrix)
    assert sorted(child for _, child in edges) == [1, 2, 3, 4, 5]
    row, column = np.array([0.2, 0.8, 0.0]), np.array([0.5, 0.25, 0.25])
    table = consistent(rng.normal(10, 30, (3, 3)), row, column)
    assert np.allclose(table.sum(axis=1), row, atol=1e-6)
    assert np.allclose(table.sum(axis=0), column, atol=1e-6)


def test_layouts_unpack_what_they_pack() -> None:
    layout = Layout((2, 5, 3, 4), split=(0,), groups=2)
    rng = np.random.default_rng(1)  # noqa: TID251
    parts = [
        Part(tuple(rng.random(n) for n in (5, 3, 4)), rng.random(3), float(kind), rng.random(8)) for kind in (0, -1)
    ]
    sizes, found = layout.unpack(layout.pack(np.array([3.0, 4.0]), parts))
    assert sizes.tolist() == [3, 4]
    for part, again in zip(parts, found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(part.margins, again.margins, strict=True))
        assert np.array_equal(part.correlations, again.correlations)
        assert part.kind == again.kind
        assert np.array_equal(part.tables, again.tables)


def test_vectors_of_tables_count_each_row_as_often_as_their_l1_says() -> None:
    layout = Layout((2, 3, 4), split=(0,))
    domain = TableDomain({name: Categories(range(n)) for name, n in zip("abc", (2, 3, 4), strict=True)})
    base = {"a": [0, 1, 1], "b": [2, 0, 1], "c": [3, 3, 0]}
    more = {"a": [0, 1, 1, 0], "b": [2, 0, 1, 1], "c": [3, 3, 0, 2]}
    x, y = (layout.seal(read_rows(table, domain)) for table in (base, more))
    assert x.size == layout.size
    assert np.abs(open_counts(x) - open_counts(y)).sum() == x.l1 == 3


def test_rows_of_one_person_are_bounded() -> None:
    domain = TableDomain({"a": Categories(["x", "y"])})
    table = {"a": ["x", "y", "x", "y", "x", "x"], "id": ["1", "1", "1", "2", "2", None]}
    kept = [len(open_rows(read_rows(table, domain, user="id", rows_per_user=k))[1]) for k in (1, 2, 3)]
    assert kept == [2, 4, 5]
    assert read_rows(table, domain, user="id", rows_per_user=3).l1 == 3


def test_every_kind_of_table_gives_the_same_rows() -> None:
    domain = TableDomain({"age": Edges([0, 18, 65, 120]), "place": Categories(["a", "b"])})
    data = {"age": [3, 70, 20, 20], "place": ["a", "b", "b", "b"]}
    key = Key(bytes(16))
    frames = [data, pl.DataFrame(data), pd.DataFrame(data), pl.DataFrame(data).to_arrow(), pl.LazyFrame(data)]
    found = [open_rows(read_rows(frame, domain, key=key)) for frame in frames]
    assert len(found[1:]) > 0
    for columns, hashes in found[1:]:
        assert np.array_equal(hashes, found[0][1])
        assert all(np.array_equal(a, b) for a, b in zip(columns, found[0][0], strict=True))


def test_values_outside_the_domain_are_refused_or_dropped() -> None:
    domain = TableDomain({"age": Grid(0, 10, 10)})
    with pytest.raises(UnknownValueError, match="attribute 'age'"):
        read_rows({"age": [1, 77]}, domain)
    assert len(open_rows(read_rows({"age": [1, 77]}, domain, unknown="drop"))[1]) == 1
    with pytest.raises(InvalidDomainError, match="0 attributes"):
        TableDomain({})


def test_sealed_rows_cannot_be_read_copied_or_printed() -> None:
    rows = read_rows({"age": [7654321 % 10, 3]}, TableDomain({"age": Grid(0, 10, 10)}))
    for read in (len, list, pickle.dumps, copy.deepcopy, bool, np.asarray):
        with pytest.raises(SealedAccessError):
            read(rows)
    assert repr(rows) == "SealedRows(shape=10, span=0..0, l1=1)"


def test_drawn_numbers_lie_in_their_bins() -> None:
    domain = TableDomain({"whole": Edges([0, 5, 10]), "real": Grid(0, 1, 4), "flag": Categories([True, False])})
    codes = [np.array([0, 1]), np.array([0, 3]), np.array([1, 0])]
    frame = domain.values(codes, [np.array([0.999, 0.999]), np.array([0.0, 0.5]), np.zeros(2)])
    assert frame["whole"].to_list() == [4, 10]
    assert frame["real"].to_list() == [0.0, 0.875]
    assert frame["flag"].to_list() == [False, True]
    again = domain.columns(frame)
    assert all(np.array_equal(a, b) for a, b in zip(again, codes, strict=True))


@pytest.mark.parametrize("bins", [2, 5, 400])
def test_correlations_of_many_runs_are_those_of_each(bins: int) -> None:
    """Margins are public by then, so that runs which share them can go together, to the last bit."""
    p = np.arange(1.0, bins + 1) / np.arange(1.0, bins + 1).sum()
    taus = np.linspace(-0.9, 0.9, 7)
    together = latent_correlation(taus, p, p[::-1])
    assert together.tolist() == [float(latent_correlation(tau, p, p[::-1])) for tau in taus.tolist()]
