"""The bound on one person's contribution, attacked with neighbouring event sets."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.data.bounding.support import BINS, CALENDAR, DOMAIN, KEY, STEPS, Row, bounded, counts, table
from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.runs import Runs
from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.trusted.opening import open_counts

people = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", "01", "é"]), st.integers(2**62, 2**62 + 1))
rows_of = st.lists(st.tuples(people, st.integers(0, STEPS - 1), st.integers(0, BINS - 1)), max_size=40)
limits = st.fixed_dictionaries({"bins_per_user": st.integers(1, 3), "counts_per_user": st.integers(1, 4)})


def identity(person: Any) -> Any:
    """Texts of whole numbers and the numbers are one person."""
    return int(person) if str(person).isdecimal() else person


@given(rows_of, people, limits, st.binary(min_size=16, max_size=40))
@settings(max_examples=150, deadline=None)
def test_one_person_moves_each_step_by_at_most_the_limit(
    rows: list[Row], person: Any, limit: dict[str, int], key: bytes
) -> None:
    without = [row for row in rows if identity(row[0]) != identity(person)]
    difference = np.abs(counts(table(rows), key=key, **limit) - counts(table(without), key=key, **limit))
    assert (difference.sum(axis=1) <= limit["counts_per_user"]).all()
    assert ((difference > 0).sum(axis=1) <= limit["bins_per_user"]).all()
    absent = set(range(STEPS)) - {step for user, step, _ in rows if identity(user) == identity(person)}
    assert not difference[list(absent)].any()


@given(rows_of, limits, st.data())
@settings(max_examples=60, deadline=None)
def test_order_and_batches_do_not_matter(rows: list[Row], limit: dict[str, int], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = [0, *cuts, len(rows)]
    batches = [table(shuffled[a:b]) for a, b in pairwise(edges)]
    assert (counts(iter(batches), **limit) == counts(table(rows), **limit)).all()


def by_hand(rows: list[Row], k: int, l1: int) -> NDArray[np.int64]:
    """The definition, person by person, for integer ids."""
    result = np.zeros((STEPS, BINS), dtype=np.int64)
    held: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for user, step, bin_ in rows:
        held[user, step][bin_] += 1

    def priority(user: int, cell: int, copy: int) -> int:
        return int(Key(KEY).hash(np.array([user]), 0, np.array([cell]), np.array([copy]))[0])

    for (user, step), bins in held.items():
        kept = sorted(bins, key=lambda b: priority(user, step * BINS + b, 0))[:k]
        copies = [(priority(user, step * BINS + b, j), b) for b in kept for j in range(1, min(bins[b], l1) + 1)]
        for _, bin_ in sorted(copies)[:l1]:
            result[step, bin_] += 1
    return result


@given(st.lists(st.tuples(st.integers(-2, 3), st.integers(0, 3), st.integers(0, 4)), max_size=40), limits)
@settings(max_examples=60, deadline=None)
def test_counts_are_the_definition(rows: list[Row], limit: dict[str, int]) -> None:
    expected = by_hand(rows, limit["bins_per_user"], limit["counts_per_user"])
    assert (counts(table(rows), **limit) == expected).all()


def many_rows(rows: int = 20_000) -> pl.DataFrame:
    index = np.arange(rows)
    return pl.DataFrame({"user": index * 7919 % 997, "time": index * 31 % STEPS, "bin": index * index % 1009 % BINS})


def test_every_kind_of_source_gives_the_same_counts(tmp_path: Path) -> None:
    frame = many_rows()
    expected = counts(frame, bins_per_user=2, counts_per_user=3)
    frame.write_csv(tmp_path / "events.csv")
    frame.write_parquet(tmp_path / "events.parquet")
    named = frame.with_columns(user=pl.col("user").cast(pl.String))
    reader = frame.to_arrow().to_reader(max_chunksize=1000)
    sources: list[Any] = [
        tmp_path / "events.csv",
        str(tmp_path / "events.parquet"),
        frame.lazy(),
        frame.to_pandas(),
        frame.to_arrow(),
        reader,
        named,
        named.with_columns(user=pl.col("user").cast(pl.Categorical)),
        frame.with_columns(user=pl.col("user").cast(pl.Float64)),
        [frame[:5000], {name: frame[name][5000:].to_numpy() for name in frame.columns}],
    ]
    assert len(sources) > 0
    for source in sources:
        assert (counts(source, bins_per_user=2, counts_per_user=3) == expected).all()


def test_spilling_and_sharding_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = many_rows()
    mixed = [frame[:9000], frame[9000:].with_columns(user=pl.format("p{}", "user"))]
    expected = counts(mixed, bins_per_user=2, counts_per_user=2)
    monkeypatch.setattr("veilstream.data.bounding.runs.RUN_ROWS", 1000)
    monkeypatch.setattr("veilstream.data.bounding.runs.MAX_PARTS", 3)
    monkeypatch.setattr("veilstream.data.bounding.buckets.MAX_ROWS_AT_ONCE", 500)
    options = {"bins_per_user": 2, "counts_per_user": 2, "memory_bytes": 10_000, "directory": tmp_path}
    assert (counts(mixed, **options) == expected).all()
    with bounded(mixed, **options) as held:
        steps = held.snapshots()
        next(steps)
        assert not list(tmp_path.iterdir()), "the temporary file must have no name"
    with pytest.raises(InvalidInputError, match="closed"):
        list(steps)


def test_the_temporary_file_is_closed_on_error_and_when_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("veilstream.data.bounding.runs.RUN_ROWS", 10)
    closed: list[bool] = []
    original = Runs.close

    def spy(runs: Runs) -> None:
        assert runs.spilled_bytes > 0
        original(runs)
        closed.append(runs.closed)

    monkeypatch.setattr(Runs, "close", spy)
    good, bad = table([(i, 0, 0) for i in range(100)]), table([(1, 0, 99)])
    with pytest.raises(UnknownValueError):
        bounded([good, bad], memory_bytes=0, directory=tmp_path)
    assert closed == [True]
    held = bounded(good, memory_bytes=0, directory=tmp_path)
    del held
    gc.collect()


def test_ids_that_read_alike_are_one_person() -> None:
    rows: list[Row] = [(1, 0, 0), ("1", 0, 0), (1.0, 0, 0), (np.int64(1), 0, 0), ("1", 0, 0)]
    assert counts(table(rows)).sum() == 1
    batches = [pl.DataFrame(table([(user, 0, 2)])) for user in (1, "1", 1.0)]
    batches += [pl.DataFrame(table([("1", 0, 2)])).cast({"user": pl.Categorical})]
    batches += [pl.DataFrame(table([(1, 0, 2)])).cast({"user": pl.UInt64})]
    assert counts(batches).sum() == 1
    wide = [2**64, 1]
    assert counts([table([(user, 0, 0) for user in wide]), table([(str(wide[0]), 0, 0), ("1", 0, 0)])]).sum() == 2
    huge = 2**63 - 1
    assert counts([table([(huge, 0, 0)]), table([(str(huge), 0, 0)])]).sum() == 1
    assert counts(pl.DataFrame({"user": pl.Series([2**64 - 1] * 2, dtype=pl.UInt64), "time": 0, "bin": 0})).sum() == 1
    assert counts(table([("01", 0, 0), ("1", 0, 0), ("a", 0, 0), ("b", 0, 0)])).sum() == 3


def test_nobody_is_dropped_and_counted() -> None:
    rows: list[Row] = [(None, 0, 0), ("", 0, 0), (float("nan"), 0, 0), ("x", 0, 0), (3, 1, 0)]
    with bounded(table(rows)) as held:
        assert held.dropped.no_user == 3
        assert sum(open_counts(step).sum() for step in held.snapshots()) == 2
    assert counts(pl.DataFrame({"user": [None, 1.0, float("nan")], "time": 0, "bin": 0})).sum() == 1
    nulls = pl.DataFrame({"user": [None, None], "time": [0, 0], "bin": [0, 0]})
    assert counts(nulls).sum() == 0


@pytest.mark.parametrize("ids", [[True, False], [1.5, 2.0], [2.0**60, 1.0], [b"\xff", b"y"], [1, 1.5, "a"]])
def test_ids_that_cannot_be_told_apart_are_refused(ids: list[Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        counts(table([(user, 0, 0) for user in ids]))
    assert caught.value.name == "user column 'user'"
    assert "1.5" not in str(caught.value)


def test_every_step_comes_out_and_t_can_be_offset() -> None:
    with bounded(table([(1, 2, 3)]), counts_per_user=2) as held:
        steps = list(held.snapshots(first_t=100))
        again = list(held.snapshots())
    assert [step.span.first for step in steps] == [100, 101, 102, 103]
    assert [step.span.first for step in again] == [0, 1, 2, 3]
    assert {step.l1 for step in steps} == {2}
    assert [int(open_counts(step).sum()) for step in steps] == [0, 0, 1, 0]


def test_no_events_still_give_every_step() -> None:
    assert counts(table([])).tolist() == [[0] * BINS] * STEPS
    assert counts([]).tolist() == [[0] * BINS] * STEPS


def test_a_series_of_totals_needs_no_attributes() -> None:
    events = read_events(table([(1, 0, 0), (2, 0, 1), (2, 0, 2)]), user="user", time="time")
    with bound(events, Domain({}), Calendar(0, 1, 1)) as held:
        assert open_counts(next(held.snapshots())).tolist() == [2]


def test_the_key_decides_and_is_fresh_by_default() -> None:
    rows = table([(user, 0, bin_) for user in range(200) for bin_ in range(BINS)])
    assert (counts(rows) == counts(rows)).all()
    # Two keys agree on all of 200 fair five-way choices with probability 5^-200; on all counts, below 1e-6
    # for independent fresh keys compared four times.
    others = [counts(rows, key=None).tobytes() for _ in range(5)]
    assert len(set(others)) > 1


def test_the_choice_is_uniform() -> None:
    people = 20_000
    rows = table([(user, 0, bin_) for user in range(people) for bin_ in range(BINS)])
    chosen = counts(rows)[0]
    # Fixed key. Hoeffding: each of 5 bins strays by 0.03·n with probability below 2·exp(-2·n·0.0009) < 1e-15.
    assert (np.abs(chosen / people - 1 / BINS) < 0.03).all()


@pytest.mark.parametrize("bad", [{"bins_per_user": 0}, {"counts_per_user": -1}, {"counts_per_user": 1.5}])
def test_limits_are_whole_and_positive(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bounded(table([]), **bad)
    assert caught.value.name in bad


def test_short_keys_unknown_policies_and_missing_attributes_are_refused() -> None:
    with pytest.raises(InvalidInputError) as caught:
        bounded(table([]), key=b"short")
    assert caught.value.name == "key"
    assert "short" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="'error' or 'drop'"):
        bounded(table([]), unknown="ignore")
    with pytest.raises(InvalidInputError, match="attribute 'bin'"):
        bound(read_events(table([]), user="user", time="time"), DOMAIN, CALENDAR)
