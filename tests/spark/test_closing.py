"""Steps are published when the public clock has passed them, once, whatever was killed in between."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from tests.spark.conftest import Cluster
from tests.spark.support import KEY, alone
from veilstream.data import Calendar, Categories, Domain
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.spark import ClosedSteps, publish_closed
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts

HOURS = Calendar("2024-01-01", "2024-01-01T06:00:00", "1h")
PLACES = Domain({"place": Categories(["a", "b"])})
HOUR = 3_600_000_000
START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
Row = tuple[int, int, int, str]


@dataclass
class Stopped:
    """A clock that stands."""

    tick: int

    def now(self) -> int:
        return self.tick


class Seen:
    """The exact counts that were fed, by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dies_at: int | None = None) -> None:
        self.counts: dict[int, NDArray[np.int64]] = {}
        feed = vs.Publisher.feed

        def watched(publisher: Any, snapshot: Sealed, t: int | None = None) -> vs.Release:
            if snapshot.span.first == dies_at:
                raise KeyboardInterrupt
            self.counts[snapshot.span.first] = open_counts(snapshot)
            return feed(publisher, snapshot, t)

        monkeypatch.setattr(vs.Publisher, "feed", watched)


def publisher(path: Path, guarantee: vs.Guarantee | None = None) -> vs.Publisher[Any]:
    return vs.Publisher(
        PLACES,
        guarantee or vs.Guarantee(1, w=6),
        vs.STREAMS["uniform"](),
        path / "ledger.db",
        stream="visits",
        calendar=HOURS,
        key=KEY,
    )


def closed_steps(opened: vs.Publisher[Any], **options: Any) -> ClosedSteps:
    return ClosedSteps(opened, HOURS, user="user", arrival="arrived", key=KEY, **options)


def frame(spark: Cluster, rows: list[Row]) -> Any:
    df = spark.session.createDataFrame(rows, "user long, time long, arrived long, place string")
    return df.selectExpr("user", "timestamp_micros(time) as time", "timestamp_micros(arrived) as arrived", "place")


