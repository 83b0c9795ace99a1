"""Bounding of rows with values: a person's part of the sums is bounded, and is a function of their own rows alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.data import read_events
from veilstream.data.bounding import bound, valued
from veilstream.data.bounding.choice import Limit, Rows
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.runs import join
from veilstream.data.bounding.valued import choose_valued, fold, with_copies
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import GRID, ONE
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts

from .support import CALENDAR, DOMAIN, KEY

Row = tuple[int, int, int, float]
MEAN = ValueMeasures.of({"mean": {"fare": (0, 100)}})
SUM = ValueMeasures.of({"sum": {"fare": (-40, 100)}})
FARE = {"fare": (0, 50)}
MEASURES = {
    "mean": MEAN,
    "sum": SUM,
    "variance": ValueMeasures.of({"variance": FARE}),
    "cells": ValueMeasures.of({"quantiles": FARE}),
    "both": ValueMeasures.of({"quantiles": FARE, "mean": FARE}),
}

rows_of_people = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.0, 7.0, 55.5, 100.0])),
    max_size=40,
)


def snapshots(rows: list[Row], measures: ValueMeasures, **options: Any) -> list[Sealed]:
    source = {name: [row[i] for row in rows] for i, name in enumerate(("user", "time", "bin", "fare"))}
    events = read_events(source, user="user", time="time", by=["bin", "fare"])
    with bound(events, DOMAIN, CALENDAR, key=KEY, measures=measures, **options) as held:
        return list(held.snapshots())


def sums(rows: list[Row], measures: ValueMeasures, **options: Any) -> NDArray[np.int64]:
    return np.array([open_counts(step) for step in snapshots(rows, measures, **options)])


@settings(max_examples=60, deadline=None)
@given(
    rows_of_people,
    rows_of_people,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["mean", "sum", "variance", "cells", "both"]),
)
def test_one_person_moves_a_step_by_no_more_than_was_sealed(
    others: list[Row], own: list[Row], rows: int, bins: int, kind: str
) -> None:
    measures = MEASURES[kind]
    most = Fraction(130) if kind == "sum" else None
    limits: dict[str, Any] = {"counts_per_user": rows, "bins_per_user": bins, "most": most}
    without = [row for row in others if row[0] != 9]
    mine = [(9, *row[1:]) for row in own]
    apart = np.abs(sums([*without, *mine], measures, **limits) - sums(without, measures, **limits))
    sealed = snapshots(without, measures, **limits)[0]
    assert sealed.grid == GRID
    assert (apart.sum(axis=1) <= sealed.l1 * ONE).all()
    assert (np.sqrt((apart.astype(np.float64) ** 2).sum(axis=1)) <= float(sealed.l2) * ONE + 1e-6).all()


@settings(max_examples=30, deadline=None)
@given(rows_of_people, st.lists(st.booleans(), min_size=40, max_size=40), st.integers(1, 3), st.integers(1, 3))
def test_rows_folded_in_parts_choose_what_all_rows_choose(
    people: list[Row], first: list[bool], bins: int, counts: int
) -> None:
    who, step, place, fare = (np.array([row[i] for row in people], dtype=np.int64) for i in range(4))
    rows = Rows(who, None, step * 5 + place, (fare.astype(np.int32),))
    key, limit, part = KeyedHash(bytes(16)), Limit(bins, counts), np.array(first[: len(people)], dtype=np.bool_)
    parts = [fold(rows.where(part), 5, limit, key), with_copies(rows.where(~part))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(valued, "COPIES_AT_ONCE", 3)
        folded = choose_valued(join(parts), 5, limit, key, folded=True)
    cells, values = choose_valued(rows, 5, limit, key)
    assert sorted(zip(folded[0], folded[1][0], strict=True)) == sorted(zip(cells, values[0], strict=True))


@settings(max_examples=30, deadline=None)
@given(rows_of_people, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Row], order: Any) -> None:
    mixed = list(rows)
    order.shuffle(mixed)
    assert np.array_equal(sums(rows, MEAN, counts_per_user=2), sums(mixed, MEAN, counts_per_user=2))


def test_everybody_below_the_limits_counts_in_full() -> None:
    rows = [(person, step, person % 5, 10.0 * person) for person in range(4) for step in range(4)]
    found = sums(rows, SUM)
    assert found.sum(axis=1).tolist() == [round(0.6 * ONE)] * 4


def test_rows_beyond_memory_are_summed_alike() -> None:
    rows = [(i % 50, i % 4, i % 5, float(i % 97)) for i in range(500)]
    limits: dict[str, Any] = {"counts_per_user": 3, "bins_per_user": 2}
    assert np.array_equal(sums(rows, MEAN, **limits), sums(rows, MEAN, memory_bytes=1, **limits))


def test_people_who_count_in_few_steps_are_measured_in_few_steps() -> None:
    rows = [(1, step, 0, 100.0) for step in range(4)]
    found = sums(rows, MEAN, presence=Guarantee(1, w=None, presence=2))
    assert found.sum(axis=1).tolist() == [ONE, ONE, 0, 0]


def test_rows_without_a_value_are_refused_or_left_out() -> None:
    rows = [(1, 0, 0, float("nan")), (2, 0, 0, 50.0)]
    with pytest.raises(InvalidInputError) as refused:
        sums(rows, MEAN)
    assert refused.value.name == "fare"
    assert sums(rows, MEAN, missing_value="drop")[0].sum() == ONE
