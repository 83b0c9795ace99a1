"""Run by itself: a cluster of two hosts that starts copies of slow tasks, which then run beside the originals.

Spark puts a copy on another host than the original, so neither a local session nor a local cluster ever starts one: a
master and two workers run here on addresses of their own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import polars as pl
import pyspark

from tests.spark.support import KEY, alone, opened
from veilstream.data import Calendar, Categories, Domain, Dropped
from veilstream.spark import local_session, snapshots

PARTITIONS, SLOW, PATIENCE = 6, 4, 120.0
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.driver.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": "6",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.3",
}


@contextmanager
def daemon(folder: Path, host: str, role: str, *arguments: str) -> Iterator[None]:
    """A master or a worker of a standalone cluster."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JAVA}
    kind = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
    command = [str(program), kind, "--host", host, "--webui-port", "0", *arguments]
    with (folder / f"{role}-{host}.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def answers(host: str, port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the master does not answer"
            time.sleep(0.1)


def slowly(marks: str) -> Any:
    """A source one of whose tasks waits for its own copy before it ends, so that both run to the end."""

    def wait(batches: Any) -> Any:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        context: Any = TaskContext.get()
        yield from batches
        copy = Path(marks, "copy")
        if context.partitionId() == SLOW:
            if context.attemptNumber() > 0:
                copy.touch()
            deadline = time.monotonic() + PATIENCE
            while not copy.exists() and time.monotonic() < deadline:
                time.sleep(0.02)

    return wait


def copies(session: Any) -> int:
    """How many copies of tasks Spark has started."""
    root = f"{session.sparkContext.uiWebUrl}/api/v1/applications/{session.sparkContext.applicationId}"
    stages = json.loads(urlopen(f"{root}/stages?details=true&withSummaries=false").read())
    return sum(task["speculative"] for stage in stages for task in stage.get("tasks", {}).values())


def main(folder: str) -> None:
    warnings.simplefilter("ignore")
    draw = np.random.default_rng(13)  # noqa: TID251
    rows = 60_000
    table = pl.DataFrame(
        {"user": draw.integers(0, 900, rows), "time": draw.integers(0, 4, rows), "bin": draw.integers(0, 9, rows)}
    )
    domain, calendar = Domain({"bin": Categories(range(9))}), Calendar(0, 4, 1)
    expected = alone(table, domain, calendar)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    master = f"spark://127.0.0.1:{port}"
    place = Path(folder)
    with ExitStack() as cluster:
        cluster.enter_context(daemon(place, "127.0.0.1", "master", "--port", str(port)))
        answers("127.0.0.1", port)
        for host in ("127.0.0.2", "127.0.0.3"):
            work = ("--cores", "2", "--memory", "1g", "--work-dir", str(place / host), master)
            cluster.enter_context(daemon(place, host, "worker", *work))
        session = local_session(settings={"spark.master": master, **SETTINGS})
        df = session.createDataFrame(table.to_arrow()).repartition(PARTITIONS)
        source: Any = df.mapInArrow(slowly(folder), df.schema)
        left_out = Dropped()
        steps = snapshots(source, domain=domain, calendar=calendar, user="user", time="time", key=KEY, dropped=left_out)
        equal = bool((opened(steps) == expected).all()) and replace(left_out, last_step=-1) == Dropped()
        print(json.dumps({"equal": equal, "copied": (place / "copy").exists(), "copies": copies(session)}))
        session.stop()


if __name__ == "__main__":
    main(sys.argv[1])
