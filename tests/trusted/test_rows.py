"""Rows of a table: their parts are charged in parallel only where they are disjoint."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable, ordered_rows

ONE = Fraction(1)


def table(partition: tuple[int, ...] = (0,)) -> SealedTable:
    columns = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([2, 0, 1, 1])]
    return SealedTable(ordered_rows(columns, np.arange(4, dtype=np.uint64), (2, 2, 3), 0), partition, spare=0)


def meter(w: int = 1) -> Meter:
    return Meter(Accountant(Guarantee(1, w=w), 64), NoNoise(), 0)


@pytest.mark.parametrize("partition", [(0,), (1,), (0, 1), (2,)])
def test_parts_of_the_chosen_partition_are_charged_in_parallel(partition: tuple[int, ...]) -> None:
    asking = meter()
    parts = table(partition).rows.parts(partition)
    for part in parts:
        asking.laplace(part.margin(2), ONE, "margin")
    assert [part.bins.tolist() for part in parts if part.bins is not None] == [[n] for n in range(len(parts))]
    assert asking.left == 0


@pytest.mark.parametrize("other", [(1,), (0, 1), (1, 0), (2,), ()])
def test_parts_of_two_partitions_are_not_charged_in_parallel(other: tuple[int, ...]) -> None:
    """A row lies in a part of each: the first part of one and the last of the other may hold the same person."""
    asking, rows = meter(), table((0,)).rows
    asking.laplace(rows.parts((0,))[0].margin(2), ONE, "margin")
    for part in rows.parts(other):
        with pytest.raises(BudgetExceededError):
            asking.laplace(part.margin(2), Fraction(1, 1000), "margin")


def test_a_part_of_a_part_is_charged_like_the_part_it_comes_from() -> None:
    asking, rows = meter(), table((0,)).rows
    first, second = rows.parts((0,))
    inner = first.parts((1,))
    asking.laplace(inner[0].margin(2), ONE, "margin")
    for part in (first, inner[1], first.project([1, 2]), first.project([1, 2]).parts((0,))[1]):
        with pytest.raises(BudgetExceededError):
            asking.laplace(part.margin(1), Fraction(1, 1000), "margin")
    asking.laplace(second.parts((0,))[1].margin(2), ONE, "margin")


def test_projected_rows_name_no_parts() -> None:
    """Attributes have other numbers there: the first of the projection is not the first of the table."""
    rows = table((0,)).rows.project([1, 0, 2])
    assert [part.bins for part in rows.parts((0,))] == [None, None]


def test_a_partition_is_chosen_once() -> None:
    rows = table((0,)).rows
    assert SealedTable(rows, (0,), spare=3).rows.partition == (0,)
    for wanted in (rows, rows.project([0, 1]), rows.parts((0,))[1]):
        with pytest.raises(InvalidInputError, match="partition"):
            SealedTable(wanted, (1,), spare=0)


def test_rows_without_a_partition_name_no_parts() -> None:
    rows = ordered_rows([np.array([0, 1])], np.arange(2, dtype=np.uint64), (2,), 0)
    assert [part.bins for part in rows.parts((0,))] == [None, None]
    assert isinstance(rows.parts(())[0], SealedRows)
    assert rows.partitioned(()).parts(())[0].bins is None


def test_under_a_window_parts_are_charged_together() -> None:
    asking, parts = meter(w=2), table((0,)).rows.parts((0,))
    asking.laplace(parts[0].margin(2), ONE, "margin")
    with pytest.raises(BudgetExceededError):
        asking.laplace(parts[1].margin(2), Fraction(1, 1000), "margin")
