"""Rows of a lake arrive with their commit and messages with their broker's time; late ones are counted, once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.spark.conftest import Cluster
from tests.spark.test_closing import HOUR, START, Seen, Stopped, closed_steps, expected, publisher, some_rows
from tests.spark.test_closing import frame as frame_of
from veilstream.errors import EngineError, InvalidInputError, UnknownValueError
from veilstream.spark import delta_events, iceberg_events, kafka_events, kafka_options, publish_closed
from veilstream.spark.jobs import on_cluster

MINUTE = HOUR // 60


def rows(*people: tuple[int, int, str]) -> pl.DataFrame:
    """Person, minute of the event, place."""
    ticks = pl.Series([START + minute * MINUTE for _, minute, _ in people], dtype=pl.Int64)
    times = ticks.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return pl.DataFrame({"user": [who for who, _, _ in people], "time": times, "place": [at for _, _, at in people]})


def delta(folder: Path, commits: list[tuple[int, pl.DataFrame]]) -> str:
    """A Delta table whose commits were made at the given minutes."""
    from deltalake import write_deltalake

    place = folder / "table"
    for version, (minute, frame) in enumerate(commits):
        write_deltalake(str(place), frame.to_arrow(compat_level=pl.CompatLevel.oldest()), mode="append")
        log = place / "_delta_log" / f"{version:020}.json"
        entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for entry in entries:
            if "commitInfo" in entry:
                entry["commitInfo"]["timestamp"] = (START + minute * MINUTE) // 1000
        log.write_text("\n".join(map(json.dumps, entries)), encoding="utf-8")
    return str(place)


def test_rows_of_a_delta_table_count_by_commit_and_late_ones_are_counted_once(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [
        (20, rows((1, 10, "a"), (2, 15, "b"))),
        # In time for its step by the grace of five minutes.
        (64, rows((3, 59, "a"))),
        # Late for the first hour, in time for the second.
        (70, rows((4, 50, "a"), (5, 55, "b"), (6, 65, "b"))),
        (200, rows((7, 30, "b"), (8, 190, "a"))),
    ]
    df = delta_events(spark.session, delta(tmp_path, commits))
    with publisher(tmp_path) as opened:
        seen = Seen(monkeypatch)
        first = closed_steps(opened, time="time", grace="5m")
        publish_closed(df, first, Stopped(START + 2 * HOUR + 5 * MINUTE))
        second = closed_steps(opened, time="time", grace="5m")
        publish_closed(df, second, Stopped(START + 7 * HOUR))
    assert [seen.counts[step].tolist() for step in range(6)] == [[2, 1], [0, 1], [0, 0], [1, 0], [0, 0], [0, 0]]
    assert (first.dropped.late, second.dropped.late) == (2, 1)


def test_rows_without_a_time_or_outside_the_calendar_are_counted_once_too(spark: Cluster, tmp_path: Path) -> None:
    minutes = (None, -5, 10, 6 * 60, 2 * 60 + 10)
    known = [(who, START + (minute or 0) * MINUTE, "a") for who, minute in enumerate(minutes)]
    df = spark.session.createDataFrame(
        [(*row, START + 90 * MINUTE) for row in known], "user long, tick long, place string, at long"
    )
    df = df.selectExpr(
        "user", "place", "if(user = 0, null, timestamp_micros(tick)) as time", "timestamp_micros(at) as arrived"
    )
    with publisher(tmp_path) as opened:
        stream = closed_steps(opened, time="time", steps_at_once=1)
        assert len(publish_closed(df, stream, Stopped(START + 6 * HOUR))) == 6
    left_out = stream.dropped
    assert (left_out.missing_time, left_out.outside_time, left_out.late) == (1, 2, 1)


def test_late_rows_of_a_job_that_failed_are_counted_when_it_runs_again(spark: Cluster, tmp_path: Path) -> None:
    bad = delta_events(spark.session, delta(tmp_path, [(70, rows((1, 10, "a"), (2, 65, "nowhere")))]))
    good = bad.where("place = 'a'")
    with publisher(tmp_path) as opened:
        stream = closed_steps(opened, time="time")
        with pytest.raises(UnknownValueError):
            publish_closed(bad, stream, Stopped(START + 2 * HOUR))
        assert stream.dropped.late == 0
        assert len(publish_closed(good, stream, Stopped(START + 2 * HOUR))) == 2
        assert stream.dropped.late == 1


def test_an_error_of_a_later_job_says_what_was_released(spark: Cluster, tmp_path: Path) -> None:
    df = delta_events(spark.session, delta(tmp_path, [(130, rows((1, 10, "a"), (2, 125, "nowhere")))]))
    with publisher(tmp_path) as opened:
        stream = closed_steps(opened, steps_at_once=1)
        with pytest.raises(UnknownValueError, match="2 steps before it were released and stay so") as caught:
            publish_closed(df, stream, Stopped(START + 3 * HOUR))
        assert caught.value.outcome.startswith("2 steps")
        assert "nothing was released" not in str(caught.value)
        with pytest.raises(UnknownValueError, match="nothing was released"):
            publish_closed(df, stream, Stopped(START + 3 * HOUR))


def test_commits_before_a_moment_are_not_read_and_an_empty_table_has_its_columns(
    spark: Cluster, tmp_path: Path
) -> None:
    place = delta(tmp_path, [(20, rows((1, 10, "a"))), (80, rows((2, 70, "b")))])
    since = datetime.fromtimestamp((START + HOUR) / 1e6, UTC)
    df = delta_events(spark.session, place, since=since, arrival="at")
    assert [(row.user, row.at.timestamp()) for row in df.collect()] == [(2, (START + 80 * MINUTE) / 1e6)]
    later = delta_events(spark.session, place, since=datetime(2100, 1, 1, tzinfo=UTC))
    assert later.columns == [*df.columns[:-1], "arrived"]
    assert later.count() == 0
    for bad in ({"since": datetime(2024, 1, 1)}, {"arrival": "time"}):
        with pytest.raises(InvalidInputError) as caught:
            delta_events(spark.session, place, **bad)
        assert caught.value.name == next(iter(bad))


def test_columns_of_a_delta_table_may_have_any_names(spark: Cluster, tmp_path: Path) -> None:
    frame = rows((1, 10, "a")).with_columns(tick=pl.lit(5))
    df = delta_events(spark.session, delta(tmp_path, [(20, frame)]))
    assert [(row.user, row.tick) for row in df.collect()] == [(1, 5)]
    with pytest.raises(InvalidInputError) as caught:
        delta_events(spark.session, str(tmp_path / "table"), arrival="Time")
    assert caught.value.name == "arrival"


def test_rows_of_an_iceberg_table_arrive_with_their_snapshot(spark: Cluster, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = load_catalog("local", **properties)
    catalog.create_namespace("city")
    frames = [rows((1, 10, "a")), rows((2, 70, "b"), (3, 80, "b"))]
    first = frames[0].to_arrow(compat_level=pl.CompatLevel.oldest())
    table = catalog.create_table("city.visits", schema=first.schema)
    for frame in frames:
        table.append(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    df = iceberg_events(spark.session, "local", "city.visits", properties=properties)
    found = {row.user: row.arrived.timestamp() for row in df.collect()}
    committed = [snapshot.timestamp_ms / 1000 for snapshot in table.snapshots()]
    assert found == {1: committed[0], 2: committed[1], 3: committed[1]}
    table.delete("user = 1")
    with pytest.raises(InvalidInputError, match="deleted rows"):
        iceberg_events(spark.session, "local", "city.visits", properties=properties)


def test_rows_of_a_directory_arrive_when_their_file_was_written(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.functions import col

    folder = tmp_path / "visits"
    folder.mkdir()
    written = {"first": (30, rows((1, 10, "a"))), "second": (64, rows((2, 59, "b"), (3, 61, "a")))}
    # Too late for the first hour, also with five minutes of grace.
    written["third"] = (66, rows((4, 50, "a"), (5, 62, "b")))
    for name, (minute, frame) in written.items():
        frame.write_parquet(folder / f"{name}.parquet")
        seconds = (START + minute * MINUTE) // 1_000_000
        os.utime(folder / f"{name}.parquet", (seconds, seconds))
    df = spark.session.read.parquet(str(folder)).withColumn("arrived", col("_metadata.file_modification_time"))
    with publisher(tmp_path) as opened:
        seen = Seen(monkeypatch)
        stream = closed_steps(opened, time="time", grace="5m")
        publish_closed(df, stream, Stopped(START + 2 * HOUR + 5 * MINUTE))
    assert [seen.counts[step].tolist() for step in range(2)] == [[1, 1], [1, 1]]
    assert stream.dropped.late == 1


def test_a_streaming_query_lands_what_the_clock_then_closes(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streaming brings the rows in several turns and decides nothing: each counts by its own time."""
    source, landed = tmp_path / "source", tmp_path / "landed"
    given = some_rows(200)
    for number in range(4):
        frame_of(spark, given[number::4]).write.parquet(str(source), mode="append")
    stream = spark.session.readStream.schema(frame_of(spark, []).schema).option("maxFilesPerTrigger", "1")
    query = (
        stream.parquet(str(source))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(landed))
    )
    query.awaitTermination()
    df = spark.session.read.parquet(str(landed))
    assert df.count() == len(given)
    with publisher(tmp_path) as opened:
        seen = Seen(monkeypatch)
        publish_closed(df, closed_steps(opened), Stopped(START + 6 * HOUR))
    assert (np.array([seen.counts[step] for step in range(6)]) == expected(given)).all()


