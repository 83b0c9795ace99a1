"""On a cluster every count is what one machine finds with the same key."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import CALENDAR, DOMAIN, KEY, OPTIONS, alone, opened, random_table, repeated
from veilstream.data import Calendar, Categories, Domain, Dropped
from veilstream.spark import snapshots
from veilstream.spark.worker import adding, bounding

ROWS = 3000
IDS: dict[str, pa.Array] = {
    "long": repeated([1, 2, -7, 2**62, 12345], ROWS, 1, pa.int64()),
    "double": repeated([1.0, 2.0, float("nan"), -7.0], ROWS, 2, pa.float64()),
    "decimal": repeated([Decimal("1.50"), Decimal("7"), Decimal(2**63)], ROWS, 3, pa.decimal128(22, 2)),
    "text": repeated(["7", "+7", " 007", "7.0", "Ann", "ann", "é", "e\u0301", "", "x" * 300], ROWS, 4, pa.string()),
    "binary": repeated([b"7", b"Ann", "é".encode(), b" "], ROWS, 5, pa.binary()),
    "many": pa.array(np.random.default_rng(6).integers(0, 1000, ROWS)),  # noqa: TID251
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_type_nulls_unknown_values_and_limits(spark: Cluster, kind: str) -> None:
    table = random_table(IDS[kind], seed=len(kind))
    k, l1 = len(kind) % 3 + 1, len(kind) % 2 + 1
    options: dict[str, Any] = {"bins_per_user": k, "counts_per_user": l1, **OPTIONS}
    here, there = Dropped(), Dropped()
    expected = alone(table, dropped=here, **options)
    df = spark.session.createDataFrame(table).repartition(len(kind))
    found = snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY, dropped=there, **options)
    assert (opened(found) == expected).all()
    assert expected.sum() > 0
    for name in ("no_user", "unknown", "outside_time", "missing_time", "last_step"):
        assert getattr(here, name) == getattr(there, name)
    assert here.unknown > 0
    assert here.missing_time > 0


def times() -> dict[str, list[Any]]:
    text = ["2024-03-31T01:30:00", "2024-03-31 03:30", "2024-04-01", None] * 5
    return {
        "naive text": text,
        "text with offsets": [None if t is None else f"{t[:10]}T12:00:00+0{i % 3}:00" for i, t in enumerate(text)],
        "dates": [None if t is None else date.fromisoformat(t[:10]) for t in text],
        "naive": [None if t is None else datetime.fromisoformat(t) for t in text],
    }


@pytest.mark.parametrize("kind", times())
def test_times_of_every_kind_in_any_session_zone(spark: Cluster, kind: str) -> None:
    column: Any = times()[kind]
    named = "timestamp_ntz" if kind == "naive" else "date" if kind == "dates" else "string"
    rows = [(index % 7, time, "a", 30.0) for index, time in enumerate(column)]
    df = spark.session.createDataFrame(rows, f"user long, time {named}, place string, age double")
    source = {name: [row[i] for row in rows] for i, name in enumerate(("user", "time", "place", "age"))}
    expected = alone(source, **OPTIONS)
    found = snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY, **OPTIONS)
    assert (opened(found) == expected).all()
    assert expected.sum() > 0


ZONES = ("UTC", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "Europe/Paris")


def cut(df: Any, draw: Any) -> Any:
    """The same rows in other partitions: by number, by content, sorted, or all in one."""
    count = int(draw.integers(1, 12))
    ways = (df.repartition(count), df.repartition(count, "place"), df.repartitionByRange(count, "time"), df.coalesce(1))
    return ways[draw.integers(len(ways))]


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_zones_duplicates_partitions_and_limits(spark: Cluster, seed: int) -> None:
    """All at once, and every fourth row a second time, in another partition or in the same."""
    draw = np.random.default_rng(seed)  # noqa: TID251
    once = random_table(IDS[list(IDS)[seed % len(IDS)]], seed)
    table = pa.concat_tables([once, once.take(draw.integers(0, ROWS, ROWS // 4))])
    calendar = Calendar("2024-03-30", "2024-04-03", str(draw.choice(["1d", "7h", "90m"])), zone=draw.choice(ZONES))
    options: dict[str, Any] = {
        "bins_per_user": int(draw.integers(1, 5)),
        "counts_per_user": int(draw.integers(1, 7)),
        **OPTIONS,
    }
    here, there = Dropped(), Dropped()
    expected = alone(table, calendar=calendar, dropped=here, **options)
    session, setting = spark.session, "spark.sql.session.timeZone"
    before = session.conf.get(setting)
    session.conf.set(setting, str(draw.choice(ZONES)))
    try:
        df = cut(session.createDataFrame(table), draw)
        options |= {"buckets": int(draw.integers(1, 9)), "dropped": there}
        steps = snapshots(df, domain=DOMAIN, calendar=calendar, user="user", time="time", key=KEY, **options)
        found = opened(steps)
    finally:
        session.conf.set(setting, before)
    assert (found == expected).all()
    assert expected.sum() > 0
    for name in ("no_user", "unknown", "outside_time", "missing_time", "last_step"):
        assert getattr(here, name) == getattr(there, name)


def test_partitions_buckets_and_steps_in_parts_change_nothing(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(8)  # noqa: TID251
    table = pl.DataFrame(
        {
            "user": np.where(draw.random(60_000) < 0.5, 1, draw.integers(0, 500, 60_000)),
            "time": draw.integers(0, 40, 60_000),
            "a.b": draw.integers(0, 50, 60_000),
        }
    )
    domain, calendar = Domain({"a.b": Categories(range(50))}), Calendar(0, 40, 1)
    table.write_parquet(tmp_path / "events.parquet", row_group_size=5000)
    expected = alone(table, domain, calendar, bins_per_user=2, counts_per_user=3)
    df = spark.session.read.parquet(str(tmp_path))
    monkeypatch.setattr("veilstream.spark.counting.ANSWER_CELLS", 500)
    for source, buckets in ((df, 1), (df.repartition(7), 3), (df.sort("time"), None)):
        steps = snapshots(
            source, domain=domain, calendar=calendar, user="user", time="time", key=KEY,
            bins_per_user=2, counts_per_user=3, buckets=buckets, first_t=100,
        )  # fmt: skip
        sealed = list(steps)
        assert [step.span.first for step in sealed] == list(range(100, 140))
        assert {step.l1 for step in sealed} == {3}
        assert (opened(sealed) == expected).all()


@pytest.mark.parametrize(
    "names",
    [
        ("User", "user", "USER", "uSer"),
        ("a.b", "b`c", "*", "`"),
        ("c1", "c0", "bucket", "payload"),
        ("part", "_metadata", "${spark.master}", "x\ny"),
    ],
)
def test_names_of_columns_mean_nothing_to_spark(spark: Cluster, names: tuple[str, ...]) -> None:
    table = random_table(IDS["text"], 5)
    user, time, place, age = names
    domain = Domain({place: DOMAIN.axes["place"], age: DOMAIN.axes["age"]})
    df = spark.session.createDataFrame(table.rename_columns(list(names)))
    found = snapshots(df, domain=domain, calendar=CALENDAR, user=user, time=time, key=KEY, **OPTIONS)
    assert (opened(found) == alone(table, **OPTIONS)).all()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "+05:30"),
        ("spark.sql.session.timeZone", "GMT+5"),
        ("spark.sql.session.timeZone", "Z"),
        ("spark.sql.session.timeZone", "PST"),
        ("spark.sql.execution.arrow.maxRecordsPerBatch", "1"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.parser.quotedRegexColumnNames", "true"),
        ("spark.sql.shuffle.partitions", "1"),
    ],
)
def test_settings_of_the_session_change_nothing(spark: Cluster, setting: str, value: str) -> None:
    table = random_table(IDS["long"], 6)
    before = spark.session.conf.get(setting)
    spark.session.conf.set(setting, value)
    try:
        df = spark.session.createDataFrame(table.slice(0, 400)).repartition(3)
        found = opened(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY, **OPTIONS))
    finally:
        spark.session.conf.set(setting, before)
    expected = alone(table.slice(0, 400), **OPTIONS)
    assert (found == expected).all()
    assert expected.sum() > 0


def test_no_rows_still_give_every_step(spark: Cluster) -> None:
    df = spark.session.createDataFrame([], "user long, time timestamp, place string, age double")
    found = opened(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))
    assert found.shape == (CALENDAR.steps, DOMAIN.bins)
    assert not found.any()


def dying_once(marks: str) -> Any:
    """A source whose tasks are killed in the middle of a batch the first time."""

    def die(batches: Any) -> Any:
        import os
        import uuid
        from pathlib import Path

        from pyspark import TaskContext

        context: Any = TaskContext.get()
        for index, batch in enumerate(batches):
            if index == 1 and context.attemptNumber() == 0:
                Path(marks, uuid.uuid4().hex).touch()
                os._exit(1)
            yield batch

    return die


def test_killed_tasks_run_again_and_change_nothing(spark: Cluster, tmp_path: Path) -> None:
    draw = np.random.default_rng(9)  # noqa: TID251
    table = pl.DataFrame(
        {"user": draw.integers(0, 900, 50_000), "time": draw.integers(0, 3, 50_000), "bin": draw.integers(0, 9, 50_000)}
    )
    domain, calendar = Domain({"bin": Categories(range(9))}), Calendar(0, 3, 1)
    df = spark.session.createDataFrame(table.to_arrow()).repartition(2)
    killed = df.mapInArrow(dying_once(str(tmp_path)), df.schema)
    left_out = Dropped()
    steps = snapshots(killed, domain=domain, calendar=calendar, user="user", time="time", key=KEY, dropped=left_out)
    assert (opened(steps) == alone(table, domain, calendar)).all()
    assert len(list(tmp_path.iterdir())) == 2
    assert replace(left_out, last_step=-1) == Dropped()


def dying_in(stage: Any, marks: str) -> Any:
    """A stage whose tasks are killed the first time, after they have handed over a part of their answer."""

    def build(*job: Any) -> Any:
        run = stage(*job)

        def die(key: Any, batches: Any) -> Any:
            import os
            import uuid
            from pathlib import Path

            from pyspark import TaskContext

            context: Any = TaskContext.get()
            for batch in run(key, batches):
                yield batch
                if context.attemptNumber() == 0:
                    Path(marks, uuid.uuid4().hex).touch()
                    os._exit(1)

        die.__annotations__ = run.__annotations__
        return die

    return build


@pytest.mark.parametrize("stage", [bounding, adding], ids=["bounding", "adding"])
def test_tasks_killed_after_the_shuffle_run_again_and_change_nothing(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Any
) -> None:
    table = random_table(IDS["many"], 3)
    monkeypatch.setattr(f"veilstream.spark.counting.{stage.__name__}", dying_in(stage, str(tmp_path)))
    df = spark.session.createDataFrame(table).repartition(3)
    here, there = Dropped(), Dropped()
    options: dict[str, Any] = {"bins_per_user": 2, "counts_per_user": 2, **OPTIONS}
    steps = snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY, dropped=there, **options)
    assert (opened(steps) == alone(table, dropped=here, **options)).all()
    assert list(tmp_path.iterdir())
    assert replace(here, last_step=-1) == replace(there, last_step=-1)
