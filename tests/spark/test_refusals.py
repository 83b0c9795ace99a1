"""What cannot be counted is refused as on one machine, and nothing of a row shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import CALENDAR, DOMAIN, KEY, alone
from veilstream.errors import EngineError, InvalidInputError, UnknownValueError, VeilstreamError
from veilstream.spark import records, snapshots
from veilstream.spark.environment import environment
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
    assert (there.value.name, there.value.limit) == (here.value.name, here.value.limit)
    assert isinstance(there.value, InvalidInputError)


def test_times_with_and_without_zone_in_different_tasks_are_refused(spark: Cluster) -> None:
    rows = [GOOD, (2, "2024-03-31T12:00:00+01:00", "a", 30.0)]
    df = spark.session.createDataFrame(rows, COLUMNS).repartitionByRange(2, "user")
    with pytest.raises(InvalidInputError, match="all must be alike"):
        list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))


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


def test_unknown_values_are_refused_by_default(spark: Cluster) -> None:
    with pytest.raises(UnknownValueError):
        counted(spark, [GOOD, (2, GOOD[1], None, 30.0)])
