"""Run a job on the cluster and take its answer as Arrow, without letting rows into error messages."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from veilstream.data.bounding.buckets import MAX_BUCKETS
from veilstream.errors import EngineError, InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS_SETTING: Final = "spark.sql.shuffle.partitions"
SENDERS_TIME: Final = (
    "a Kafka message carries the time of its sender, and arrival must be the broker's; set "
    "message.timestamp.type=LogAppendTime on the topic"
)
UNKNOWN_FILE: Final = "a file of the table is in none of its commits; start the job again"


def require_columns(df: DataFrame, columns: Iterable[str]) -> None:
    """Refuse a DataFrame unless each of the named columns is there once."""
    present: list[str] = df.columns
    for name in columns:
        if present.count(name) != 1:
            problem = "is missing" if name not in present else f"occurs {present.count(name)} times"
            raise InvalidInputError(
                f"the DataFrame: column '{name}' {problem}, the columns are {', '.join(present)}",
                outcome="nothing was read",
            )


def numbered(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The named columns under plain names, since Spark takes a dot in a name for a field of a structure."""
    require_columns(df, columns)
    return df.selectExpr(*[f"{quoted(name)} as c{index}" for index, name in enumerate(columns)])


def quoted(name: str) -> str:
    """A column's name as Spark takes it, so that a dot does not mean a field of a structure."""
    return f"`{name.replace('`', '``')}`"


def bucket_count(df: DataFrame, buckets: int | None) -> int:
    """How many buckets of people there are: as given, or as many as the session makes partitions."""
    chosen: object = int(df.sparkSession.conf.get(BUCKETS_SETTING) or 200) if buckets is None else buckets
    if type(chosen) is not int or not 1 <= chosen <= MAX_BUCKETS:
        raise InvalidInputError(
            name="buckets", value=chosen, limit=f"a whole number from 1 to {MAX_BUCKETS}", outcome="nothing was read"
        )
    return chosen


def mapped(df: Any, function: Any, schema: str) -> Any:
    """A function over the batches of every partition."""
    return df.mapInArrow(function, schema)


def grouped(df: Any, by: str, function: Any, schema: str) -> Any:
    """A function over the batches of every group: rows with the same number are in one group by contract."""
    return df.groupBy(by).applyInArrow(function, schema)


def collected(df: Any) -> Any:
    """The rows as an Arrow table."""
    return df.toArrow()


@contextmanager
def on_cluster() -> Generator[None]:
    """Replace what the cluster says, which may quote rows, by what the operator can do."""
    errors: Any = import_module("pyspark.errors")
    try:
        yield
    except errors.PySparkException as error:
        missing = re.search(r"No module named '([\w.]+)'", str(error))
        condition = str(error.getCondition() or type(error).__name__)
        # Sentences of our own hold no value.
        ours = next((sentence for sentence in (SENDERS_TIME, UNKNOWN_FILE) if sentence in str(error)), None)
        raise EngineError(ours or _told(missing and missing[1], condition)) from None


def _told(missing: str | None, condition: str) -> str:
    if missing is not None:
        return (
            f"Spark executors have no module '{missing}': they need numpy, polars and pyarrow in the driver's "
            "versions; install them there or pack an environment with the job"
        )
    return f"the Spark job failed with {condition}: the executors' logs say more, look there and start it again"
