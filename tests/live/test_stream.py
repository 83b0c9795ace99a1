"""A live stream: what is taken, what is refused, when steps close, and who may read the spool."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from veilstream.data.bounding.people import identify
from veilstream.errors import (
    BatchConflictError,
    ClockJumpError,
    InvalidInputError,
    LedgerError,
    LedgerMismatchError,
    SpoolFullError,
    StaleBatchError,
    UnknownValueError,
)
from veilstream.live import LiveStream, StreamDefinition, open_async_stream, open_stream
from veilstream.live.clock import SettableClock, Timetable, WallClock, moment, tick_of
from veilstream.live.rows import encode_batch
from veilstream.live.spool_writing import Arrival
from veilstream.mechanisms.streams import ModelBased

HOUR = 3_600_000_000
START = tick_of("2024-01-01")
NO_NOISE = "1000000"


def hourly(**changes: Any) -> dict[str, Any]:
    return {
        "user": "id",
        "time": "ts",
        "domain": {"place": ["a", "b"]},
        "start": "2024-01-01",
        "every": "1h",
        "epsilon": NO_NOISE,
        "window": 1,
        "grace": "10m",
        "delay": "10s",
        **changes,
    }


def rows(*people: Any, at: int = START + 1, place: str = "a") -> dict[str, list[Any]]:
    return {"id": list(people), "ts": [moment(at)] * len(people), "place": [place] * len(people)}


def opened(path: Path, clock: SettableClock, **changes: Any) -> LiveStream:
    return open_stream(path / "b.db", "s", hourly(**changes), clock=clock)


def test_a_row_counts_iff_it_arrives_before_the_end_of_its_step_plus_grace(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.add(rows(1))
        clock.tick = START + HOUR + HOUR // 6 - 1
        stream.add(rows(2))
        clock.tick += 1
        stream.add(rows(3))
        assert stream.close_due() == []
        clock.tick += 5_000_000
        (release,) = stream.close_due()
        assert release.values.tolist() == [2, 0]
        assert stream.fates.late == 1
        stream.add(rows(4))
        assert stream.fates.late == 2
        assert stream.close_due() == []


def test_steps_close_on_time_when_nothing_arrives(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        clock.tick = START + 3 * HOUR + HOUR // 2
        assert [release.t for release in stream.close_due()] == [0, 1, 2]


def test_a_new_stream_begins_with_the_step_under_way(tmp_path: Path) -> None:
    clock = SettableClock(START + 5 * HOUR + 1)
    with opened(tmp_path, clock) as stream:
        clock.tick = START + 7 * HOUR
        assert [release.t for release in stream.close_due()] == [5]


def test_rows_without_a_time_column_belong_to_the_step_of_their_arrival(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock, time=None) as stream:
        stream.add({"id": [1, 2], "place": ["a", "b"]})
        clock.tick = START + HOUR
        stream.add({"id": [1], "place": ["a"]})
        clock.tick = START + 3 * HOUR
        assert [release.values.tolist() for release in stream.close_due()] == [[1, 1], [1, 0]]


def test_a_batch_is_taken_once_and_its_id_means_one_content(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        assert [stream.add(rows(1, 2), batch_id="x") for _ in range(3)] == ["accepted", "duplicate", "duplicate"]
        with pytest.raises(BatchConflictError) as caught:
            stream.add(rows(1, 3), batch_id="x")
        assert caught.value.value == "x"
        clock.tick = START + 2 * HOUR
        assert stream.close_due()[0].values.tolist() == [2, 0]


def test_a_batch_id_is_remembered_while_a_step_of_its_rows_is_open(tmp_path: Path) -> None:
    clock = SettableClock(tick_of("2026-01-02T12:00"))
    monthly = {"every": "1mo", "start": "2026-01-01", "ahead": "90d", "grace": "0s"}
    with opened(tmp_path, clock, **monthly) as stream:
        batch = rows(1, 2, at=tick_of("2026-02-20"))
        assert stream.add(batch, batch_id="x") == "accepted"
        clock.tick = tick_of("2026-02-01T01:00")
        stream.close_due()
        assert stream.add(batch, batch_id="x") == "duplicate"
        clock.tick = tick_of("2026-03-01T01:00")
        assert stream.close_due()[0].values.tolist() == [2, 0]
        assert stream.add(batch, batch_id="x") == "accepted"
        assert stream.fates.late == 2


def test_tables_show_the_public_moment_of_a_step(tmp_path: Path) -> None:
    """When it was committed tells how long its rows took."""
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        clock.tick = START + 4 * HOUR
        stream.close_due()
        timetable = stream.definition.timetable
    with sqlite3.connect(tmp_path / "b.db") as connection:
        found = connection.execute("SELECT recorded FROM steps ORDER BY t").fetchall()
    assert [text for (text,) in found] == [moment(timetable.shown(t)) for t in range(3)]


def test_a_batch_that_takes_too_long_is_refused_rather_than_silently_late(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        slow = iter([START, START + 5_000_001])
        stream.clock = type("Slow", (), {"now": lambda self: next(slow), "seconds_until": lambda self, tick: 0.0})()
        with pytest.raises(StaleBatchError):
            stream.add(rows(1))


def test_bad_rows_are_dropped_one_by_one_and_counted(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        good = moment(START + 1)
        stream.add(
            {
                "id": ["1", "2", "1.2e+19", None, "5", "6", "7"],
                "ts": [good, "soon", good, good, good, None, moment(START + 100 * HOUR)],
                "place": ["a", "a", "a", "a", "z", "a", "a"],
            }
        )
        clock.tick = START + 2 * HOUR
        assert stream.close_due()[0].values.tolist() == [1, 0]
        fates = stream.fates
        assert (fates.rows, fates.bad_time, fates.bad_user, fates.no_user, fates.unknown) == (7, 3, 1, 1, 1)
        assert "7" not in repr(fates)


def test_bad_rows_can_refuse_the_batch_with_an_error_that_names_the_column(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock, bad_rows="refuse") as stream:
        with pytest.raises(UnknownValueError, match="'place'") as caught:
            stream.add(rows(1, place="secret"))
        assert "secret" not in str(caught.value)
        with pytest.raises(InvalidInputError, match="'ts'"):
            stream.add({"id": [1], "ts": ["soon"], "place": ["a"]})
        assert stream.fates.rows == 0


def test_a_missing_column_refuses_the_batch(tmp_path: Path) -> None:
    with opened(tmp_path, SettableClock(START)) as stream, pytest.raises(InvalidInputError, match="'place'"):
        stream.add({"id": [1], "ts": [moment(START)]})


def test_a_full_spool_refuses_loses_nothing_and_recovers(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.spool._most_bytes = stream.spool.room().used + 1  # pyright: ignore[reportPrivateUsage]
        stream.add(rows(*range(50_000)))
        with pytest.raises(SpoolFullError) as caught:
            stream.add(rows(2))
        # Senders are not told how much others have sent.
        assert not any(sign.isdecimal() for sign in str(caught.value))
        clock.tick = START + 2 * HOUR
        assert stream.close_due()[0].values.tolist() == [50_000, 0]
        assert stream.add(rows(2, at=clock.tick)) == "accepted"


def test_what_closing_needs_of_the_disk_is_not_given_to_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.add(rows(1))
        blocks = SimpleNamespace(f_bavail=99, f_blocks=1000, f_frsize=1 << 20)
        with monkeypatch.context() as full:
            full.setattr(os, "statvfs", lambda _path: blocks)
            with pytest.raises(SpoolFullError):
                stream.add(rows(2))
            clock.tick = START + 2 * HOUR
            assert stream.close_due()[0].values.tolist() == [1, 0]
        assert stream.add(rows(2, at=clock.tick)) == "accepted"


def test_a_spool_that_others_may_read_is_refused(tmp_path: Path) -> None:
    clock = SettableClock(START)
    opened(tmp_path, clock).close()
    (tmp_path / "b.db.spool").chmod(0o666)
    with pytest.raises(LedgerError, match="chmod 600"):
        opened(tmp_path, clock)


def test_a_spool_that_is_replaced_while_it_is_open_takes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, SettableClock(START)) as stream:
        (tmp_path / "b.db.spool").rename(tmp_path / "aside")
        with pytest.raises(LedgerError, match="moved or replaced"):
            stream.add(rows(1))


@pytest.mark.parametrize("limited", [{}, {"window": 10, "presence": 1, "mechanism": "uniform"}])
def test_an_old_copy_of_the_spool_is_refused(limited: dict[str, Any], tmp_path: Path) -> None:
    """It does not know who was present since, nor the batches that it took."""
    clock, spool = SettableClock(START), tmp_path / "b.db.spool"
    with opened(tmp_path, clock, **limited) as stream:
        stream.add(rows(1))
    old = spool.read_bytes()
    for _ in range(2):
        # With the rows of the step that is open the copy is as good as the original.
        with opened(tmp_path, clock, **limited) as stream:
            clock.tick += 2 * HOUR
            stream.close_due()
    for beside in ("-wal", "-shm"):
        spool.with_name(spool.name + beside).unlink(missing_ok=True)
    spool.write_bytes(old)
    with pytest.raises(LedgerMismatchError, match="old copy of the spool") as caught:
        opened(tmp_path, clock, **limited)
    assert "veilstream restore" in caught.value.next_step


def test_another_definition_is_refused_and_words_may_change(tmp_path: Path) -> None:
    clock = SettableClock(START)
    opened(tmp_path, clock).close()
    with opened(tmp_path, clock, title="Visits") as stream:
        assert stream.definition.title == "Visits"
    with pytest.raises(LedgerMismatchError, match="grace"):
        opened(tmp_path, clock, grace="1h")


def test_an_old_copy_of_the_ledger_is_noticed(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        clock.tick = START + 3 * HOUR
        stream.close_due()
    for file in tmp_path.glob("b.db*"):
        if "spool" not in file.name:
            file.unlink()
    with pytest.raises(LedgerMismatchError, match="published twice"):
        opened(tmp_path, clock)


def test_closing_the_future_is_refused(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream, pytest.raises(InvalidInputError, match="still to come"):
        stream.close_until(START + HOUR)


def test_the_spool_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path, SettableClock(START)) as stream:
        stream.add(rows(1))
        files = list(tmp_path.glob("b.db.spool*"))
        assert len(files) == 3
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_rows_are_gone_from_the_spool_when_their_step_is_published(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.add(rows("a person with a name"))
        clock.tick = START + 2 * HOUR
        stream.close_due()
        with stream.spool.write() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM live_parts").scalar_one() == 0


def test_the_same_on_postgresql(new_postgres: Callable[[], str]) -> None:
    clock = SettableClock(START)
    url = new_postgres()
    with open_stream(url, "s", hourly(), clock=clock) as stream:
        assert [stream.add(rows(1, "ann"), batch_id="x") for _ in range(2)] == ["accepted", "duplicate"]
    with open_stream(url, "s", clock=clock) as stream:
        clock.tick = START + 2 * HOUR
        assert stream.close_due()[0].values.tolist() == [2, 0]


def test_the_async_twin(tmp_path: Path) -> None:
    async def use() -> list[list[float]]:
        async with open_async_stream(tmp_path / "b.db", "s", hourly(clock="manual", grace="0s")) as stream:
            outcomes = await asyncio.gather(*(stream.add(rows(n), batch_id=str(n)) for n in range(8)))
            assert set(outcomes) == {"accepted"}
            await stream.close_until("2024-01-01T01:00")
            return [release.values.tolist() for release in await stream.releases()]

    assert asyncio.run(use()) == [[8, 0]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"every": "1x"}, "duration"),
        ({"grace": "1mo"}, "duration"),
        ({"clock": "sun"}, "clock"),
        ({"bad_rows": "keep"}, "bad_rows"),
        ({"mechanism": "unifrom"}, "did you mean"),
        ({"winodw": 3}, "did you mean 'window'"),
        ({"user": "place"}, "place"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"every": 10, "start": 0}, "manual"),
    ],
)
def test_a_definition_says_what_is_wrong_with_it(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        StreamDefinition.from_json({**hourly(**changes), "name": "s"})
    assert StreamDefinition.from_json({**hourly(), "name": "s"}).bins == 2


@pytest.mark.parametrize("every", ["1s", "15m", "1d", "1w", "1mo"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_steps_follow_one_another_and_know_their_own_beginning(every: str, zone: str) -> None:
    schedule = Timetable("2024-01-01", every, zone, grace=5, delay=4)
    for t in (0, 1, 90, 1000):
        assert schedule.ends(t) == schedule.begins(t + 1)
        assert schedule.step_at(schedule.begins(t)) == t
        assert schedule.step_at(schedule.ends(t) - 1) == t
        assert schedule.deadline(t) < schedule.closes(t) < schedule.shown(t)
    assert schedule.step_at(schedule.begins(0) - 1) == -1


def test_a_live_stream_may_release_by_models_with_the_seasons_of_its_steps(tmp_path: Path) -> None:
    clock = SettableClock(START)
    for _ in range(2):
        with opened(tmp_path, clock, mechanism="auto", window=24) as stream:
            assert stream.definition.make_mechanism() == ModelBased(periods=(24, 168))
            clock.tick += 2 * HOUR + HOUR // 2
            assert [release.covers for release in stream.close_due()] == ["count"] * 2


def test_a_definition_that_names_no_mechanism_goes_on_with_the_recorded_one() -> None:
    plain: dict[str, Any] = {"name": "visits", "user": "id", "start": "2024-01-01", "every": "1h", "epsilon": "1"}
    plain |= {"window": 24, "domain": {"place": ["a", "b"]}}
    left_open, begun = StreamDefinition.from_json(plain), StreamDefinition.from_json({**plain, "mechanism": "uniform"})
    assert left_open.make_mechanism() == ModelBased(periods=(24, 168))
    assert begun.check_same(left_open).mechanism == "uniform"
    with pytest.raises(LedgerMismatchError):
        left_open.check_same(begun)


@pytest.mark.parametrize(("every", "zone"), [("1d", "Europe/Paris"), ("1mo", "UTC"), ("1h", "UTC"), ("1d", "UTC")])
def test_a_row_at_the_end_of_the_calendar_is_dropped_alone(tmp_path: Path, every: str, zone: str) -> None:
    """The last step has no end where steps differ in length: its rows once raised in the commit that others shared."""
    clock = SettableClock(START)
    with opened(tmp_path, clock, every=every, zone=zone, ahead="100000w") as stream:
        last = stream.definition.timetable.calendar.label(stream.definition.timetable.calendar.steps - 1)
        for when in (last, "9999-12-31T00:00", "0001-01-01", "2424-01-01"):
            batch = rows(1, 2)
            stream.add(
                {name: [*column, added] for (name, column), added in zip(batch.items(), (666, when, "a"), strict=True)}
            )
        clock.tick = stream.definition.timetable.closes(0)
        assert stream.close_due()[0].values.tolist() == [2, 0]
        assert stream.fates.bad_time + stream.fates.unreadable + stream.fates.late >= 2


def test_a_batch_that_cannot_be_placed_leaves_the_others_of_its_commit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, SettableClock(START)) as stream:
        known = stream.spool.stream("s")
        assert known is not None
        batches = [
            Arrival(known, encode_batch(rows(n, at=START + n * HOUR), stream.definition, known.key), START)
            for n in (1, 5, 9)
        ]

        def begins(table: Timetable, step: int) -> int:
            if step == 5:
                raise InvalidInputError("step 5")
            return START + step * HOUR

        monkeypatch.setattr(Timetable, "begins", begins)
        outcomes = stream.spool.append(batches, START)
    assert [type(outcome).__name__ for outcome in outcomes] == ["str", "InvalidInputError", "str"]


def test_a_row_that_no_reader_takes_is_found_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library says about a block of rows, it is the one row's fate."""

    def fails(column: pl.Series, key: bytes) -> Any:
        if "13" in column.to_list():
            raise pl.exceptions.ComputeError("a panic of a reader")
        return identify(column, key)

    monkeypatch.setattr("veilstream.live.rows.identify", fails)
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.add(rows(*(str(number) for number in range(40))))
        clock.tick = START + 2 * HOUR
        assert stream.close_due()[0].values.tolist() == [39, 0]
        assert (stream.fates.rows, stream.fates.unreadable) == (40, 1)


