"""Run by itself: a client of Spark Connect, as notebooks have it, counts and publishes what one machine finds."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.spark.support import CALENDAR, DOMAIN, KEY, OPTIONS, alone, opened, random_table
from tests.spark.test_closing import HOUR, START, Seen, Stopped, closed_steps, expected, publisher, some_rows
from tests.spark.test_identity import IDS
from veilstream.errors import EngineError, UnknownValueError
from veilstream.spark import publish_closed, snapshots


def refused(session: Any, user: str, place: str) -> BaseException | None:
    df = session.sql(f"select {user} as user, '2024-03-31' as time, {place} as place, 30.0d as age")
    try:
        list(snapshots(df, domain=DOMAIN, calendar=CALENDAR, user="user", time="time"))
    except (EngineError, UnknownValueError) as error:
        return error
    return None


def main(folder: Path) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session: Any = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    table = random_table(IDS["text"], 4)
    counted: dict[str, Any] = {"domain": DOMAIN, "calendar": CALENDAR, "user": "user", "time": "time", "key": KEY}
    found = opened(snapshots(session.createDataFrame(table).repartition(3), **counted, **OPTIONS))
    rows = some_rows()
    df = session.createDataFrame(rows, "user long, time long, arrived long, place string")
    df = df.selectExpr("user", "timestamp_micros(time) as time", "timestamp_micros(arrived) as arrived", "place")
    with pytest.MonkeyPatch.context() as watched, publisher(folder) as stream:
        seen = Seen(watched)
        publish_closed(df, closed_steps(stream, steps_at_once=4), Stopped(START + 6 * HOUR))
    failed, unknown = refused(session, "raise_error('a secret')", "'a'"), refused(session, "1", "'a secret'")
    session.stop()
    return {
        "remote": "connect" in type(session).__module__,
        "equal": bool((found == alone(table, **OPTIONS)).all() and found.sum() > 0),
        "published": bool((np.array(list(seen.counts.values())) == expected(rows)).all()),
        "errors": [type(failed).__name__, type(unknown).__name__],
        "quoted": any("secret" in str(error) for error in (failed, unknown)),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(Path(sys.argv[1]))))
