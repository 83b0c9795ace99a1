"""One person's rows reach nobody else on a cluster either; a few cases alone, as each is several jobs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa

from tests.isolation.harness import Door, Seen
from tests.isolation.rows import CALENDAR, DOMAIN, LIMITS, MEASURES, ZONE, tables, unsealed
from tests.isolation.test_isolation import tried
from tests.spark.conftest import Cluster
from veilstream.data.measures import ValueMeasures
from veilstream.spark import snapshots


def counted(spark: Cluster, measures: ValueMeasures | None, table: pa.Table, _: Path) -> Seen:
    frame = spark.session.createDataFrame(table)
    return unsealed(
        lambda: snapshots(
            frame, domain=DOMAIN, calendar=CALENDAR, user="id", time="time", measures=measures, missing_value="drop",
            buckets=2, **LIMITS,
        )
    )  # fmt: skip


def test_rows_of_one_person_reach_nobody_else_on_a_cluster(spark: Cluster, tmp_path: Path) -> None:
    # Spark takes a time without a zone for one of its session's.
    session = spark.session.conf.get("spark.sql.session.timeZone")
    spark.session.conf.set("spark.sql.session.timeZone", ZONE)
    try:
        for measures in (None, MEASURES):
            door = Door("spark", tables(stored=True), partial(counted, spark, measures))
            tried(door, tmp_path, 3, fixed=True)
    finally:
        spark.session.conf.set("spark.sql.session.timeZone", session)
