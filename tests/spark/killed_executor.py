"""Run by itself: a small cluster with two executors, one of which is killed, with every encryption turned on.

Planted ids, keys and a count are then searched for in the files of both executors and in their logs. A second argument
turns encryption off, to see that the search finds what is not encrypted.
"""

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

from tests.spark.support import KEY, alone, holders, opened, written
from veilstream.data import Calendar, Categories, Domain, Dropped
from veilstream.data.bounding.keyed import CHOICE, PEOPLE, Key
from veilstream.data.identity import digest
from veilstream.spark import local_session, snapshots

PARTITIONS = 4
PERSON, COUNT = "planted-person-8f3a61", 64_997
"""The count is no port, and hardly the size of anything else."""
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
    # Compressed files would hide what they hold from the search.
    "spark.shuffle.compress": "false",
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


def needles() -> dict[str, bytes]:
    """What must be nowhere in a file or a log."""
    key = Key(KEY)
    return {
        "an id": PERSON.encode(),
        "its digest": digest(PERSON, key.derive(PEOPLE)),
        "the key": KEY,
        "the key of people": key.derive(PEOPLE),
        "the key of choices": key.derive(CHOICE),
        "a count": f"{COUNT}".encode(),
    }


def some_table() -> pl.DataFrame:
    """Random rows of three steps, and a step with a planted count in its first bin."""
    draw = np.random.default_rng(12)  # noqa: TID251
    rows = 60_000
    people = [f"p{one}" for one in draw.integers(0, 900, rows).tolist()]
    planted = [PERSON, *[f"p{one}" for one in range(COUNT - 1)]]
    return pl.DataFrame(
        {
            "user": people + planted,
            "time": np.concatenate([draw.integers(0, 3, rows), np.full(COUNT, 3)]),
            "bin": np.concatenate([draw.integers(0, 9, rows), np.zeros(COUNT, dtype=np.int64)]),
        }
    )


def main(folder: str, encrypted: str = "true") -> None:
    warnings.simplefilter("ignore")
    table = some_table()
    domain, calendar = Domain({"bin": Categories(range(9))}), Calendar(0, 4, 1)
    expected = alone(table, domain, calendar)
    files = Path(folder, "files")
    files.mkdir()
    more = {"spark.local.dir": str(files), "spark.io.encryption.enabled": encrypted}
    session = local_session(settings={**SETTINGS, **more})
    df = session.createDataFrame(table.to_arrow()).repartition(PARTITIONS)
    source: Any = df.mapInArrow(killing(folder), df.schema)
    left_out = Dropped()
    steps = snapshots(source, domain=domain, calendar=calendar, user="user", time="time", key=KEY, dropped=left_out)
    equal = bool((opened(steps) == expected).all()) and replace(left_out, last_step=-1) == Dropped()
    # Workers of such a cluster keep their logs where Spark is installed.
    logs = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
    places = [*written(files), *written(logs)]
    names = [name for name, _ in places]
    print(
        json.dumps(
            {
                "equal": equal and int(expected[3, 0]) == COUNT,
                "killed": Path(folder, "killed").exists(),
                "logs": sum(name.endswith("stderr") for name in names),
                "shuffled": sum("shuffle" in name and name.endswith(".data") for name in names),
                "holders": holders(needles(), places),
            }
        )
    )
    session.stop()
    shutil.rmtree(logs, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
