"""Spaces, their units, and what a metric guarantee says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from veilstream.errors import (
    BudgetExceededError,
    InvalidBudgetError,
    InvalidDomainError,
    InvalidInputError,
    UnknownValueError,
)
from veilstream.mechanisms.identity import describe
from veilstream.metric import Metric, MetricGuarantee, Space, cost_of_stay
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee

PLANE = Space((-3, 10), (5, 12))
NORMS: dict[Metric, Any] = {
    Metric.EUCLIDEAN: lambda v: math.sqrt(sum(part * part for part in v)),
    Metric.MANHATTAN: sum,
    Metric.MAXIMUM: max,
}

place = st.tuples(st.floats(-3, 5), st.floats(10, 12))


@given(place, place, st.sampled_from(list(Metric)), st.sampled_from([1.0, 1e-3, 1e-7, 1e-9]))
@settings(max_examples=300, deadline=None)
def test_coordinates_move_no_farther_than_the_reach_says(
    one: tuple[float, float], other: tuple[float, float], metric: Metric, nearer: float
) -> None:
    two = [a + (b - a) * nearer for a, b in zip(one, other, strict=True)]
    two = np.clip(two, [-3, 10], [5, 12]).tolist()
    moved = [abs(Fraction(a) - Fraction(b)) for a, b in zip(one, two, strict=True)]
    distance = Fraction(NORMS[metric](moved)) * (1 + Fraction(1, 1 << 50))
    assume(distance > 0)
    space = Space((-3, 10), (5, 12), metric)
    gap = np.abs(np.diff(space.encode([one, two]), axis=0))[0].tolist()
    assert NORMS[metric](gap) <= float(space.reach(distance)) + 1e-9


def test_a_longer_move_pays_for_each_part_of_it() -> None:
    guarantee = MetricGuarantee("1/2", "0.1", PLANE)
    assert [guarantee.cost(d) for d in (0, "0.1", "0.1001", 1)] == [0, Fraction(1, 2), 1, 5]
    assert guarantee.guarantee == Guarantee("1/2", None)
    words = guarantee.promise()
    assert "up to 0.1 (euclidean)" in words
    assert "Not protected: how many points there are" in words
    assert "every started 0.1" in words


@pytest.mark.parametrize("metric", list(Metric))
def test_a_distance_of_the_whole_space_is_the_standard_guarantee(metric: Metric) -> None:
    space = Space((-3, 10), (5, 12), metric)
    whole, more = (MetricGuarantee(1, distance, space) for distance in (space.diameter, 1000))
    assert whole.everywhere
    assert more.everywhere
    assert whole.reach == more.reach == math.ceil(NORMS[metric](space.sides))
    assert "the standard guarantee" in whole.promise()
    assert whole.cost(space.diameter) == 1
    assert not MetricGuarantee(1, "1.99", space).everywhere


def test_points_outside_are_refused_or_brought_to_the_boundary_and_never_quoted() -> None:
    secret = 98765.4321
    with pytest.raises(UnknownValueError) as error:
        PLANE.encode([[secret, 11.0]])
    assert "98765" not in str(error.value)
    assert PLANE.encode([[secret, 9.0]], clip=True).tolist() == [[PLANE.sides[0], 0]]
    assert PLANE.encode([[5.0, 12.0]]).tolist() == [list(PLANE.sides)]
    line = Space(0, 1)
    assert np.allclose(line.decode(line.encode([0.25, 1.0])[:, 0]), [0.25, 1.0], atol=1e-9)


@pytest.mark.parametrize(
    "points", [[[1.0]], [[math.nan, 11.0]], [[math.inf, 11.0]], [1.0, 11.0], np.zeros((2, 2, 2))], ids=str
)
def test_points_that_are_none_are_refused(points: Any) -> None:
    with pytest.raises(InvalidInputError):
        PLANE.encode(points, clip=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Space(1, 1),
        lambda: Space((0, 0), 1),
        lambda: Space((0,) * 4, (1,) * 4),
        lambda: Space(0, 1, "taxi"),
        lambda: Space(0, "many"),
        lambda: Space((0, 0), (1, "1e-12")),
    ],
)
def test_spaces_that_cannot_be_are_refused(make: Any) -> None:
    with pytest.raises(InvalidDomainError):
        make()


@pytest.mark.parametrize("distance", [0, -1, "near", math.nan])
def test_distances_that_cannot_be_are_refused(distance: Any) -> None:
    with pytest.raises(InvalidBudgetError):
        MetricGuarantee(1, distance, PLANE)
    with pytest.raises(InvalidBudgetError):
        MetricGuarantee(0, 1, PLANE)
    with pytest.raises(InvalidBudgetError):
        MetricGuarantee(1, 1, PLANE).cost(-1)


def test_the_record_of_a_guarantee_reads_back() -> None:
    guarantee = MetricGuarantee("1/3", "0.1", Space((-3, 10), (5, 12), "manhattan"))
    assert MetricGuarantee.from_record(json.loads(describe(guarantee))) == guarantee


def test_stays_in_time_cost_epsilon_per_started_window() -> None:
    guarantee = Guarantee("1/4", w=14)
    assert [cost_of_stay(guarantee, steps) for steps in (0, 1, 14, 15, 28, 29)] == [
        Fraction(n, 4) for n in (0, 1, 1, 2, 2, 3)
    ]
    assert cost_of_stay(Guarantee(1, None), 10**6) == 1
    with pytest.raises(InvalidBudgetError):
        cost_of_stay(guarantee, -1)


@given(st.integers(1, 6), st.lists(st.integers(0, 12), min_size=1, max_size=25))
@settings(max_examples=100, deadline=None)
def test_whatever_an_accountant_admits_a_stay_costs_no_more_than_said(w: int, wishes: list[int]) -> None:
    """Theorem 2 of the paper: windows of w steps within epsilon; a stay of n steps pays for n/w of them, rounded up."""
    guarantee = Guarantee(1, w=w)
    book = Accountant(guarantee, 1)
    spent: list[Fraction] = []
    for t, wish in enumerate(wishes):
        book.advance(t)
        charge = Charge(Fraction(wish, 8), Span(t, t), "count")
        try:
            book.admit([charge])
        except BudgetExceededError:
            charge = replace(charge, epsilon=Fraction(0))
        spent.append(charge.epsilon)
    for first in range(len(spent)):
        for last in range(first, len(spent)):
            assert sum(spent[first : last + 1]) <= cost_of_stay(guarantee, last - first + 1)
