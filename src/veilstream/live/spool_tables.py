"""The tables of the spool, and how its database is opened."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from veilstream.errors import InvalidInputError, LedgerBusyError, LedgerError, LedgerFullError
from veilstream.storage.ledger.surroundings import (
    refuse_forgetful_server,
    refuse_network,
    refuse_readable_by_others,
)
from veilstream.storage.postgres import postgres_engine

Id = BigInteger().with_variant(Integer(), "sqlite")
metadata = MetaData()

streams = Table(
    "live_streams",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("definition", Text, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("frozen", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("frozen_at", BigInteger, nullable=False),
    Column("manual_now", BigInteger, nullable=False),
)

batches = Table(
    "live_batches",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("batch_id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("arrived", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    sa.Index("live_batches_by_arrival", "stream_id", "arrived"),
)

parts = Table(
    "live_parts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("live_streams.id"), nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    sa.Index("live_parts_by_step", "stream_id", "step"),
)

positions = Table(
    "live_positions",
    metadata,
    Column("source", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("position", Text, nullable=False),
)

# Who was present, of streams in which people count in few steps: notes of each step by keyed hashes, and where those
# have grown long an image of the whole history, in blocks, that takes the place of the notes before it.
presence_heads = Table(
    "live_presence_heads",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("left_out", BigInteger, nullable=False),
    Column("image", BigInteger, nullable=False),
    Column("image_end", BigInteger, nullable=False),
)

presence_notes = Table(
    "live_presence_notes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stream_id", Id, ForeignKey("live_streams.id"), nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    sa.Index("live_presence_notes_by_step", "stream_id", "step"),
)

presence_images = Table(
    "live_presence_images",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("image", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("payload", LargeBinary, nullable=False),
)

# Who was there in the last steps and in which bins, of streams that count people of several steps.
people_notes = Table(
    "live_people_notes",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("payload", LargeBinary, nullable=False),
)

# The whole history as one value, as spools of earlier versions have it: read until an image takes its place.
presences = Table(
    "live_presences",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("left_out", BigInteger, nullable=False),
    Column("history", LargeBinary, nullable=False),
)

counters = Table(
    "live_counters",
    metadata,
    Column("stream_id", Id, ForeignKey("live_streams.id"), primary_key=True, autoincrement=False),
    Column("hour", BigInteger, primary_key=True, autoincrement=False),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("rows", "late", "no_user", "unknown", "bad_time", "bad_user", "unreadable")
    ),
)


def connect(url: str | Path, timeout: float) -> tuple[Engine, str]:
    """An engine for a path, a ``sqlite:///`` or a ``postgresql://`` URL, and a name for messages without secrets."""
    text = str(url)
    try:
        parsed = make_url(text) if "://" in text else URL.create("sqlite", database=str(Path(text).expanduser()))
    except (ArgumentError, ValueError, RuntimeError):
        raise InvalidInputError("spool url: it cannot be parsed", outcome="nothing was opened") from None
    if parsed.drivername.startswith("postgres"):
        return postgres_engine(
            parsed, timeout, silence=timeout + 5, configure=refuse_forgetful_server
        ), parsed.render_as_string(hide_password=True)
    if not parsed.database or parsed.database == ":memory:":
        raise InvalidInputError(
            "spool: a file or a PostgreSQL database is needed; accepted rows must survive a crash",
            outcome="nothing was opened",
        )
    return _sqlite(Path(parsed.database), timeout), parsed.database


def _sqlite(path: Path, timeout: float) -> Engine:
    try:
        refuse_network(path, "spool")
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        refuse_readable_by_others(path, "spool")
    except OSError as error:
        raise LedgerError(name="spool", value=str(path), limit=f"{error.strerror}") from None
    except ValueError:
        raise InvalidInputError(
            name="spool", value=str(path), limit="no file can have this name", outcome="nothing was opened"
        ) from None
    engine = sa.create_engine(
        URL.create("sqlite", database=str(path)),
        hide_parameters=True,
        connect_args={"isolation_level": None, "timeout": timeout, "check_same_thread": False},
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # Rows come as blobs of about a megabyte: fewer, larger pages.
    cursor.execute("PRAGMA page_size = 16384")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA secure_delete = ON")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("spool_begin", "BEGIN"))


@contextmanager
def explained(label: str) -> Generator[None]:
    """Errors of the database in our own words, since drivers quote values; nobody outside sees any other."""
    try:
        yield
    except (OverflowError, UnicodeError):
        raise InvalidInputError(
            name="spool", limit="a text or number that no database takes", outcome="nothing was stored"
        ) from None
    except DBAPIError as error:
        name = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None) or "database"
        kind: type[LedgerError] = LedgerError
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03"):
            kind = LedgerBusyError
        elif name in ("SQLITE_FULL", "53100"):
            kind = LedgerFullError
        lost = error.connection_invalidated or error.statement is None
        limit = f"the database {'cannot be reached' if lost else 'refused'} ({name})"
        raise kind(name="spool", value=label, limit=limit, outcome="nothing was stored") from None
    except SQLAlchemyError as error:
        # No connection came free in time, or the one in use was lost before.
        limit = f"the database cannot be reached ({type(error).__name__})"
        raise LedgerError(name="spool", value=label, limit=limit, outcome="nothing was stored") from None


@contextmanager
def read(engine: Engine, label: str) -> Generator[Connection]:
    """A look at what is committed."""
    with explained(label), engine.connect() as connection:
        yield connection


@contextmanager
def write(engine: Engine, label: str) -> Generator[Connection]:
    """One transaction that holds SQLite's write lock."""
    with (
        explained(label),
        engine.connect().execution_options(spool_begin="BEGIN IMMEDIATE") as connection,
        connection.begin(),
    ):
        yield connection