def messages(spark: Cluster, content: list[tuple[int, str]], kind: int = 1) -> Any:
    """What Spark's Kafka source gives."""
    given = [(None, value.encode(), "visits", 0, place, tick, kind) for place, (tick, value) in enumerate(content)]
    names = "key binary, value binary, topic string, partition int, offset long, tick long, timestampType int"
    df = spark.session.createDataFrame(given, names)
    return df.selectExpr(
        "key", "value", "topic", "partition", "offset", "timestamp_micros(tick) timestamp", "timestampType"
    )


def test_messages_arrive_when_the_broker_says_and_not_their_sender(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = [
        (START + MINUTE, '{"user": 1, "place": "a", "arrived": "2030-01-01"}'),
        (START + 2 * MINUTE, '{"user": 2, "place": "b"}'),
        (START + 3 * MINUTE, "not JSON"),
        (START + HOUR, '{"user": 3, "place": "b"}'),
    ]
    schema = "user long, place string, arrived string"
    df = kafka_events(messages(spark, content), schema)
    assert df.columns == ["arrived", "user", "place"]
    with publisher(tmp_path) as opened:
        seen = Seen(monkeypatch)
        stream = closed_steps(opened)
        publish_closed(df, stream, Stopped(START + 2 * HOUR))
        assert np.array([seen.counts[0], seen.counts[1]]).tolist() == [[1, 1], [0, 1]]
        assert stream.dropped.no_user == 1
    with pytest.raises(EngineError, match="LogAppendTime"), on_cluster():
        kafka_events(messages(spark, content[:1], kind=0), schema).collect()


def test_the_range_of_messages_is_that_of_the_steps_that_are_due(tmp_path: Path) -> None:
    with publisher(tmp_path) as opened:
        options = kafka_options(closed_steps(opened, grace="5m"), Stopped(START + 3 * HOUR))
        assert options["startingTimestamp"] == str(START // 1000)
        assert options["endingTimestamp"] == str((START + 2 * HOUR + 5 * MINUTE) // 1000)
        assert options["startingOffsetsByTimestampStrategy"] == "latest"
        timed = kafka_options(closed_steps(opened, time="time"), Stopped(START))
        assert timed == {"startingOffsets": "earliest", "endingTimestamp": str((START + HOUR) // 1000)}