def some_rows(count: int = 400) -> list[Row]:
    draw = np.random.default_rng(3)  # noqa: TID251
    ticks = START + draw.integers(0, 6 * HOUR, count)
    # Nobody arrives in the third hour.
    ticks = np.where((ticks - START) // HOUR == 2, ticks + HOUR, ticks)
    users, places = draw.integers(0, 40, count), draw.integers(0, 2, count)
    return [(int(u), int(t), int(t), "ab"[p]) for u, t, p in zip(users, ticks, places, strict=True)]


def expected(rows: list[Row], **options: Any) -> NDArray[np.int64]:
    instants = [datetime.fromtimestamp(row[1] / 1e6, UTC) for row in rows]
    source = {"user": [r[0] for r in rows], "time": instants, "place": [r[3] for r in rows]}
    return alone(source, PLACES, HOURS, **options)


def test_a_killed_driver_goes_on_and_every_step_is_that_of_one_machine(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows()
    df, counts = frame(spark, rows), expected(rows)
    with monkeypatch.context() as first_run, publisher(tmp_path) as opened:
        before = Seen(first_run, dies_at=3)
        with pytest.raises(KeyboardInterrupt):
            publish_closed(df, closed_steps(opened), Stopped(START + 6 * HOUR))
    with publisher(tmp_path) as opened:
        after = Seen(monkeypatch)
        released = publish_closed(df, closed_steps(opened, steps_at_once=2), Stopped(START + 6 * HOUR))
        assert [release.t for release in released] == [3, 4, 5]
        assert publish_closed(df, closed_steps(opened), Stopped(START + 9 * HOUR)) == []
        assert [release.t for release in opened.ledger.releases("visits")] == list(range(6))
    seen = before.counts | after.counts
    assert list(seen) == list(range(6))
    assert (np.array(list(seen.values())) == counts).all()
    assert not counts[2].any()
    assert counts[[0, 1, 3, 4, 5]].any(axis=1).all()


def test_people_who_count_in_few_steps_are_looked_up_in_earlier_rows(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every job begins anew, and reads who was there in the steps before its own."""
    rows, promise = some_rows(120), vs.Guarantee(1, w=4, presence=1)
    with publisher(tmp_path, promise) as opened:
        seen = Seen(monkeypatch)
        publish_closed(frame(spark, rows), closed_steps(opened, steps_at_once=3), Stopped(START + 6 * HOUR))
    counts = expected(rows, presence=promise)
    assert (np.array(list(seen.counts.values())) == counts).all()
    assert 0 < counts.sum() < expected(rows).sum()


def test_only_what_the_clock_has_passed_is_published(spark: Cluster, tmp_path: Path) -> None:
    with publisher(tmp_path) as opened:
        stream = closed_steps(opened, grace="5m", settle="1m")
        df = frame(spark, some_rows(50))
        assert publish_closed(df, stream, Stopped(START + HOUR + 6 * 60_000_000 - 1)) == []
        assert [r.t for r in publish_closed(df, stream, Stopped(START + HOUR + 6 * 60_000_000))] == [0]
        assert stream.due(START + 7 * HOUR) == 6


def test_a_row_counts_by_its_own_arrival_and_nobody_elses(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = HOUR // 60
    rows: list[Row] = [
        (1, START + 10 * minute, START + 10 * minute, "a"),
        (2, START + 50 * minute, START + 64 * minute, "a"),
        (3, START + 50 * minute, START + 66 * minute, "b"),
        (4, START + 70 * minute, START + 70 * minute, "b"),
    ]
    seen: list[NDArray[np.int64]] = []
    # The second run has a row far in the future, which a watermark would follow.
    for number, more in enumerate([[], [(9, START + 5 * HOUR, START + 5 * HOUR, "a")]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as run, publisher(folder) as opened:
            watch = Seen(run)
            stream = closed_steps(opened, time="time", grace="5m")
            publish_closed(frame(spark, [*rows, *more]), stream, Stopped(START + 2 * HOUR + 5 * minute))
        seen.append(np.array([watch.counts[0], watch.counts[1]]))
    assert seen[0].tolist() == [[2, 0], [0, 1]]
    assert (seen[0] == seen[1]).all()


def test_drivers_that_run_at_once_publish_every_step_once(spark: Cluster, tmp_path: Path) -> None:
    """A step that another driver published meanwhile comes back as it was released."""
    df = frame(spark, some_rows())
    publisher(tmp_path).close()

    def drive(steps_at_once: int) -> list[vs.Release]:
        with publisher(tmp_path) as opened:
            return publish_closed(df, closed_steps(opened, steps_at_once=steps_at_once), Stopped(START + 6 * HOUR))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(drive, (2, 3))
    with publisher(tmp_path) as opened:
        stored = {release.t: release.values.tolist() for release in opened.ledger.releases("visits")}
    assert list(stored) == list(range(6))
    assert len(first) + len(second) >= 6
    for release in (*first, *second):
        assert release.values.tolist() == stored[release.t]


def test_progress_is_told_in_steps_and_names_mean_nothing_to_spark(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows()
    df = frame(spark, rows).toDF("User", "a.b", "user", "place")
    told: list[tuple[int, int]] = []
    with publisher(tmp_path) as opened:
        seen = Seen(monkeypatch)
        stream = ClosedSteps(opened, HOURS, user="User", time="a.b", arrival="user", key=KEY, steps_at_once=2)
        for hours in (3, 6, 6):
            publish_closed(df, stream, Stopped(START + hours * HOUR), progress=lambda *steps: told.append(steps))
    assert (np.array([seen.counts[step] for step in range(6)]) == expected(rows)).all()
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3), (3, 6), (4, 6), (5, 6), (6, 6), (6, 6)]


def test_times_that_are_no_instants_are_refused(spark: Cluster, tmp_path: Path) -> None:
    df = frame(spark, some_rows(5)).selectExpr("user", "cast(arrived as timestamp_ntz) as arrived", "place")
    with publisher(tmp_path) as opened, pytest.raises(InvalidInputError) as caught:
        publish_closed(df, closed_steps(opened), Stopped(START + HOUR))
    assert caught.value.name == "column 'arrived' of type"


def test_another_calendar_or_key_than_the_ledgers_is_refused(tmp_path: Path) -> None:
    later = Calendar("2024-01-01T00:30:00", "2024-01-02", "1h")
    with publisher(tmp_path) as opened:
        for calendar, key in ((later, KEY), (HOURS, bytes(32))):
            with pytest.raises(LedgerMismatchError) as caught:
                ClosedSteps(opened, calendar, user="user", arrival="arrived", key=key)
            assert caught.value.value == "visits"


@pytest.mark.parametrize("bad", [{"grace": "1mo"}, {"settle": -1}, {"steps_at_once": 0}, {"bins_per_user": 0}])
def test_settings_are_checked_before_anything_is_read(tmp_path: Path, bad: dict[str, Any]) -> None:
    with publisher(tmp_path) as opened, pytest.raises(InvalidInputError) as caught:
        closed_steps(opened, **bad)
    assert caught.value.name == next(iter(bad))
