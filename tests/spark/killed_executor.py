"""Run by itself: a small cluster with two executors, one of which is killed, with every encryption turned on."""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyspark

from tests.spark.support import KEY, alone, opened
from veilstream.data import Calendar, Categories, Domain, Dropped
from veilstream.spark import local_session, snapshots

PARTITIONS = 4
SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "4",
    "spark.authenticate": "true",
    "spark.authenticate.secret": "a secret of this test",
    "spark.network.crypto.enabled": "true",
}


def killing(marks: str) -> Any:
    """A source in which the first try of one task kills its executor."""

    def kill(batches: Any) -> Any:
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context: Any = TaskContext.get()
        yield from batches
        killed = Path(marks, "killed")
        if context.partitionId() == 3 and not killed.exists():
            killed.touch()
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)

    return kill


def main(folder: str) -> None:
    warnings.simplefilter("ignore")
    draw = np.random.default_rng(12)  # noqa: TID251
    rows = 60_000
    table = pl.DataFrame(
        {"user": draw.integers(0, 900, rows), "time": draw.integers(0, 4, rows), "bin": draw.integers(0, 9, rows)}
    )
    domain, calendar = Domain({"bin": Categories(range(9))}), Calendar(0, 4, 1)
    expected = alone(table, domain, calendar)
    session = local_session(settings=SETTINGS)
    df = session.createDataFrame(table.to_arrow()).repartition(PARTITIONS)
    source: Any = df.mapInArrow(killing(folder), df.schema)
    left_out = Dropped()
    steps = snapshots(source, domain=domain, calendar=calendar, user="user", time="time", key=KEY, dropped=left_out)
    equal = bool((opened(steps) == expected).all()) and replace(left_out, last_step=-1) == Dropped()
    print(json.dumps({"equal": equal, "killed": Path(folder, "killed").exists()}))
    application = session.sparkContext.applicationId
    session.stop()
    # Workers of such a cluster keep their logs where Spark is installed.
    shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
