"""Values on a public grid: what one row moves, and what is done with values that are missing, strange or outside."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilstream import STREAMS, Guarantee, Publisher
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.bounding.choice import Limit
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import MISSING_VALUE, ONE, ValueColumn
from veilstream.errors import InvalidInputError
from veilstream.spark.counting import Settings

FARE = {"fare": (0, 100)}


@given(
    st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=20),
    st.integers(-50, 50),
    st.integers(1, 100),
    st.sampled_from([1, 2, 3]),
)
def test_no_row_moves_the_parts_of_a_column_by_more_than_one(
    values: list[float], low: int, length: int, parts: int
) -> None:
    column = ValueColumn("x", Fraction(low), Fraction(low + length), parts)
    divided = column.parts_of(column.places(pl.Series(values, dtype=pl.Float64)))
    assert (np.abs(divided).sum(axis=1) <= ONE).all()
    if parts > 1:
        assert (divided >= 0).all()
        assert (divided.sum(axis=1) == ONE).all()


def test_parts_give_back_number_sum_and_squares() -> None:
    column = ValueColumn("x", Fraction(-10), Fraction(30), 3)
    values = np.array([-10.0, 0.0, 12.5, 30.0])
    u = (values + 10) / 40
    zero, one, two = column.parts_of(column.places(pl.Series(values))).T / ONE
    assert np.allclose(zero + one + two, 1)
    assert np.allclose(one / 2 + two, u, atol=2**-15)
    assert np.allclose(two, u**2, atol=2**-15)


def test_values_outside_the_range_and_infinities_count_as_its_ends() -> None:
    column = ValueColumn("fare", Fraction(0), Fraction(100), 2)
    places = column.places(pl.Series([-5.0, -np.inf, 100.0, 1e300, np.inf]))
    assert places.tolist() == [0, 0, ONE, ONE, ONE]


@pytest.mark.parametrize("missing", [pl.Series([None, np.nan, 50.0]), pl.Series(["", "NaN", " 50 "])])
def test_missing_values_are_in_no_part(missing: pl.Series) -> None:
    column = ValueColumn("fare", Fraction(0), Fraction(100), 2)
    places = column.places(missing)
    assert (places[:2] == MISSING_VALUE).all()
    assert column.parts_of(places).sum(axis=1).tolist() == [0, 0, ONE]


@pytest.mark.parametrize("strange", [pl.Series("fare", ["12", "twelve"]), pl.Series("fare", [True, False])])
def test_what_is_no_number_is_refused_without_saying_what_it_is(strange: pl.Series) -> None:
    with pytest.raises(InvalidInputError) as refused:
        ValueColumn("fare", Fraction(0), Fraction(100), 2).places(strange)
    assert refused.value.name == "fare"
    assert "twelve" not in str(refused.value)


def test_a_decimal_comma_is_told_apart() -> None:
    with pytest.raises(InvalidInputError) as refused:
        ValueColumn("fare", Fraction(0), Fraction(100), 2).places(pl.Series("fare", ["12,5"]))
    assert "--decimal" in str(refused.value.next_step)


@pytest.mark.parametrize("ends", [(5, 5), (7, 3), ("1e40", "1e41")])
def test_a_range_without_length_or_end_is_refused(ends: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        ValueMeasures.of({"mean": {"fare": ends}})
    assert refused.value.name == "between"


def test_several_columns_share_one_vector() -> None:
    asked = ValueMeasures.of({"mean": {"fare": (0, 100), "tip": (0, 20)}, "variance": {"tip": (0, 20)}})
    assert asked.parts == 5
    l1, l2 = asked.movement(2)
    assert l1 == 4
    assert 8 <= l2**2 < 8 + 1e-9


def test_two_ranges_of_one_column_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        ValueMeasures.of({"mean": FARE, "sum": {"fare": (0, 50)}})


def test_a_bound_on_the_sum_counts_where_it_is_tighter() -> None:
    sums = ValueMeasures.of({"sum": FARE})
    assert sums.movement(3, Fraction(1000))[0] == 3
    assert sums.movement(3, Fraction(150))[0] == Fraction(3, 2)


def test_measures_survive_the_ledgers_text() -> None:
    asked = ValueMeasures.of({"mean": {"fare": ("0.5", 100)}, "sum": {"tip": (-3, 20)}})
    assert ValueMeasures.from_json(asked.to_json(Fraction(5))) == asked
    assert ValueMeasures.from_json('{"kind": "values"}') is None


@pytest.mark.parametrize("statistic", ["mean", "variance", "quantiles", "count", "median"])
def test_a_bound_on_a_sum_is_refused_for_all_else(statistic: str) -> None:
    """Rows of value 0 add nothing to a sum and move a mean in full: the bound would understate the movement."""
    measures = ValueMeasures.of({"sum": {"tip": (0, 100)}, statistic: {"fare": (0, 100)}})
    events = read_events({"id": [1], "t": [0], "fare": [1.0], "tip": [1.0]}, user="id", time="t", by=["fare", "tip"])
    one, calendar = Domain({}), Calendar(0, 1, 1)
    refusing: list[Callable[[], object]] = [
        lambda: measures.movement(5, Fraction(5)),
        lambda: bound(events, one, calendar, measures=measures, most=Fraction(5)),
        lambda: Publisher(one, Guarantee(1, w=1), STREAMS["uniform"](), measures=measures, most=Fraction(5)),
        lambda: Settings(one, calendar, "id", "t", Limit(), measures=measures, most=Fraction(5)),
    ]
    for refused in refusing:
        with pytest.raises(InvalidInputError) as error:
            refused()
        assert error.value.name == "most_per_user"
