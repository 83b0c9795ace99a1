"""What executors do, played through without a cluster: any partitions, buckets, batches and repeated tasks."""

from __future__ import annotations

import pickle  # noqa: TID251
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.data.bounding.support import BINS, CALENDAR, DOMAIN, KEY, STEPS, Row, counts, table
from veilstream.data import Dropped
from veilstream.data.bounding.choice import Limit
from veilstream.data.bounding.keyed import CHOICE, PEOPLE, Key
from veilstream.data.bounding.presence_rows import PresenceLimit
from veilstream.privacy.guarantee import Guarantee
from veilstream.spark.counting import Settings
from veilstream.spark.environment import environment
from veilstream.spark.notes import Note, settle
from veilstream.spark.worker import NOTES, Job, adding, bounding, encoding, frames, payloads, unpacked_run

people = st.one_of(st.integers(-3, 3), st.integers(2**62, 2**62 + 1), st.none())
names = st.sampled_from(["a", "b", "01", "1", "é", "e\u0301", " ", None])
limits = st.builds(Limit, st.integers(1, 3), st.integers(1, 4))


def rows_of(ids: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(ids, st.integers(-1, STEPS), st.integers(-1, BINS)), max_size=40)


def job(limit: Limit, buckets: int, parts: int = 2) -> Job:
    key = Key(KEY)
    return Job(
        domain=DOMAIN,
        calendar=CALENDAR,
        user="user",
        time="time",
        limit=limit,
        unknown="drop",
        missing_time="error",
        steps=range(STEPS),
        buckets=buckets,
        parts=parts,
        memory_bytes=0,
        expected=environment(),
        people_key=key.derive(PEOPLE),
        choice_key=key.derive(CHOICE),
    )


def arrow(rows: list[Row]) -> list[pa.RecordBatch]:
    kind = pa.string() if any(isinstance(row[0], str) for row in rows) else pa.int64()
    columns = [pa.array([row[0] for row in rows], type=kind)]
    columns += [pa.array([row[index] for row in rows], type=pa.int64()) for index in (1, 2)]
    return [pa.RecordBatch.from_arrays(columns, ["user", "time", "bin"])]


def grouped(batches: Iterator[pa.RecordBatch], by: str) -> dict[int, list[pa.RecordBatch]]:
    groups: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        for index, number in enumerate(batch.column(by).to_pylist()):
            groups[number].append(batch.slice(index, 1))
    return groups


def played(task: Job, partitions: list[list[Row]], dropped: Dropped) -> NDArray[np.int64]:
    """A cluster that sends everything through bytes, as a real one does."""
    task = pickle.loads(pickle.dumps(task))  # noqa: S301
    encoded = [batch for rows in partitions for batch in encoding(task)(iter(arrow(rows)))]
    dealt = grouped(iter(encoded), "bucket")
    bounded = [batch for bucket, group in dealt.items() for batch in bounding(task)((pa.scalar(bucket),), iter(group))]
    found = np.zeros(STEPS * BINS, dtype=np.int64)
    notes: list[Note] = []
    for part, group in grouped(iter(bounded), "part").items():
        for value in payloads(adding()((pa.scalar(part),), iter(group))):
            if part == NOTES:
                notes.append(Note.from_bytes(value.to_pybytes()))
            else:
                cells, numbers = unpacked_run(value)
                found[cells] += numbers
    settle(notes, dropped)
    assert len(notes) == len(partitions)
    return found.reshape(STEPS, BINS)


def cut(rows: list[Row], data: st.DataObject) -> list[list[Row]]:
    places = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    return [rows[first:last] for first, last in pairwise([0, *places, len(rows)])]


@pytest.mark.parametrize("ids", [people, names], ids=["integers", "texts"])
@given(data=st.data(), limit=limits, buckets=st.integers(1, 5), parts=st.integers(1, STEPS))
@settings(max_examples=60, deadline=None)
def test_any_partitions_give_the_counts_of_one_machine(
    ids: st.SearchStrategy[Any], data: st.DataObject, limit: Limit, buckets: int, parts: int
) -> None:
    rows = data.draw(rows_of(ids))
    left_out = Dropped()
    found = played(job(limit, buckets, parts), cut(data.draw(st.permutations(rows)), data), left_out)
    options = {"bins_per_user": limit.bins_per_user, "counts_per_user": limit.counts_per_user, "unknown": "drop"}
    assert (found == counts(table(rows), **options)).all()
    assert left_out.no_user == sum(row[0] is None or not str(row[0]).strip() for row in rows)


