"""Where a ledger lives: SQLite in a file, SQLite in memory, or PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import StaticPool

from veilstream.errors import InvalidInputError, LedgerError
from veilstream.storage.ledger.backend import READ, SQLITE_BUSY, Backend
from veilstream.storage.ledger.surroundings import (
    refuse_forgetful_server,
    refuse_network,
    refuse_readable_by_others,
)
from veilstream.storage.location import locate
from veilstream.storage.postgres import postgres_engine

CACHE_KIB: Final = 1 << 15
CHECKPOINT_PAGES: Final = 1 << 12


def connect(url: str | Path | None, timeout: float, silence: float | None = None) -> Backend:
    """The back end that ``url`` names, with its schema up to date; see ``postgres_engine`` for ``silence``."""
    if not timeout > 0:
        raise InvalidInputError(
            name="ledger timeout",
            value=timeout,
            limit="it is a number of seconds above 0",
            outcome="nothing was opened",
        )
    place = locate(url)
    if place.server is not None:
        backend = _postgres(place.server, timeout, silence)
    else:
        backend = _memory(timeout) if place.file is None else _sqlite(place.file, timeout)
    try:
        backend.prepare()
        if backend.file is not None:
            refuse_readable_by_others(backend.file, "ledger")
    except OSError as error:
        backend.close()
        raise _not_opened(backend.label, error) from None
    except BaseException:
        backend.close()
        raise
    return backend


def _engine(url: URL, **options: Any) -> Engine:
    engine = sa.create_engine(url, hide_parameters=True, **options)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("veilstream_begin", READ))


def _memory(timeout: float) -> Backend:
    engine = _engine(
        URL.create("sqlite", database=":memory:"),
        poolclass=StaticPool,
        connect_args={"isolation_level": None, "check_same_thread": False},
    )
    event.listen(engine, "connect", _configure_sqlite)
    return Backend(engine, "in memory", timeout, lock=threading.RLock())


def _sqlite(path: Path, timeout: float) -> Backend:
    refuse_network(path)
    _create_private(path)
    engine = _engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"isolation_level": None, "timeout": timeout, "check_same_thread": False},
    )
    event.listen(engine, "connect", _configure_sqlite)
    return Backend(engine, repr(str(path)), timeout, file=path)


def _create_private(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others; -wal and -shm follow it."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        _refuse_other_than_file(path)
        return
    except OSError as error:
        raise _not_opened(str(path), error) from None
    os.close(descriptor)


def _refuse_other_than_file(path: Path) -> None:
    try:
        usual = path.is_file()
    except OSError as error:
        raise _not_opened(str(path), error) from None
    if not usual:
        raise LedgerError(name="ledger", value=str(path), limit="not a file", outcome="nothing was opened") from None


def _not_opened(label: str, error: OSError) -> LedgerError:
    return LedgerError(
        name="ledger", value=label, limit=error.strerror or "it cannot be reached", outcome="nothing was opened"
    )


def _configure_sqlite(connection: Any, _record: object) -> None:
    # Changing the journal mode needs the whole file for a moment and does not always wait for it by itself.
    cursor = connection.cursor()
    timeout_ms = cursor.execute("PRAGMA busy_timeout").fetchone()[0]
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA secure_delete = ON")
    # A step's pages fit into memory and go to the disk once; states that replace each other soon are copied to the
    # main file once for all of them.
    cursor.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    cursor.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    cursor.close()


def _postgres(url: URL, timeout: float, silence: float | None) -> Backend:
    engine = postgres_engine(url, timeout, silence=silence, configure=refuse_forgetful_server)
    label = url.difference_update_query(["password", "sslpassword"]).render_as_string(hide_password=True)
    return Backend(engine, label, timeout, hide=url.password or str(url.query.get("password", "")))
