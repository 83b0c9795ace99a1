"""What cannot be counted is refused as on one machine, and nothing of a row shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import CALENDAR, DOMAIN, KEY, alone, opened
from veilstream.errors import EngineError, InvalidInputError, UnknownValueError, VeilstreamError
from veilstream.spark import records, snapshots
from veilstream.spark.environment import environment
from veilstream.spark.jobs import LARGE_SETTING, on_cluster
from veilstream.spark.worker import mismatch

GOOD = (1, "2024-03-31 12:00:00", "a", 30.0)
COLUMNS = "user long, time string, place string, age double"


def counted(spark: Cluster, rows: list[tuple[Any, ...]], columns: str = COLUMNS, **options: Any) -> None:
    df = spark.session.createDataFrame(rows, columns).repartition(2)
    list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY, **options))


@pytest.mark.parametrize(
    ("bad", "columns"),
    [
        ((1, GOOD[1], "secret place", 30.0), COLUMNS),
        ((1, "1999-01-01", "a", 30.0), COLUMNS),
        ((1, None, "a", 30.0), COLUMNS),
        ((1.5, *GOOD[1:]), COLUMNS.replace("long", "double")),
        ((b"\xff", *GOOD[1:]), COLUMNS.replace("user long", "user binary")),
        ((True, *GOOD[1:]), COLUMNS.replace("long", "boolean")),
    ],
    ids=["unknown value", "outside", "no time", "fraction", "bytes", "boolean"],
)
def test_the_error_is_that_of_one_machine(spark: Cluster, bad: tuple[Any, ...], columns: str) -> None:
    source = {name: [value] for name, value in zip(("user", "time", "place", "age"), bad, strict=True)}
    with pytest.raises(VeilstreamError) as here:
        alone(source)
    with pytest.raises(type(here.value)) as there:
        counted(spark, [bad], columns)
    assert str(there.value) == str(here.value)
    for field in ("name", "limit", "outcome", "next_step"):
        assert getattr(there.value, field) == getattr(here.value, field)
    assert isinstance(there.value, InvalidInputError)


def test_times_with_and_without_zone_in_different_tasks_are_read_each_by_itself(spark: Cluster) -> None:
    rows = [GOOD, (2, "2024-03-31T12:00:00+01:00", "a", 30.0)]
    df = spark.session.createDataFrame(rows, COLUMNS).repartitionByRange(2, "user")
    there = snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY)
    here = alone(dict(zip(("user", "time", "place", "age"), map(list, zip(*rows, strict=True)), strict=True)))
    assert np.array_equal(opened(there), here)


def test_another_version_on_an_executor_is_refused(spark: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {**environment(), "polars": "0.0.1"}
    monkeypatch.setattr("veilstream.spark.counting.environment", lambda: other)
    with pytest.raises(InvalidInputError) as caught:
        counted(spark, [GOOD])
    assert caught.value.name == "polars of an executor"
    assert "0.0.1" in str(caught.value)
    monkeypatch.setattr("veilstream.spark.sparse.environment", lambda: other)
    df = spark.session.createDataFrame([GOOD], COLUMNS)
    with pytest.raises(InvalidInputError) as caught:
        records(df, domain=DOMAIN, user="user", key=KEY)
    assert caught.value.name == "polars of an executor"


@pytest.mark.parametrize("part", environment())
def test_every_part_of_the_environment_is_compared(part: str) -> None:
    refused = mismatch({**environment(), part: "another"})
    assert refused is not None
    assert (refused.name, refused.value) == (f"{part} of an executor", environment()[part])
    assert "the driver has another" in str(refused)
    assert mismatch(environment()) is None


def test_a_missing_column_and_too_many_buckets_are_refused(spark: Cluster) -> None:
    with pytest.raises(InvalidInputError, match="'place' is missing"):
        counted(spark, [GOOD], COLUMNS.replace("place", "town"))
    with pytest.raises(InvalidInputError) as caught:
        counted(spark, [GOOD], buckets=1 << 17)
    assert caught.value.name == "buckets"


def test_a_failed_job_does_not_quote_rows(spark: Cluster) -> None:
    df = spark.session.createDataFrame([("not a number",)], "text string")
    df = df.selectExpr("cast(text as long) as user", "'2024-03-31' as time", "'a' as place", "30.0d as age")
    with pytest.raises(EngineError) as caught:
        list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))
    assert "not a number" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_file_that_is_gone_or_broken_shows_nothing_of_java(spark: Cluster, tmp_path: Path) -> None:
    """Spark has no class of Python for such errors, and leaves those of Java as they are."""
    gone, broken = tmp_path / "gone.parquet", tmp_path / "broken.parquet"
    spark.session.createDataFrame([GOOD], COLUMNS).write.parquet(str(gone))
    frames = [spark.session.read.parquet(str(gone))]
    shutil.rmtree(gone)
    broken.write_bytes(b"PAR1 a secret PAR1")
    frames.append(spark.session.read.schema(COLUMNS).parquet(str(broken)))
    for df in frames:
        with pytest.raises(EngineError, match="the Spark job failed with") as caught:
            list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))
        assert "org.apache" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert caught.value.__suppress_context__


def test_a_session_that_has_ended_is_told_as_such() -> None:
    with pytest.raises(EngineError, match="session has ended") as caught, on_cluster():
        raise ConnectionRefusedError
    assert "start a session" in caught.value.next_step


@pytest.mark.parametrize("python", ["no-such-python", "false"])
def test_a_python_that_does_not_start_is_named(spark: Cluster, monkeypatch: pytest.MonkeyPatch, python: str) -> None:
    monkeypatch.setattr(spark.session.sparkContext, "pythonExec", python)
    with pytest.raises(EngineError, match="Python does not start") as caught:
        counted(spark, [GOOD])
    assert "PYSPARK_PYTHON" in caught.value.next_step


def test_errors_of_a_task_are_told_by_their_kind(spark: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def encoding(_job: Any) -> Any:
        def fails(_batches: Any) -> Any:
            raise RuntimeError("veilstream: ZeroDivisionError in a task; a secret")

        return fails

    monkeypatch.setattr("veilstream.spark.counting.encoding", encoding)
    with pytest.raises(EngineError, match="failed with ZeroDivisionError") as caught:
        counted(spark, [GOOD])
    assert "secret" not in str(caught.value)


def test_an_error_whose_text_is_lost_with_java_is_told_by_its_class() -> None:
    class Lost(ConnectionError):
        def __str__(self) -> str:
            raise OSError

    with pytest.raises(EngineError, match="failed with Lost"), on_cluster():
        raise Lost


@pytest.mark.parametrize(
    "kind", ["array(1)", "map(1, 2)", "named_struct('x', 1)", "interval 3 years", "parse_json('1')"]
)
@pytest.mark.parametrize("column", ["user", "place"])
def test_columns_without_single_values_are_refused_by_type(spark: Cluster, kind: str, column: str) -> None:
    df = spark.session.createDataFrame([GOOD], COLUMNS).selectExpr("*", f"{kind} as odd")
    df = df.drop(column).withColumnRenamed("odd", column)
    with pytest.raises(InvalidInputError) as caught:
        list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", unknown="drop"))
    assert caught.value.name == f"column '{column}' of type"
    assert caught.value.outcome == "nothing was read"


def test_only_dataframes_of_batches_are_taken(spark: Cluster) -> None:
    stream = spark.session.readStream.format("rate").load()
    given: list[tuple[Any, str]] = [(stream, "a stream"), ([GOOD], "list"), (None, "NoneType")]
    for df, value in given:
        with pytest.raises(InvalidInputError) as caught:
            list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))
        assert (caught.value.name, caught.value.value) == ("df", value)


def test_a_session_with_large_types_of_arrow_is_refused(spark: Cluster) -> None:
    spark.session.conf.set(LARGE_SETTING, "true")
    try:
        with pytest.raises(InvalidInputError) as caught:
            counted(spark, [GOOD])
    finally:
        spark.session.conf.unset(LARGE_SETTING)
    assert caught.value.name == LARGE_SETTING


def test_unknown_values_are_refused_by_default(spark: Cluster) -> None:
    with pytest.raises(UnknownValueError):
        counted(spark, [GOOD, (2, GOOD[1], None, 30.0)])
