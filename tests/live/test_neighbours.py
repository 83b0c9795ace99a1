"""Removing one person moves every step by at most the bound, however rows arrive; a watermark breaks that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.live import StreamDefinition, closing, open_stream
from veilstream.live.clock import SettableClock, moment
from veilstream.live.spool import Spool
from veilstream.storage.ledger import Ledger
from veilstream.trusted.opening import opened

HOUR = 3_600_000_000
START = 1_704_067_200_000_000
PLACES = ["a", "b", "c"]
Row = tuple[object, str | None, str]
Batch = tuple[int, list[Row]]
Counts = dict[int, NDArray[np.int64]]
Arrived = tuple[int, str, int]

people = st.sampled_from([1, "1", 2, 3, "ann", "bob", 2.5, None])
times = st.integers(-HOUR, 5 * HOUR)
places = st.sampled_from([*PLACES, "nowhere"])
rows = st.lists(st.tuples(people, times, places, st.integers(0, 6 * HOUR)), max_size=30)


def definition(**changes: Any) -> dict[str, Any]:
    return {
        "user": "id",
        "time": "ts",
        "domain": {"place": PLACES},
        "start": moment(START),
        "every": "1h",
        "epsilon": "1",
        "window": 2,
        "grace": "30m",
        "delay": "10s",
        **changes,
    }


def batches_of(events: list[tuple[object, int, str, int]], sizes: list[int]) -> list[Batch]:
    """Rows in the order of their arrival, some of them sent together when the last has come."""
    ordered = sorted(events, key=lambda event: event[3])
    made: list[Batch] = []
    for size in sizes:
        part, ordered = ordered[:size], ordered[size:]
        if part:
            # A time that cannot be read stands for what a broken client sends.
            content: list[Row] = [(who, moment(START + t) if t % 7 else "soon", where) for who, t, where, _ in part]
            made.append((START + part[-1][3], content))
    return made


def run(path: Path, batches: list[Batch], wakes: list[int], options: dict[str, Any]) -> Counts:
    """Exact counts of every step, with closings, retries and restarts between the batches."""
    counts: Counts = {}
    made = closing.sealed_step

    def record(spool: Spool, stream: Any, step: int, presence: Any = None, people: Any = None) -> Any:
        snapshot = made(spool, stream, step, presence, people)
        counts[step] = np.asarray(opened(snapshot))
        return snapshot

    clock = SettableClock(START)
    closing.sealed_step = record
    book, waiting = Ledger.open(None), path / "spool"
    stream = open_stream(book, "s", definition(**options), spool=waiting, clock=clock)
    try:
        for number, (arrival, content) in enumerate(batches):
            wake = wakes[number % len(wakes)] if wakes else 0
            clock.tick = max(clock.tick, arrival)
            columns = {
                "id": [row[0] for row in content],
                "ts": [row[1] for row in content],
                "place": [row[2] for row in content],
            }
            outcomes = [stream.add(columns, batch_id=str(number)) for _ in range(1 + wake % 2)]
            assert outcomes == ["accepted", "duplicate"][: len(outcomes)]
            if wake % 3 == 0:
                stream.close_due()
            if wake % 5 == 0:
                stream.close()
                stream = open_stream(book, "s", spool=waiting, clock=clock)
        clock.tick = START + 8 * HOUR
        stream.close_due()
    finally:
        closing.sealed_step = made
        stream.close()
        book.close()
    return counts


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=rows,
    sizes=st.lists(st.integers(1, 6), min_size=30, max_size=30),
    gone=st.sampled_from([1, "ann", 2]),
    wakes=st.lists(st.integers(0, 29), max_size=6),
    other_wakes=st.lists(st.integers(0, 29), max_size=6),
    limits=st.sampled_from([(1, 1, None), (2, 3, None), (2, 1, 3)]),
)
def test_removing_one_person_moves_every_step_by_at_most_the_bound(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[tuple[object, int, str, int]],
    sizes: list[int],
    gone: object,
    wakes: list[int],
    other_wakes: list[int],
    limits: tuple[int, int, int | None],
) -> None:
    bins, counts_per_user, distinct = limits
    options = {"bins_per_user": bins, "counts_per_user": counts_per_user, "distinct": distinct}
    # Of the people of several steps, who was not there at the latest one counts in other bins instead.
    most_bins, most = (bins, counts_per_user) if distinct is None else (2 * bins, 2 * bins)
    batches = batches_of(events, sizes)
    without = [(arrival, [row for row in content if str(row[0]) != str(gone)]) for arrival, content in batches]
    first = tmp_path_factory.mktemp("with")
    mine = run(first, batches, wakes, options)
    theirs = run(_same_key(first, tmp_path_factory.mktemp("without"), options), without, other_wakes, options)
    assert sorted(mine) == sorted(theirs)
    assert len(mine) >= 6
    for step, counts in mine.items():
        moved = np.abs(counts - theirs[step])
        assert moved.sum() <= most
        assert np.count_nonzero(moved) <= most_bins


def _same_key(first: Path, second: Path, options: dict[str, Any]) -> Path:
    """A fresh spool whose key is that of the first: neighbours differ in rows alone."""
    with Spool(first / "spool") as one, Spool(second / "spool") as two:
        two.define(StreamDefinition.from_json({**definition(**options), "name": "s"}), 0)
        with one.write() as connection:
            key = connection.exec_driver_sql("SELECT key FROM live_streams").scalar_one()
        with two.write() as connection:
            connection.exec_driver_sql("UPDATE live_streams SET key = ?", (key,))
    return second


def watermark_counts(events: list[Arrived], grace: int) -> NDArray[np.int64]:
    """KNOWN BAD: a row counts unless a time beyond its step's end plus grace was seen before."""
    counts, seen = np.zeros(4, np.int64), -1
    for _, _, when in events:
        step = when // 10
        counts[step] += seen < (step + 1) * 10 + grace
        seen = max(seen, when)
    return counts


def arrival_counts(events: list[Arrived], grace: int) -> NDArray[np.int64]:
    """The rule in use: a row counts if it arrived before its step's end plus grace."""
    counts = np.zeros(4, np.int64)
    for arrival, _, when in events:
        step = when // 10
        counts[step] += arrival < (step + 1) * 10 + grace
    return counts


@pytest.mark.parametrize(("rule", "moved"), [(watermark_counts, 2), (arrival_counts, 0)])
def test_a_watermark_lets_one_person_move_others_beyond_the_bound(
    rule: Callable[[list[Arrived], int], NDArray[np.int64]], moved: int
) -> None:
    # One person counts once per step. Ann has no row in step 0; her row with a time ahead closes it for two others.
    events = [(16, "ann", 35), (17, "bob", 5), (18, "eve", 6)]
    without = [event for event in events if event[1] != "ann"]
    assert abs(rule(events, 10) - rule(without, 10))[0] == moved