def test_after_a_long_silence_an_operator_says_that_the_clock_is_right(tmp_path: Path) -> None:
    """A clock that is a year ahead for a moment once published 8,747 empty steps, whose rows were all late then."""
    clock = SettableClock(START)
    with opened(tmp_path, clock) as stream:
        stream.add(rows(1))
        clock.tick = START + 366 * 24 * HOUR
        with pytest.raises(ClockJumpError) as caught:
            stream.close_due()
        assert caught.value.name == "clock"
        clock.tick = START + HOUR // 2
        stream.add(rows(2))
        clock.tick = START + 8 * 24 * HOUR
        with pytest.raises(ClockJumpError):
            stream.close_due()
        assert [release.values.sum() for release in stream.close_until("2024-01-02")] == [2, *[0] * 22]
        clock.tick = START + 3 * 24 * HOUR
        assert len(stream.close_due()) == 48


def test_a_long_step_is_no_long_silence(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with opened(tmp_path, clock, every="1mo", grace="0s") as stream:
        clock.tick = tick_of("2024-03-20")
        assert len(stream.close_due()) == 2


def test_the_machines_clock_is_not_followed_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, elapsed = [START], [0]
    monkeypatch.setattr("veilstream.live.clock.time.time_ns", lambda: shown[0] * 1000)
    monkeypatch.setattr("veilstream.live.clock._since_start", lambda: elapsed[0])
    clock = WallClock()
    assert clock.now() == START
    shown[0], elapsed[0] = START + 365 * 24 * HOUR, 5
    assert (clock.now(), clock.jumped) == (START + 5, True)
    shown[0], elapsed[0] = START + 2 * HOUR, 2 * HOUR
    assert (clock.now(), clock.jumped) == (START + 2 * HOUR, False)
    shown[0] = START + 3 * HOUR
    assert (clock.now(), clock.jumped) == (START + 3 * HOUR, False)
    shown[0] = START
    assert clock.now() == START + 3 * HOUR


@pytest.mark.parametrize("delay", ["0s", "0", "999ms"])
def test_a_delay_in_which_no_batch_can_be_stored_is_refused(delay: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        StreamDefinition.from_json({**hourly(delay=delay), "name": "s"})
    assert caught.value.name == "delay"
