"""DataFrames of events that know when each row arrived: tables of a lake by commit, Kafka by log-append time.

The arrival of a row decides whether it counts in a step. It must be told by the store that holds the row and not by
whoever sent it, nor by other rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from veilstream.data.columns import EPOCH
from veilstream.data.engines.lake import Commit, delta_commits, delta_table, iceberg_commits, iceberg_table
from veilstream.errors import InvalidInputError
from veilstream.spark.closing import Clock, ClosedSteps, next_step
from veilstream.spark.jobs import SENDERS_TIME, UNKNOWN_FILE, on_cluster, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG_APPEND_TIME: Final = 1
"""Kafka's ``timestampType`` of messages that the broker has stamped."""
FILE_NAME: Final = "veilstream_file_name"
TICK: Final = "veilstream_tick"
"""Columns that are there while files are told apart."""
MILLISECOND: Final = 1000


def delta_events(
    session: SparkSession,
    path: str,
    *,
    arrival: str = "arrived",
    since: datetime | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a Delta table that only grows, with the time of the commit that brought them as ``arrival``.

    Commits before ``since`` are left out unread: give the beginning of the first step that is not published. It needs
    ``veilstream[lake]`` on the driver and no connector in the session. A version that changes rows is refused.
    """
    known = dict(options or {})
    schema = delta_table(path, known).schema().to_arrow()
    return _arrived(session, delta_commits(path, known, since=_tick(since)), schema, arrival)


def iceberg_events(
    session: SparkSession,
    catalog: str,
    table: str,
    *,
    arrival: str = "arrived",
    since: datetime | None = None,
    properties: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of an Iceberg table that only grows; the rest is as in :func:`delta_events`."""
    found = iceberg_table(catalog, table, properties or {})
    commits = iceberg_commits(found, table, since=_tick(since))
    return _arrived(session, commits, found.schema().as_arrow(), arrival)


def kafka_options(stream: ClosedSteps, clock: Clock) -> dict[str, str]:
    """Options of Spark's Kafka source that read what may count in the steps that are due and not published.

    They name moments of the calendar alone. A partition without messages after the first of them is read as empty. A
    stream with a ``time`` of its own reads from the earliest message, since rows may come before their time.
    """
    due, first = stream.due(clock.now()), next_step(stream)
    since = stream.begins(min(stream.settings().looks_back_to(t) for t in range(first, max(due, first + 1))))
    until = stream.deadline(max(due, first + 1) - 1)
    ends = {"endingTimestamp": str(-(-until // MILLISECOND))}
    if stream.time is not None and stream.time != stream.arrival:
        return {"startingOffsets": "earliest", **ends}
    return {
        "startingTimestamp": str(since // MILLISECOND),
        "startingOffsetsByTimestampStrategy": "latest",
        **ends,
    }


def kafka_events(messages: DataFrame, schema: str, *, arrival: str = "arrived") -> DataFrame:
    """JSON messages of Spark's Kafka source as columns of ``schema``, with the time of the broker as ``arrival``.

    A message whose time was set by its sender ends the job: set ``message.timestamp.type=LogAppendTime`` on the topic.
    What is not JSON becomes a row of nulls, which is nobody's and is counted for the operator.
    """
    functions: Any = import_module("pyspark.sql.functions")
    stamped = functions.when(functions.col("timestampType") == LOG_APPEND_TIME, functions.col("timestamp")).otherwise(
        functions.raise_error(functions.lit(SENDERS_TIME))
    )
    value = functions.from_json(functions.col("value").cast("string"), schema)
    opened = messages.select(stamped.alias(arrival), value.alias("value"))
    fields: list[str] = [name for name in opened.select("value.*").columns if name != arrival]
    return opened.select(quoted(arrival), *[f"value.{quoted(name)}" for name in fields])


def _arrived(session: Any, commits: Iterable[Commit], schema: Any, arrival: str) -> DataFrame:
    """The rows of all files with the time at which each file was committed."""
    functions: Any = import_module("pyspark.sql.functions")
    arrow: Any = import_module("pyarrow")
    committed = {file: commit.committed for commit in commits for file in commit.files}
    # Most sessions take Arrived for arrived.
    if arrival.lower() in {name.lower() for name in arrow.schema(schema).names}:
        raise InvalidInputError(
            name="arrival", value=arrival, limit="the table has such a column; name another", outcome="nothing was read"
        )
    names = Counter(PurePosixPath(file).name for file in committed)
    if any(count > 1 for count in names.values()):
        raise InvalidInputError(
            "the table: two of its files have one name, so that their commits cannot be told apart; compact it",
            outcome="nothing was read",
        )
    with on_cluster():
        if not committed:
            empty = session.createDataFrame(arrow.schema(schema).empty_table())
            nothing: DataFrame = empty.withColumn(arrival, functions.lit(None).cast("timestamp"))
            return nothing
        known = session.createDataFrame(
            [(PurePosixPath(file).name, tick) for file, tick in committed.items()], f"{FILE_NAME} string, {TICK} bigint"
        )
        read = session.read.parquet(*committed).withColumn(FILE_NAME, functions.col("_metadata.file_name"))
        unknown = functions.raise_error(functions.lit(UNKNOWN_FILE)).cast("bigint")
        tick = functions.coalesce(functions.col(TICK), unknown)
        joined = read.join(functions.broadcast(known), FILE_NAME, "left")
        events: DataFrame = joined.withColumn(arrival, functions.timestamp_micros(tick)).drop(FILE_NAME, TICK)
        return events


def _tick(moment: datetime | None) -> int:
    if moment is None:
        return 0
    if moment.tzinfo is None:
        raise InvalidInputError(
            name="since", value=moment.isoformat(), limit="its zone is missing; give it, as in 2024-01-01T00:00+00:00"
        )
    return (moment - EPOCH) // timedelta(microseconds=1)
