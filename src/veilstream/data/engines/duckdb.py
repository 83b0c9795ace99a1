"""Events in DuckDB: a relation in, sealed counts of every step out.

DuckDB reads, joins and filters on all cores of one big machine and hands over batches of Arrow; who is one person and
which rows count is decided by the code that decides it everywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from veilstream.data.bounding.bounded import MEMORY_BYTES, Bounded, bound
from veilstream.data.calendar import Calendar
from veilstream.data.domain import Domain
from veilstream.data.encoding import Dropped, Policy
from veilstream.data.events import read_events
from veilstream.data.measures import ValueMeasures
from veilstream.errors import EngineError, InvalidInputError
from veilstream.extras import load
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed

BATCH_ROWS: Final = 1 << 20
WIDE_INTEGERS: Final = ("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT")
"""Types that Arrow has no integer for; they travel as text, which is exact."""


def snapshots(
    relation: Any,
    *,
    domain: Domain,
    calendar: Calendar,
    user: str,
    time: str,
    key: bytes | None = None,
    bins_per_user: int = 1,
    counts_per_user: int = 1,
    unknown: Policy = "error",
    missing_time: Policy = "error",
    first_t: int = 0,
    memory_bytes: int = MEMORY_BYTES,
    directory: str | Path | None = None,
    dropped: Dropped | None = None,
    presence: Guarantee | None = None,
    measures: ValueMeasures | None = None,
    most: Fraction | None = None,
    missing_value: Policy = "error",
    distinct: int | None = None,
) -> Iterator[Sealed]:
    """The sealed counts of every step: with the same ``key`` those of :func:`veilstream.data.bounding.bound`.

    ``relation`` is a ``duckdb.DuckDBPyRelation``, which ``connection.sql`` and ``connection.table`` return. All rows
    are read and checked before this returns. Rows left out are added to ``dropped``, for the operator alone. As with
    ``bound``, ``measures``, ``most`` and ``missing_value`` sum up values, ``distinct`` counts people of that many last
    steps, and with ``presence`` people count in few steps.

    >>> import duckdb
    >>> from veilstream.data import Categories
    >>> visits = duckdb.sql("select i % 3 as id, i // 4 as hour, 'a' as place from range(8) as numbers(i)")
    >>> places = Domain({"place": Categories(["a", "b"])})
    >>> len(list(snapshots(visits, domain=places, calendar=Calendar(0, 2, 1), user="id", time="hour")))
    2
    """
    attributes = (*domain.names, *(() if measures is None else measures.names))
    columns = read_events((), user=user, time=time, by=attributes).columns
    with _in_duckdb():
        reader = _reader(_projected(relation, columns, user))
        bounded = bound(
            read_events(_batches(reader), user=user, time=time, by=attributes),
            domain,
            calendar,
            bins_per_user=bins_per_user,
            counts_per_user=counts_per_user,
            key=key,
            unknown=unknown,
            missing_time=missing_time,
            memory_bytes=memory_bytes,
            directory=directory,
            presence=presence,
            measures=measures,
            most=most,
            missing_value=missing_value,
            distinct=distinct,
        )
    if dropped is not None:
        dropped.add(bounded.dropped)
    return _all_steps(bounded, first_t)


def _all_steps(bounded: Bounded, first_t: int) -> Iterator[Sealed]:
    with bounded:
        yield from bounded.snapshots(first_t)


def _projected(relation: Any, columns: tuple[str, ...], user: str) -> Any:
    if not isinstance(relation, import_module("duckdb").DuckDBPyRelation):
        raise InvalidInputError(
            name="relation", value=type(relation).__name__, limit="a DuckDBPyRelation", outcome="nothing was read"
        )
    names: list[str] = list(relation.columns)
    for column in columns:
        # DuckDB takes the first of User and user for both.
        alike = sum(name.lower() == column.lower() for name in names)
        if column not in names or alike != 1:
            problem = "is missing" if column not in names else f"occurs {alike} times"
            raise InvalidInputError(
                f"the relation: column '{column}' {problem}, the columns are {', '.join(names)}",
                outcome="nothing was read",
                next_step="name the columns apart in the query",
            )
    wide = str(relation.types[names.index(user)]) in WIDE_INTEGERS
    quoted = {column: '"' + column.replace('"', '""') + '"' for column in columns}
    parts = [f"cast({quoted[column]} as varchar) as {quoted[column]}" for column in columns if wide and column == user]
    return relation.project(", ".join(parts + [quoted[column] for column in columns if not wide or column != user]))


def _reader(relation: Any) -> Any:
    # Older releases have the same under another name.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(BATCH_ROWS)


def _batches(reader: Any) -> Iterator[Any]:
    """The batches of a query that runs while they are read, and may fail on any of them."""
    with _in_duckdb():
        yield from reader


@contextmanager
def _in_duckdb() -> Generator[None]:
    """Replace what DuckDB says, which may quote rows."""
    duckdb = load("duckdb", "DuckDB support")
    arrow_error: type[Exception] = import_module("pyarrow").ArrowException
    try:
        yield
    except (duckdb.Error, arrow_error, OSError) as error:
        kind = type(error).__name__
        raise EngineError(
            f"DuckDB failed with {kind}: run the relation's query by itself to see why, and start again"
        ) from None
