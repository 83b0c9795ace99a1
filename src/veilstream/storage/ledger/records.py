"""The rows that the entries of a chain cover, as the chain sees them, and where an entry ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, RowMapping, Table

from veilstream.storage.ledger.schema import (
    arrays,
    charges,
    compactions,
    failures,
    losses,
    revisions,
    snapshots,
    steps,
)

Fields: TypeAlias = Mapping[str, Any] | RowMapping
IN_PAGES: Final = {"yield_per": 2000}
"""Histories are longer than memory."""
LARGEST_NUMBER: Final = 1 << 62
"""No entry of a chain has a larger one."""
CHARGE: Final = tuple(
    column.name for column in charges.c if column.name not in ("stream_id", "bins_array", "starts_array")
)
STEP: Final = tuple(
    column.name for column in steps.c if column.name not in ("stream_id", "values_array", "std_array", "corners_array")
)
REVISION: Final = tuple(
    column.name for column in revisions.c if column.name not in ("stream_id", "values_array", "std_array")
)
FAILURE: Final = tuple(column.name for column in failures.c if column.name != "stream_id")
SNAPSHOT: Final = ("entry", "t", "digest")
COMPACTION: Final = tuple(column.name for column in compactions.c if column.name not in ("stream_id", "pool"))
LOSS: Final = tuple(column.name for column in losses.c if column.name != "stream_id")


def refuse_other_types(kind: type, values: Iterable[object]) -> None:
    """Refuse a row that somebody has altered: SQLite keeps what it is given, whatever the column's type."""
    if not all(type(value) is kind for value in values):
        raise TypeError(f"{kind.__name__} is needed")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a stream's history reaches: its last entry, with the last charge, step and failure that it covers."""

    number: int = 0
    digest: str = ""
    charge: int = 0
    seq: int = 0
    failure: int = 0
    t: int | None = field(default=None, compare=False)
    """The furthest step that was released or tried, where that is known."""

    def __post_init__(self) -> None:
        refuse_other_types(int, (self.number, self.charge, self.seq, self.failure))
        refuse_other_types(str, (self.digest,))

    @classmethod
    def of(cls, row: Fields) -> Mark:
        """The mark that a row of the chain says."""
        return cls(row["number"], row["digest"], row["charge"], row["seq"], row["failure"])


