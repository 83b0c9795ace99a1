"""Who counts in which step: by the rule, whatever the batches and the order of rows, today and from day to day."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.data import Calendar, Categories, Domain, read_events
from veilstream.data.bounding import Bounded, PresenceHistory, bound, load_history, store_history
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence_pairs import distinct_pairs
from veilstream.errors import InvalidInputError, OutOfOrderError
from veilstream.mechanisms.streams import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.publisher import Publisher
from veilstream.trusted.opening import open_counts

KEY = b"sixteen bytes or more"
STEPS, BINS = 10, 3
DOMAIN = Domain({"bin": Categories(range(BINS))})
GUARANTEES = (
    Guarantee(1, w=5, presence=2),
    Guarantee(1, w=4, presence=1),
    Guarantee(1, w=None, presence=3),
    Guarantee(1, per=4, presence=2),
)
Row = tuple[Any, int, int]
ROWS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, STEPS - 1), st.integers(0, BINS - 1)), min_size=1, max_size=60
)


def bounded(rows: list[Row], presence: Guarantee | PresenceHistory, first: int = 0, steps: int = STEPS) -> Bounded:
    frame = {name: [row[i] for row in rows] for i, name in enumerate(("user", "time", "bin"))}
    events = read_events(frame, user="user", time="time", by=["bin"])
    return bound(
        events, DOMAIN, Calendar(first, first + steps, 1), key=KEY, unknown="drop", presence=presence, first_step=first
    )


def counts(held: Bounded, first: int = 0) -> NDArray[np.int64]:
    return np.array([open_counts(step) for step in held.snapshots(first)])


def expected(rows: list[Row], guarantee: Guarantee) -> list[int]:
    """How many people count in each step, by the words of the rule."""
    assert guarantee.presence is not None
    total = [0] * STEPS
    for user in {row[0] for row in rows}:
        present = sorted({t for who, t, _ in rows if who == user})
        for t in present:
            if guarantee.per is not None:
                since = guarantee.per.first_of(t)
            else:
                since = 0 if guarantee.w is None else t - guarantee.w + 1
            total[t] += sum(since <= s < t for s in present) < guarantee.presence
    return total


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(rows=ROWS)
def test_people_count_by_the_rule(guarantee: Guarantee, rows: list[Row]) -> None:
    with bounded(rows, guarantee) as held:
        found = counts(held)
        assert found.sum(axis=1).tolist() == expected(rows, guarantee)
        left_out = sum(1 for _ in rows) - int(held.dropped.presence)
        assert 0 < left_out <= len(rows)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@settings(deadline=None, max_examples=15, derandomize=True)
@given(rows=ROWS, mixed=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(guarantee: Guarantee, rows: list[Row], mixed: Any) -> None:
    other = list(rows)
    mixed.shuffle(other)
    with bounded(rows, guarantee) as one, bounded(other, guarantee) as two:
        first = counts(one)
        np.testing.assert_array_equal(first, counts(two))
        np.testing.assert_array_equal(first, counts(one))


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@settings(deadline=None, max_examples=15, derandomize=True)
@given(rows=ROWS, user=st.integers(1, 4), first=st.integers(0, STEPS - 1))
def test_neighbours_differ_in_as_many_steps_as_are_charged(
    guarantee: Guarantee, rows: list[Row], user: int, first: int
) -> None:
    if guarantee.per is not None:
        start = guarantee.per.first_of(first)
        unit = range(start, start + 4)
    else:
        unit = range(STEPS) if guarantee.w is None else range(first, first + guarantee.w)
    rest = [row for row in rows if not (row[0] == user and row[1] in unit)]
    if not rest:
        return
    with bounded(rows, guarantee) as one, bounded(rest, guarantee) as two:
        moved = np.abs(counts(one) - counts(two))
    assert guarantee.reach is not None
    assert np.count_nonzero(moved.any(axis=1)) <= guarantee.reach
    assert moved.sum(axis=1).max() <= 1


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@settings(deadline=None, max_examples=8, derandomize=True)
@given(rows=ROWS)
def test_day_by_day_is_as_all_at_once(
    guarantee: Guarantee, rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with bounded(rows, guarantee) as held:
        whole = counts(held)
    path = tmp_path_factory.mktemp("history") / "presence"
    days: list[NDArray[np.int64]] = []
    for first in range(0, STEPS, 2):
        history = load_history(path, PresenceHistory(guarantee, KEY))
        day = [row for row in rows if first <= row[1] < first + 2] or [(None, first, 0)]
        with bounded(day, history, first, steps=2) as held:
            days.append(counts(held, first))
            assert held.history is not None
            store_history(path, held.history)
    # Which bin counts depends on the number of the step in its file, whether a person counts does not.
    np.testing.assert_array_equal(np.concatenate(days).sum(axis=1), whole.sum(axis=1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_history_of_another_promise_or_key_is_refused(tmp_path: Path) -> None:
    path, guarantee = tmp_path / "presence", Guarantee(1, w=5, presence=2)
    store_history(path, PresenceHistory(guarantee, KEY))
    others = [PresenceHistory(Guarantee(1, w=6, presence=2), KEY), PresenceHistory(guarantee, b"another key of 16")]
    for other in others:
        with pytest.raises(InvalidInputError) as caught:
            load_history(path, other)
        assert caught.value.name == "presence history"
    path.write_bytes(b"not a history")
    with pytest.raises(InvalidInputError):
        load_history(path, PresenceHistory(guarantee, KEY))


def test_a_history_shows_and_gives_away_nothing() -> None:
    history = PresenceHistory(Guarantee(1, w=5, presence=2), KEY)
    history.counted(Rows(np.array([77]), None, np.array([0])), 0)
    assert repr(history) == "PresenceHistory()"
    (record,) = np.concatenate(list(history.blocks())).tolist()
    assert 77 not in record[:2]
    assert len(history) == 1


def test_people_are_forgotten_when_no_rule_looks_back_at_them() -> None:
    history = PresenceHistory(Guarantee(1, w=5, presence=2), KEY)
    for step in range(100):
        history.advance(step)
        history.counted(Rows(np.arange(10) + 10 * step, None, np.zeros(10, dtype=np.int64)), step)
    assert len(history) <= 2 * 10 * 5


def test_steps_that_have_passed_are_refused() -> None:
    history = PresenceHistory(Guarantee(1, w=None, presence=2), KEY)
    rows = Rows(np.array([1]), None, np.array([0]))
    history.counted(rows, 5)
    with pytest.raises(OutOfOrderError):
        history.counted(rows, 4)
    history.advance(7)
    for refused in (lambda: history.advance(6), lambda: history.counted(rows, 6)):
        with pytest.raises(OutOfOrderError):
            refused()


def test_people_with_one_first_hash_stay_two() -> None:
    first, second = np.array([5, 5, 5, 9], dtype=np.uint64), np.array([1, 2, 1, 1], dtype=np.uint64)
    a, b, person = distinct_pairs(first, second)
    assert list(zip(a.tolist(), b.tolist(), strict=True)) == [(5, 1), (5, 2), (9, 1)]
    assert person.tolist() == [0, 1, 0, 2]
    history = PresenceHistory(Guarantee(1, w=None, presence=1), KEY)
    assert history.people_counted(a, b, 0).all()
    assert not history.people_counted(a[1:2], b[1:2], 1).any()
    assert history.people_counted(a[:1], np.array([7], dtype=np.uint64), 1).all()


def test_blocks_without_a_calendar_and_text_ids() -> None:
    with pytest.raises(InvalidInputError):
        PresenceHistory(Guarantee(1, per="1w", presence=2), KEY)
    frame = pl.DataFrame({"user": ["ann", "bob", "ann", "ann"], "time": [0, 1, 1, 2], "bin": [0, 0, 0, 0]})
    events = read_events(frame, user="user", time="time", by=["bin"])
    with bound(events, DOMAIN, Calendar(0, 3, 1), key=KEY, presence=Guarantee(1, w=None, presence=2)) as held:
        assert counts(held).sum(axis=1).tolist() == [1, 2, 0]
        assert held.dropped.presence == 1


def test_a_publisher_takes_only_what_was_bounded_by_its_own_promise() -> None:
    guarantee = Guarantee(1, w=5, presence=2)
    rows = [(1, t, 0) for t in range(STEPS)]
    for other in (Guarantee(1, w=7, presence=2), guarantee):
        publisher = Publisher(DOMAIN, guarantee, Uniform())
        with bounded(rows, other) as held:
            if other is guarantee:
                assert [publisher.feed(snapshot).t for snapshot in held.snapshots()] == list(range(STEPS))
                continue
            with pytest.raises(InvalidInputError) as caught:
                publisher.feed(next(held.snapshots()))
            assert caught.value.name == "snapshot"
    # Counts that come aggregated are the holder's declaration.
    assert Publisher(DOMAIN, guarantee, Uniform()).feed(np.zeros(BINS, dtype=np.int64)).t == 0
