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
LARGE_SETTING: Final = "spark.sql.execution.arrow.useLargeVarTypes"
"""Where it is true, Spark takes binary values in another type of Arrow than tasks give."""
WITHOUT_VALUES: Final = ("array", "map", "struct", "variant", "interval", "udt", "geometry", "geography")
"""How the names of types begin of which nothing can be counted."""
NO_SESSION: Final = (
    "SESSION_OR_CONTEXT_NOT_EXISTS",
    "NO_ACTIVE_SESSION",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "Py4JNetworkError",
    "EOFError",
)
"""How errors are called of a session that was stopped or whose Java is gone."""
SENDERS_TIME: Final = (
    "a Kafka message carries the time of its sender, and arrival must be the broker's; set "
    "message.timestamp.type=LogAppendTime on the topic"
)
UNKNOWN_FILE: Final = "a file of the table is in none of its commits; start the job again"


def require_columns(df: DataFrame, columns: Iterable[str]) -> None:
    """Refuse what is no DataFrame of a batch in which each of the named columns is there once."""
    if not isinstance(df, import_module("pyspark.sql").DataFrame):
        raise InvalidInputError(
            name="df", value=type(df).__name__, limit="a DataFrame of Spark is needed", outcome="nothing was read"
        )
    if df.isStreaming:
        raise InvalidInputError(
            name="df",
            value="a stream",
            limit="only a DataFrame of a batch says which rows have arrived",
            outcome="nothing was read",
            next_step="let the streaming query land its rows in files or a table, and read those",
        )
    present: list[str] = df.columns
    for name in columns:
        if present.count(name) != 1:
            problem = "is missing" if name not in present else f"occurs {present.count(name)} times"
            raise InvalidInputError(
                f"the DataFrame: column '{name}' {problem}, the columns are {', '.join(present)}",
                outcome="nothing was read",
                next_step="name the columns apart with select or withColumnRenamed; a field of a structure needs a "
                "column of its own",
            )


def plain(df: DataFrame) -> DataFrame:
    """The same columns as c0, c1 and so on.

    Names are not safe to refer by: a dot in them means a field of a structure, ``${...}`` a variable, and most
    sessions take ``User`` for ``user``.
    """
    return df.toDF(*[f"c{index}" for index in range(len(df.columns))])


def place(df: DataFrame, column: str) -> str:
    """The name that a column has in ``plain``."""
    return f"c{df.columns.index(column)}"


def numbered(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The named columns in this order, under plain names."""
    require_columns(df, columns)
    kinds = {entry.name: entry.dataType.simpleString() for entry in df.schema.fields}
    for name in columns:
        if kinds[name].startswith(WITHOUT_VALUES):
            raise InvalidInputError(
                name=f"column '{name}' of type",
                value=kinds[name],
                limit="numbers, text, truth values, dates and times can be counted",
                outcome="nothing was read",
                next_step="make a column of the part that is meant, or cast it",
            )
    return plain(df).select(*[place(df, name) for name in columns])


def quoted(name: str) -> str:
    """A column's name as Spark takes it, so that a dot does not mean a field of a structure."""
    return f"`{name.replace('`', '``')}`"


def bucket_count(df: DataFrame, buckets: int | None) -> int:
    """How many buckets of people there are: as given, or as many as the session makes partitions."""
    with on_cluster():
        require_columns(df, ())
        settings = df.sparkSession.conf
        if settings.get(LARGE_SETTING, "false") == "true":
            raise InvalidInputError(
                name=LARGE_SETTING, value="true", limit="false is needed in this session", outcome="nothing was read"
            )
        chosen: object = int(settings.get(BUCKETS_SETTING) or 200) if buckets is None else buckets
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
    try:
        yield
    except _failures() as error:
        raise _told(error) from None


def _failures() -> tuple[type[Exception], ...]:
    """What PySpark raises: its own errors, those of Java that it has no class for, and of a connection that broke."""
    spark: Any = import_module("pyspark.errors")
    try:
        java: Any = import_module("py4j.protocol")
    except ImportError:
        # The client of Spark Connect comes without Java.
        return spark.PySparkException, ConnectionError, EOFError
    return spark.PySparkException, java.Py4JError, ConnectionError, EOFError


def _told(error: Any) -> EngineError:
    """The error without its message; sentences of our own hold no value and stay."""
    try:
        message = str(error)
    except Exception:
        # The text of an error of Java is fetched from Java, which may have ended.
        message = ""
    ours = next((sentence for sentence in (SENDERS_TIME, UNKNOWN_FILE) if sentence in message), None)
    if ours is not None:
        return EngineError(ours)
    missing = re.search(r"No module named '([\w.]+)'", message)
    if missing is not None:
        return EngineError(
            f"Spark executors have no module '{missing[1]}': they need numpy, polars and pyarrow in the driver's "
            "versions; install them there or pack an environment with the job"
        )
    if "Cannot run program" in message or "pyspark.daemon" in message:
        return EngineError(
            "Spark executors: their Python does not start",
            next_step="let PYSPARK_PYTHON or spark.pyspark.python name a Python of the driver's version that they have",
        )
    kind = re.search(r"veilstream: (\w+) in a task", message)
    condition = kind[1] if kind else _condition(error)
    if condition in NO_SESSION:
        return EngineError(
            f"the Spark session has ended ({condition})", next_step="start a session and call this again with its data"
        )
    return EngineError(
        f"the Spark job failed with {condition}: the executors' logs say more",
        next_step="look there and start it again",
    )


def _condition(error: Any) -> str:
    """What Spark calls the error, else its class in Java, else in Python."""
    spark: Any = import_module("pyspark.errors")
    if isinstance(error, spark.PySparkException):
        return str(error.getCondition() or type(error).__name__)
    try:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getClass().getSimpleName())
    except Exception:
        return type(error).__name__
