"""Cells of quantiles: public edges, parts that add up to one row, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.data.cells import CellColumn, best_group
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.data.values import MISSING_VALUE, ONE
from veilstream.errors import InvalidInputError
from veilstream.values.choices import MOST_CELLS

MINUTES = {"minutes": (0, 60)}


@pytest.mark.parametrize("cells", [2, 20, 64, 100, 1000])
def test_a_row_moves_the_parts_by_one_and_less_in_the_other_norm(cells: int) -> None:
    column = CellColumn.even("minutes", Fraction(0), Fraction(60), cells)
    places = column.places(pl.Series([0.0, 31.7, 60.0]))
    for place in places:
        moved = column.sums(np.array([0]), np.array([place]), 1)[0]
        assert moved.shape == (column.parts,)
        assert moved.sum() == ONE
        assert np.sqrt(float((moved.astype(np.float64) ** 2).sum())) <= float(column.norm) * ONE


def test_values_beyond_the_edges_count_at_the_ends_and_missing_ones_nowhere() -> None:
    column = CellColumn.between_edges("minutes", (0, "0.5", 10, 60))
    numbers = pl.Series([-1.0, 0.0, 0.5, 9.9, 10.0, float("inf"), float("-inf"), float("nan"), None])
    assert column.places(numbers).tolist() == [0, 0, 1, 1, 2, 2, 0, MISSING_VALUE, MISSING_VALUE]
    sums = column.sums(np.zeros(9, dtype=np.int64), column.places(numbers), 2)
    assert (sums / ONE).tolist() == [[3, 2, 2], [0, 0, 0]]


@pytest.mark.parametrize("edges", [(0,), (0, 1), (0, 1, 1), (3, 2, 1), (0, 1, "1e31"), range(MOST_CELLS + 2)])
def test_edges_that_make_no_cells_are_refused(edges: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        CellColumn.between_edges("minutes", tuple(edges))
    assert refused.value.name == "edges"


def test_groups_have_the_least_noise_of_their_kind() -> None:
    # The mean standard deviation of C_i − q·n over all cuts i, q = i/K, by least squares from parts of one noise each.
    def spread(cells: int, group: int) -> float:
        strategy = CellColumn("x", tuple(map(Fraction, range(cells + 1))), group).strategy()
        cuts = np.tril(np.ones((cells, cells))) - (np.arange(1, cells + 1) / cells)[:, None]
        return float(np.sqrt(np.einsum("ij,ji->i", cuts, np.linalg.solve(strategy.T @ strategy, cuts.T))).mean())

    for cells in (16, 32, 64, 128, 256):
        best = min(spread(cells, 1 << j) for j in range(cells.bit_length() - 1))
        assert spread(cells, best_group(cells)) < 1.05 * best, cells


def test_measures_of_quantiles_come_back_from_the_ledger() -> None:
    asked = ValueMeasures.of(
        {"count": MINUTES, "mean": MINUTES, "median": MINUTES, "quantiles": MINUTES},
        QuantileOptions((Fraction(3, 4), Fraction(1, 4)), edges=(0, 10, "20.5", 60)),
    )
    assert asked.labels == (
        "count minutes", "mean minutes", "median minutes", "quantile 0.25 minutes", "quantile 0.75 minutes",
    )  # fmt: skip
    assert ValueMeasures.from_json(asked.to_json()) == asked
    assert asked.names == ("minutes",)
    assert asked.movement(2)[0] == 4
    assert float(asked.movement(2)[1]) == pytest.approx(2 * float(asked.movement(1)[1]))


def test_the_number_of_rows_is_free_with_quantiles() -> None:
    asked = ValueMeasures.of({"count": MINUTES, "quantiles": MINUTES})
    assert [type(column) for column in asked.columns] == [CellColumn]
    assert asked.movement(1)[0] == 1


@pytest.mark.parametrize("share", [0, 1, Fraction(3, 2)])
def test_shares_lie_between_zero_and_one(share: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        QuantileOptions((Fraction(share),))
    assert refused.value.name == "at"
