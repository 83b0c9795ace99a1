"""Distinct people: counted once, over a step or the last steps, and moved by one person no further than proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.data import Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.bounding.distinct import movement_of_people
from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError
from veilstream.trusted.opening import open_counts

from .support import CALENDAR, DOMAIN, KEY

Visit = tuple[int, int, int]
"""A person, a step and a bin."""
visits_of_people = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, CALENDAR.steps - 1), st.integers(0, DOMAIN.bins - 1)), max_size=40
)


def people(visits: list[Visit], steps: int, domain: Domain = DOMAIN, **options: Any) -> NDArray[np.int64]:
    source = {name: [visit[i] for visit in visits] for i, name in enumerate(("user", "time", "bin"))}
    events = read_events(source, user="user", time="time", by=["bin"])
    with bound(events, domain, CALENDAR, key=KEY, distinct=steps, **options) as held:
        sealed = list(held.snapshots())
        again = list(held.snapshots())
    moved = movement_of_people(domain.bins, options.get("bins_per_user", 1), steps)
    assert all(step.l1 == moved for step in sealed)
    found = np.array([open_counts(step) for step in sealed])
    assert np.array_equal(found, [open_counts(step) for step in again])
    return found


@settings(max_examples=60, deadline=None)
@given(visits_of_people, st.integers(1, 4))
def test_people_are_counted_once(visits: list[Visit], steps: int) -> None:
    """Against sets of people, without bins and with them."""
    found = people(visits, steps, Domain({}))
    for t in range(CALENDAR.steps):
        assert found[t].tolist() == [len({who for who, when, _ in visits if t - steps < when <= t})]
    by_bin = people(visits, steps, bins_per_user=DOMAIN.bins)
    for t in range(CALENDAR.steps):
        latest: dict[int, tuple[int, set[int]]] = {}
        for who, when, place in sorted(visits, key=lambda visit: visit[1]):
            if t - steps < when <= t:
                at, places = latest.get(who, (when, set[int]()))
                latest[who] = (when, {place} | (places if at == when else set[int]()))
        expected = np.zeros(DOMAIN.bins, dtype=np.int64)
        for _, places in latest.values():
            expected[list(places)] += 1
        assert np.array_equal(by_bin[t], expected)


@settings(max_examples=80, deadline=None)
@given(visits_of_people, visits_of_people, st.integers(1, 3), st.integers(1, 2), st.integers(1, 3), st.data())
def test_one_person_moves_the_counts_of_as_many_steps_as_proved(
    others: list[Visit], own: list[Visit], steps: int, bins: int, window: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, CALENDAR.steps - 1))
    mine = [(9, when, place) for _, when, place in own]
    left = [visit for visit in mine if not first <= visit[1] < first + window]
    limits: dict[str, Any] = {"bins_per_user": bins}
    with_all = people([*others, *mine], steps, **limits)
    apart = np.abs(with_all - people([*others, *left], steps, **limits)).sum(axis=1)
    assert apart.max() <= movement_of_people(DOMAIN.bins, bins, steps)
    seen = np.flatnonzero(apart)
    assert seen.size == 0 or (first <= seen[0] and seen[-1] < first + window + steps - 1)


def test_the_bins_of_a_person_are_bounded_and_the_rest_of_memory_does_not_matter() -> None:
    visits = [(i % 50, i % CALENDAR.steps, i % DOMAIN.bins) for i in range(600)]
    found = people(visits, 2, bins_per_user=2)
    assert (found.sum(axis=1) <= 2 * 50).all()
    assert np.array_equal(found, people(visits, 2, bins_per_user=2, memory_bytes=1))


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_steps_are_a_whole_number(steps: Any) -> None:
    with pytest.raises(InvalidInputError) as refused:
        people([], steps)
    assert refused.value.name == "distinct"


def test_people_are_not_measured() -> None:
    fares = ValueMeasures.of({"mean": {"bin": (0, 4)}})
    with pytest.raises(InvalidInputError) as refused:
        people([], 1, measures=fares)
    assert refused.value.name == "distinct"