def test_large_buckets_and_heavy_people_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)  # noqa: TID251
    rows: list[Row] = [(7, int(step), int(bin_)) for step, bin_ in draw.integers(0, 4, (5000, 2))]
    rows += [(int(user), int(step), int(bin_)) for user, step, bin_ in draw.integers([10, 0, 0], [14, 4, 4], (2000, 3))]
    expected = counts(table(rows), bins_per_user=2, counts_per_user=3)
    partitions = [rows[first : first + 900] for first in range(0, len(rows), 900)]
    task = job(Limit(2, 3), 2)
    assert (played(task, partitions, Dropped()) == expected).all()
    monkeypatch.setattr("veilstream.data.bounding.buckets.MAX_ROWS_AT_ONCE", 20)
    monkeypatch.setattr("veilstream.data.bounding.runs.RUN_ROWS", 10)
    monkeypatch.setattr("veilstream.spark.worker.FLUSH_ROWS", 100)
    monkeypatch.setattr("veilstream.spark.worker.PIECE_CELLS", 3)
    assert (played(task, partitions, Dropped()) == expected).all()


@pytest.mark.parametrize("at_once", [1 << 23, 4], ids=["whole buckets", "some people at a time"])
@given(
    data=st.data(),
    buckets=st.integers(1, 3),
    promise=st.sampled_from(
        [Guarantee(1, w=3, presence=1), Guarantee(1, w=None, presence=2), Guarantee(1, per=2, presence=1)]
    ),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_people_who_count_in_few_steps_are_those_of_one_machine(
    monkeypatch: pytest.MonkeyPatch, at_once: int, data: st.DataObject, buckets: int, promise: Guarantee
) -> None:
    monkeypatch.setattr("veilstream.data.bounding.buckets.MAX_ROWS_AT_ONCE", at_once)
    rows = data.draw(rows_of(people))
    counting = Settings(DOMAIN, CALENDAR, "user", "time", Limit(), unknown="drop", presence=promise)
    assert promise.presence is not None
    since = tuple(counting.looks_back_to(step) for step in range(STEPS))
    task = replace(job(Limit(), buckets), presence=PresenceLimit(promise.presence, since))
    found = played(task, cut(data.draw(st.permutations(rows)), data), Dropped())
    assert (found == counts(table(rows), unknown="drop", presence=promise)).all()


@given(rows_of(people), limits, st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_two_copies_of_a_task_give_the_same_bytes(rows: list[Row], limit: Limit, buckets: int) -> None:
    """So it does not matter which copy Spark takes when it runs a slow task twice, or one of a stage again."""
    task = job(limit, buckets)
    first, second = (list(encoding(task)(iter(arrow(rows)))) for _ in range(2))
    assert first == second
    for bucket, group in grouped(iter(first), "bucket").items():
        copies = [list(bounding(task)((pa.scalar(bucket),), iter(group))) for _ in range(2)]
        assert copies[0] == copies[1]


def test_a_heavy_person_leaves_a_task_in_few_rows() -> None:
    heavy = pa.table({"user": pa.array([1] * 100_000), "time": pa.array([0] * 100_000), "bin": pa.array([0] * 100_000)})
    batches = list(encoding(job(Limit(1, 4), 4))(iter(heavy.to_batches())))
    assert sum(len(value) for batch in batches for value in payloads([batch])) < 1000


def test_long_texts_are_encoded_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rows of long texts are gigabytes: what has come so far is encoded and let go."""
    monkeypatch.setattr("veilstream.spark.worker.FLUSH_BYTES", 50_000)
    batch = pa.RecordBatch.from_pydict({"text": ["x" * 1000] * 20})
    held = [len(frame) for frame in frames(iter([batch] * 10), ["text"])]
    assert held == [60, 60, 60, 20]


def test_an_unexpected_error_leaves_without_its_message() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from arrow([(1, 0, 0)])
        raise ValueError("person 4711 is broken")

    with pytest.raises(RuntimeError, match="ValueError") as caught:
        list(encoding(job(Limit(), 1))(broken()))
    assert "4711" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_job_shows_no_key() -> None:
    task = job(Limit(), 1)
    assert str(task.people_key) not in repr(task)
    assert str(task.choice_key) not in repr(task)
    assert KEY not in pickle.dumps(task)
