"""Public bins: encoding, names, JSON, ranges and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data import Axis, Categories, Domain, Edges, Grid
from veilstream.errors import InvalidDomainError, InvalidInputError

SPEC = {
    "place": ["a", "b"],
    "age": {"edges": [0, 18, 65, 120]},
    "lon": {"low": 116.0, "high": 117.0, "cells": 4},
}


def test_json_round_trip_from_value_and_file(tmp_path: Path) -> None:
    domain = Domain.from_json(SPEC)
    assert (domain.names, domain.shape, domain.bins) == (("place", "age", "lon"), (2, 3, 4), 24)
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(domain.to_json()))
    again = Domain.from_json(path)
    assert again == domain == Domain.from_json(str(path))
    assert hash(again) == hash(domain)
    assert again.fingerprint() == domain.fingerprint()


def test_the_fingerprint_knows_order_names_and_types_but_not_spelling() -> None:
    base = Domain.from_json(SPEC)
    assert base.fingerprint() == Domain.from_json({**SPEC, "age": {"edges": [0.0, 18.0, 65, 120]}}).fingerprint()
    others = [
        Domain.from_json(dict(reversed(SPEC.items()))),
        Domain.from_json({**SPEC, "place": ["b", "a"]}),
        Domain({"x": Categories(["1", "2"])}),
        Domain({"x": Categories([1, 2])}),
        Domain({"y": Categories([1, 2])}),
        Domain({}),
    ]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == len(others) + 1
    # Ledgers keep fingerprints, so this one may never change.
    assert Domain({"a": Categories(["x"])}).fingerprint().startswith("05fafc11bada907a")


def test_flat_ids_match_the_labels() -> None:
    domain = Domain.from_json(SPEC)
    frame = pl.DataFrame({"place": ["a", "b", "b"], "age": [17.9, 65, 120], "lon": [116.0, 116.5, 117.0]})
    flat = domain.encode(frame)
    assert flat.tolist() == [0, 12 + 8 + 2, 23]
    labels = domain.labels()
    assert labels.shape == (24, 3)
    assert labels.row(int(flat[1])) == ("b", "[65, 120]", "[116.5, 116.75)")
    assert Domain({"n": Categories([3, 1])}).labels()["n"].to_list() == [3, 1]


@pytest.mark.parametrize(
    ("values", "column", "codes"),
    [
        (["a", "b"], pl.Series(["b", None, "c", "A"]), [1, -1, -1, -1]),
        (["a", "b"], pl.Series(["b", "z"], dtype=pl.Categorical), [1, -1]),
        (["1", "2"], pl.Series([2, 3, 1]), [1, -1, 0]),
        ([10, -5], pl.Series([10, -5, 0, None, 2**40]), [0, 1, -1, -1, -1]),
        ([10, -5], pl.Series(["10", "-5", "x", "10.5"]), [0, 1, -1, -1]),
        ([10, -5], pl.Series([10.0, 10.5, float("nan"), None]), [0, -1, -1, -1]),
        ([0, 2**62], pl.Series([2**62, 0, 1]), [1, 0, -1]),
        ([0, 1], pl.Series([True, False]), [-1, -1]),
        ([False, True], pl.Series([True, False, None]), [1, 0, -1]),
        ([True], pl.Series(["true", "False", "maybe"]), [0, -1, -1]),
    ],
)
def test_categories(values: list[Any], column: pl.Series, codes: list[int]) -> None:
    assert Categories(values).encode(column).tolist() == codes


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8, unique=True), st.floats(-120, 120))
@settings(deadline=None)
def test_edges_are_half_open_and_the_last_is_closed(edges: list[float], x: float) -> None:
    axis = Edges(sorted(edges))
    expected = [
        i
        for i in range(axis.bins)
        if axis.edges[i] <= x < axis.edges[i + 1] or (x == axis.edges[-1] and i == axis.bins - 1)
    ]
    assert axis.encode(pl.Series([x])).tolist() == (expected or [-1])


@given(st.floats(-50, 50), st.floats(0.001, 100), st.integers(1, 3000), st.floats(0, 1))
@settings(deadline=None)
def test_a_grid_holds_all_between_its_ends(low: float, width: float, cells: int, share: float) -> None:
    grid = Grid(low, low + width, cells)
    x = min(low + share * width, grid.high)
    cell = int(grid.encode(pl.Series([x]))[0])
    bounds, slack = grid.bounds(), 1e-9 * max(1.0, abs(low) + width)
    assert bounds[cell] - slack <= x <= bounds[cell + 1] + slack
    outside = pl.Series([low - 1, grid.high + 1, float("nan"), None])
    assert grid.encode(outside).tolist() == [-1] * 4


def test_edges_read_text_and_refuse_what_is_no_number() -> None:
    assert Edges([0, 1]).encode(pl.Series(["0.5", "x", "", None, "nan", "inf"])).tolist() == [0] + [-1] * 5


@given(st.data())
@settings(deadline=None, max_examples=50)
def test_a_range_is_the_sum_of_its_box(data: st.DataObject) -> None:
    domain = Domain.from_json(SPEC)
    values = np.arange(24) ** 2
    places = data.draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, unique=True))
    first, last = sorted(data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=2, unique=True)))
    edges = [0, 18, 65, 120]
    query = domain.range(place=places, age=(edges[first], edges[last]))
    expected = sum(
        values[p * 12 + a * 4 + c] for p in range(2) if "ab"[p] in places for a in range(first, last) for c in range(4)
    )
    assert query.answer(values) == expected
    assert values[query.flat_bins()].sum() == expected
    assert query.size == len(query.flat_bins())


def test_ranges_say_what_is_wrong() -> None:
    domain = Domain.from_json(SPEC)
    assert domain.range().answer(np.ones(24)) == 24
    assert domain.range(place="a", lon=(116.25, 116.75)).size == 6
    assert Domain({}).range().answer([5]) == 5
    assert Domain({}).range().flat_bins().tolist() == [0]
    with pytest.raises(InvalidInputError, match="20 is not an edge, the nearest are 0 and 18"):
        domain.range(age=(20, 65))
    for bad in ({"age": (65, 18)}, {"age": 18}, {"place": ["z"]}, {"sex": "f"}, {"lon": (116.1, 117)}):
        with pytest.raises(InvalidInputError, match="nothing was released"):
            domain.range(**bad)
    with pytest.raises(InvalidInputError, match="24 bins"):
        domain.range().answer([1, 2])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categories([]),
        lambda: Categories(["a", "a"]),
        lambda: Categories(["a", 1]),
        lambda: Categories([1, True]),
        lambda: Categories(cast("list[int]", [1.5])),
        lambda: Categories([2**63]),
        lambda: Edges([1]),
        lambda: Edges([0, 2, 1]),
        lambda: Edges([0, float("inf")]),
        lambda: Edges([0, float("nan")]),
        lambda: Grid(1, 0, 3),
        lambda: Grid(0, 1, 0),
        lambda: Grid(0, float("nan"), 3),
        lambda: Domain({"x": Grid(0, 1, 10_000), "y": Grid(0, 1, 1001)}),
        lambda: Domain.from_json({"x": {"edges": ["a", "b"]}}),
        lambda: Domain.from_json({"x": {"edges": 3}}),
        lambda: Domain.from_json({"x": {"low": 0, "high": "b", "cells": 2}}),
        lambda: Domain.from_json({"x": {"step": 1}}),
        lambda: Domain.from_json({"x": "a"}),
        lambda: Domain.from_json("/no/such/file.json"),
    ],
)
def test_bad_domains_are_refused(make: Any) -> None:
    with pytest.raises(InvalidDomainError, match="nothing was released"):
        make()


def test_bad_domain_files(tmp_path: Path) -> None:
    path = tmp_path / "domain.json"
    for text in ("{", "[1, 2]", '"a"'):
        path.write_text(text)
        with pytest.raises(InvalidDomainError, match="nothing was released"):
            Domain.from_json(path)


def test_the_largest_domain_and_its_limit() -> None:
    axes: dict[str, Axis] = {"x": Grid(0, 1, 10_000), "y": Grid(0, 1, 1000)}
    assert Domain(axes).encode({"x": [1.0], "y": [1.0]}).tolist() == [9_999_999]


def test_learning_from_public_data() -> None:
    frame = pl.DataFrame({"place": ["b", "a", None], "n": [2, 1, 2], "x": [0.5, 0.1, 0.2]})
    domain = Domain.from_public_data(frame, ["place", "n", "x"], {"x": Grid(0, 1, 2)})
    assert domain.to_json() == {"place": ["a", "b"], "n": [1, 2], "x": {"low": 0, "high": 1, "cells": 2}}
    with pytest.raises(InvalidDomainError, match="edges or a grid"):
        Domain.from_public_data(frame, ["x"])


def test_repr_is_public_and_short() -> None:
    assert repr(Domain.from_json(SPEC)) == "Domain(place[2] x age[3] x lon[4])"
    assert repr(Domain({})) == "Domain(total)"
