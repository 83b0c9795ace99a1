"""Counts aggregated before: every step comes out, and what cannot be a count is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilstream.data import Calendar, Categories, Domain, Dropped, read_counts
from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.trusted.opening import open_counts

DOMAIN = Domain({"place": Categories(["a", "b"]), "sick": Categories([False, True])})


def counts(source: Any, **given: Any) -> list[list[int]]:
    options: dict[str, Any] = {"calendar": Calendar(0, 3, 1), "max_contribution": 2} | given
    steps = list(read_counts(source, time="t", value="n", domain=DOMAIN, **options))
    assert {step.l1 for step in steps} == {options["max_contribution"]}
    assert [step.span.first for step in steps] == [options.get("first_t", 0) + i for i in range(3)]
    return [open_counts(step).tolist() for step in steps]


def rows(n: Any = (5, 7, 0)) -> dict[str, Any]:
    return {"t": [2, 0, 0], "place": ["a", "b", "a"], "sick": [True, False, True], "n": list(n)}


EXPECTED = [[0, 0, 7, 0], [0] * 4, [0, 5, 0, 0]]


def test_rows_in_any_order_become_steps(tmp_path: Path) -> None:
    frame = pl.DataFrame(rows())
    frame.write_csv(tmp_path / "counts.csv")
    frame.write_parquet(tmp_path / "counts.parquet")
    for source in (
        rows(),
        frame,
        tmp_path / "counts.csv",
        tmp_path / "counts.parquet",
        [frame[:1], frame[1:]],
    ):
        assert counts(source) == EXPECTED
    assert counts(rows([5.0, 7.0, 0.0])) == counts(rows(["5", "7.0", "0"])) == EXPECTED
    assert counts(rows(), first_t=9) == EXPECTED
    assert counts({name: [] for name in rows()}) == [[0] * 4] * 3


@pytest.mark.parametrize("absent", [None, "", "NaN", "n/a", float("nan")])
def test_rows_without_a_count_can_be_left_out_and_are_told_to_the_operator(absent: Any) -> None:
    numbers = ["5", absent, "0"] if isinstance(absent, str) else [5.0, absent, 0.0]
    dropped = Dropped()
    assert counts(rows(numbers), missing_value="drop", dropped=dropped) == [[0] * 4, [0] * 4, [0, 5, 0, 0]]
    assert dropped.missing_value == 1
    with pytest.raises(InvalidInputError, match="a count is missing") as refused:
        counts(rows(numbers))
    assert "--missing-value drop" in refused.value.next_step


def test_a_count_that_is_no_number_is_refused_all_the_same() -> None:
    with pytest.raises(InvalidInputError, match="not a number"):
        counts(rows(["5", "many", "0"]), missing_value="drop")


def test_a_missing_count_outside_the_range_of_time_is_nobodys_trouble() -> None:
    late = {**rows([5, 7, 0]), "t": [2, 0, 9], "n": [5, 7, None]}
    assert counts(late, unknown="drop") == EXPECTED


@pytest.mark.parametrize(
    "n",
    [
        [-1, 2, 3],
        [1.5, 2, 3],
        [float("nan"), 1, 1],
        [None, 1, 2],
        ["x", "1", "2"],
        ["-1", "1", "2"],
        ["1.5", "1", "2"],
        [True] * 3,
        [float("inf"), 1, 1],
        [1e300, 1.0, 1.0],
    ],
)
def test_what_is_no_count_is_refused(n: list[Any]) -> None:
    with pytest.raises(InvalidInputError, match="column 'n'"):
        counts(rows(n))


def test_a_bin_has_one_row_per_time() -> None:
    doubled = rows() | {"t": [0, 0, 0]}
    with pytest.raises(InvalidInputError, match="more than one row"):
        counts(doubled)


def test_unknown_rows_and_bad_bounds_are_refused() -> None:
    strange = rows() | {"place": ["a", "b", "z"]}
    with pytest.raises(UnknownValueError, match="attribute 'place'"):
        counts(strange)
    assert counts(strange, unknown="drop") == EXPECTED
    with pytest.raises(InvalidInputError, match="max_contribution 0"):
        counts(rows(), max_contribution=0)