def moment() -> str:
    """This moment, for people who read the tables; nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def record(kind: str, names: Sequence[str], row: Fields, *digests: str | None) -> list[Any]:
    """A row as the chain sees it: its columns by name, and its arrays by their digests."""
    return [kind, *[plain(row[name]) for name in names], *digests]


def event(kind: str, names: Sequence[str], row: Fields) -> list[Any]:
    """The record of a row about the stream itself; with the digest of what a compaction keeps for a population."""
    pool = row.get("pool")
    return record(kind, names, row) if pool is None else record(kind, names, row, sha256(bytes(pool)).hexdigest())


def plain(value: Any) -> Any:
    """A value as JSON has it, the same from each database."""
    if isinstance(value, float) and math.isnan(value):
        # SQLite keeps NaN as NULL.
        return None
    return value


class Rows:
    """What the entries of a stream behind ``since`` cover, entry by entry; schemas before 0007 have no ``revised``."""

    def __init__(self, connection: Connection, stream_id: int, since: Mark, *, revised: bool = True) -> None:
        after = {"stream": stream_id, "charge": since.charge, "seq": since.seq, "failure": since.failure}
        entry = {"stream": stream_id, "entry": since.number}
        self._charges = _Peekable(
            connection.execute(CHARGES_SINCE, after, execution_options=IN_PAGES),
            "charge",
            CHARGE,
            ("bins_digest", "starts_digest"),
        )
        self._failures = _Peekable(
            connection.execute(FAILURES_SINCE, after, execution_options=IN_PAGES), "failure", FAILURE, ()
        )
        self._steps = _Peekable(
            connection.execute(STEPS_SINCE, after, execution_options=IN_PAGES),
            "step",
            STEP,
            ("values_digest", "std_digest", "corners_digest"),
        )
        self._revisions = _Peekable(
            connection.execute(REVISIONS_SINCE if revised else NOTHING, entry, execution_options=IN_PAGES),
            "revision",
            REVISION,
            ("values_digest", "std_digest"),
        )

    def until(self, mark: Mark) -> list[list[Any]]:
        return [
            *self._charges.until(mark.charge),
            *self._failures.until(mark.failure),
            *self._steps.until(mark.seq),
            *self._revisions.until(mark.number),
        ]

    def published_until(self, mark: Mark) -> Iterator[list[Any]]:
        """What was published alone, one by one: steps, then revisions of them."""
        while (step := self._steps.next_until(mark.seq)) is not None:
            yield step
        while (revision := self._revisions.next_until(mark.number)) is not None:
            yield revision

    def revised_beyond(self) -> bool:
        """Whether there are revisions that belong to no entry so far."""
        return self._revisions.next_until(LARGEST_NUMBER) is not None

    def close(self) -> None:
        for rows in (self._charges, self._failures, self._steps, self._revisions):
            rows.close()


def events_since(connection: Connection, stream_id: int, since: Mark) -> dict[int, list[list[Any]]]:
    """By number of entry, what else entries behind ``since`` cover: snapshots, compactions, losses."""
    found: dict[int, list[list[Any]]] = {}
    for kind, table, names in EVENTS:
        columns = [column for column in table.c if column.name in (*names, "pool")]
        query = sa.select(*columns).where(table.c.stream_id == stream_id, table.c.entry > since.number)
        for row in connection.execute(query).mappings():
            found.setdefault(row["entry"], []).append(event(kind, names, row))
    return found


class _Peekable:
    def __init__(self, found: sa.CursorResult[Any], kind: str, names: Sequence[str], digests: Sequence[str]) -> None:
        self._found = found
        self._rows = (record(kind, names, row, *[row[name] for name in digests]) for row in found.mappings())
        self._next: list[Any] | None = None

    def close(self) -> None:
        self._found.close()

    def until(self, number: int) -> list[list[Any]]:
        found: list[list[Any]] = []
        while (row := self.next_until(number)) is not None:
            found.append(row)
        return found

    def next_until(self, number: int) -> list[Any] | None:
        """The next row, unless its number is larger."""
        if self._next is None:
            self._next = next(self._rows, None)
        # The number of a row is its first column.
        if self._next is None or self._next[1] > number:
            return None
        row, self._next = self._next, None
        return row


EVENTS: Final[Sequence[tuple[str, Table, Sequence[str]]]] = (
    ("loss", losses, LOSS),
    ("compaction", compactions, COMPACTION),
    ("snapshot", snapshots, SNAPSHOT),
)
_stream: sa.BindParameter[int] = sa.bindparam("stream")
_bins, _starts, _values, _std, _corners = (arrays.alias(name) for name in ("b", "f", "v", "d", "k"))
CHARGES_SINCE: Final = (
    sa.select(charges, _bins.c.digest.label("bins_digest"), _starts.c.digest.label("starts_digest"))
    .outerjoin(_bins, _bins.c.id == charges.c.bins_array)
    .outerjoin(_starts, _starts.c.id == charges.c.starts_array)
    .where(charges.c.stream_id == _stream, charges.c.id > sa.bindparam("charge"))
    .order_by(charges.c.id)
)
FAILURES_SINCE: Final = (
    sa.select(failures)
    .where(failures.c.stream_id == _stream, failures.c.id > sa.bindparam("failure"))
    .order_by(failures.c.id)
)
REVISIONS_SINCE: Final = (
    sa.select(revisions, _values.c.digest.label("values_digest"), _std.c.digest.label("std_digest"))
    .outerjoin(_values, _values.c.id == revisions.c.values_array)
    .outerjoin(_std, _std.c.id == revisions.c.std_array)
    .where(revisions.c.stream_id == _stream, revisions.c.entry > sa.bindparam("entry"))
    .order_by(revisions.c.entry)
)
_number: sa.ColumnElement[Any] = sa.literal_column("0")
NOTHING: Final = sa.select(_number.label("entry")).where(sa.false())
STEPS_SINCE: Final = (
    sa.select(
        steps,
        _values.c.digest.label("values_digest"),
        _std.c.digest.label("std_digest"),
        _corners.c.digest.label("corners_digest"),
    )
    .outerjoin(_values, _values.c.id == steps.c.values_array)
    .outerjoin(_std, _std.c.id == steps.c.std_array)
    .outerjoin(_corners, _corners.c.id == steps.c.corners_array)
    .where(steps.c.stream_id == _stream, steps.c.seq > sa.bindparam("seq"))
    .order_by(steps.c.seq)
)
