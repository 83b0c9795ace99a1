"""A stream as its writer finds it, read in one statement: there is one for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.storage.ledger.chain import KEY, check_stream, checked_key
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import Mark, refuse_other_types
from veilstream.storage.ledger.schema import chain, charges, failures, losses, secret_arrays, steps, streams


@dataclass(frozen=True, slots=True)
class Opened:
    """The stream's number, the key and end of its chain, and where its rows end.

    ``released`` and ``lost`` are the last steps that are so, ``rows`` the last charge, step and failure that there are,
    and ``slots`` says how many arrays its state has.
    """

    stream_id: int
    key: bytes
    mark: Mark
    released: int | None
    lost: int | None
    rows: tuple[int | None, int | None, int | None]
    slots: int
    membership: str | None = None

    @property
    def head(self) -> int | None:
        """The last step that is released or lost."""
        return max([t for t in (self.released, self.lost) if t is not None], default=None)


def open_stream(connection: Connection, stream: str, label: str) -> Opened | None:
    """Take the stream's write lock and read where it stands; None if there is no such stream.

    PostgreSQL locks the stream's row first: what is read in one statement with a lock may be older than the lock.
    SQLite holds the whole file already.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(LOCK_STREAM, {"name": stream})
    found = OPEN.rows(connection, {"name": stream})
    if not found:
        return None
    row = dict(zip(COLUMNS, found[0], strict=True))
    # SQLite has no truth values of its own, and the digest of a row tells 1 from True.
    row["per_timestamp"] = bool(row["per_timestamp"])
    key = checked_key(row["chain_key"], label)
    check_stream(key, row, label)
    end = Mark()
    if row["number"] is not None:
        end = Mark(row["number"], row["digest"], row["charge"], row["seq"], row["failure"])
    rows = row["last_charge"], row["last_step"], row["last_failure"]
    refuse_other_types(int, (one for one in (row["released"], row["lost"], *rows) if one is not None))
    return Opened(row["id"], key, end, row["released"], row["lost"], rows, row["slots"], row["membership"])


_entries = chain.alias("entries")
LOCK_STREAM: Final = (
    sa.select(streams.c.id).where(streams.c.name == sa.bindparam("name")).with_for_update(key_share=True)
)


def _last(table: sa.Table, column: sa.ColumnElement[int], name: str) -> sa.Label[int]:
    largest = sa.select(sa.func.max(column)).where(table.c.stream_id == streams.c.id)
    return largest.scalar_subquery().label(name)


_OPEN: Final = (
    sa.select(
        streams,
        chain.c.number,
        chain.c.digest,
        chain.c.charge,
        chain.c.seq,
        chain.c.failure,
        KEY.scalar_subquery().label("chain_key"),
        _last(steps, steps.c.t, "released"),
        _last(losses, losses.c.resume - 1, "lost"),
        _last(charges, charges.c.id, "last_charge"),
        _last(steps, steps.c.seq, "last_step"),
        _last(failures, failures.c.id, "last_failure"),
        sa.select(sa.func.count(secret_arrays.c.slot))
        .where(secret_arrays.c.stream_id == streams.c.id)
        .scalar_subquery()
        .label("slots"),
    )
    .select_from(streams)
    .outerjoin(
        chain,
        (chain.c.stream_id == streams.c.id)
        & (
            chain.c.number
            == sa.select(sa.func.max(_entries.c.number)).where(_entries.c.stream_id == streams.c.id).scalar_subquery()
        ),
    )
    .where(streams.c.name == sa.bindparam("name"))
)
COLUMNS: Final = tuple(str(column.key) for column in _OPEN.selected_columns)
OPEN: Final = Prepared(_OPEN)
