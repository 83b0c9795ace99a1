"""Rows per person and step: counted by level, bounded by steps of a person, whatever the kind of ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data import Calendar, Dropped, read_events
from veilstream.data.bounding import bound
from veilstream.data.bounding.frequency import LEVELS, level_names, moved_by, rows_per_step
from veilstream.data.domain import Domain
from veilstream.errors import InvalidInputError
from veilstream.trusted.opening import open_counts

DAYS = Calendar(0, 4, 1)


def histogram(rows: list[tuple[Any, int]], **options: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    table = {"id": [person for person, _ in rows], "t": [step for _, step in rows]}
    sealed = rows_per_step(read_events(table, user="id", time="t"), DAYS, **options)
    return open_counts(sealed)


def test_levels_are_powers_of_two() -> None:
    sizes = [1, 2, 3, 4, 5, 8, 9, 16]
    rows = [(person, 0) for person, size in enumerate(sizes) for _ in range(size)]
    assert histogram(rows)[:5].tolist() == [1, 1, 2, 2, 2]
    assert len(level_names()) == LEVELS == histogram([]).size


@pytest.mark.parametrize("text", [False, True])
def test_every_person_counts_in_so_many_steps_at_most(text: bool) -> None:
    rows: list[tuple[Any, int]] = [(f"p{i}" if text else i, step) for i in range(50) for step in range(4)]
    for allowed in (1, 3, 4, 9):
        assert histogram(rows, steps_per_user=allowed).sum() == 50 * min(allowed, 4)
    assert histogram([*rows, (None, 0)]).sum() == 50


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=40),
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.integers(1, 4),
)
def test_all_rows_of_one_person_move_it_by_at_most_their_steps(
    others: list[tuple[int, int]], own: list[int], allowed: int
) -> None:
    """The choice of anybody else's steps is another with every key, so one key is fixed for both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veilstream.data.bounding.frequency.os.urandom", bytes)
        without = histogram(list(others), steps_per_user=allowed)
        with_one = histogram([*others, *((99, step) for step in own)], steps_per_user=allowed)
    assert np.abs(with_one - without).sum() <= allowed
    assert (with_one - without).min() >= 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
    st.integers(1, 4),
)
def test_any_rows_of_one_person_move_it_by_no_more_than_it_is_sealed_for(
    own: list[int], left: list[bool], allowed: int
) -> None:
    """The window of one step goes, or some rows of each: other steps of the same person are counted instead."""
    parts = [[step for step in own if step != gone] for gone in range(4)]
    parts.append([step for step, stays in zip(own, left, strict=False) if stays])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veilstream.data.bounding.frequency.os.urandom", bytes)
        whole = histogram([(99, step) for step in own], steps_per_user=allowed)
        for part in parts:
            moved = np.abs(histogram([(99, step) for step in part], steps_per_user=allowed) - whole).sum()
            assert moved <= moved_by(allowed)


def test_it_is_a_seal_with_the_sensitivity_of_the_steps() -> None:
    table = {"id": [1], "t": [0]}
    sealed = rows_per_step(read_events(table, user="id", time="t"), DAYS, steps_per_user=3)
    assert sealed.l1 == moved_by(3) == 6
    with pytest.raises(InvalidInputError) as refused:
        rows_per_step(read_events(table, user="id", time="t"), DAYS, steps_per_user=0)
    assert refused.value.name == "steps_per_user"


def test_the_operator_learns_what_the_limits_left_out() -> None:
    table = {"id": [1, 1, 1, 1, 2, 3], "t": [0, 0, 0, 0, 0, 1]}
    with bound(read_events(table, user="id", time="t"), Domain({}), DAYS, counts_per_user=2) as bounded:
        assert bounded.dropped.bounded_share == 0
        for _ in range(2):
            assert len(list(bounded.snapshots())) == 4
            assert bounded.dropped.bounded_share == pytest.approx(2 / 6)
        assert repr(bounded.dropped) == repr(Dropped())
