"""Connections to the database of a ledger: one way to read, one way to write, and what failures mean."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, MultipleResultsFound, NoResultFound, PendingRollbackError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from veilstream.errors import (
    LedgerBusyError,
    LedgerError,
    LedgerFullError,
    LedgerVersionError,
    VeilstreamError,
)
from veilstream.storage.copies import Write, one_moment
from veilstream.storage.ledger.creating import create
from veilstream.storage.ledger.rows import DAMAGED
from veilstream.storage.ledger.schema import SCHEMA, VERSION_TABLE, counter, metadata, secret_keys
from veilstream.storage.ledger.surroundings import (
    same_file,
    sync,
)

WRITE: Final = "BEGIN IMMEDIATE"
READ: Final = "BEGIN"
CREATION_LOCK: Final = 0x7665696C  # "veil": any number that other programs are unlikely to lock
CHECKPOINT_COMMITS: Final = 64

TRIGGERS: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 1",
    "postgresql": "SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
    "WHERE NOT tgisinternal AND c.relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT rulename FROM pg_rules WHERE schemaname = current_schema() LIMIT 1",
}

IMPOSSIBLE: Final[tuple[type[Exception], ...]] = (UnicodeError, OverflowError, NoResultFound, MultipleResultsFound)
"""What asking for a row raises that cannot be there."""
SQLITE_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
SQLITE_NO_ROOM: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
SQLITE_BROKEN: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
POSTGRES_BUSY: Final = {"55P03", "40P01", "40001"}
POSTGRES_NO_ROOM: Final = {"53100"}


class Backend:
    """Connections to one database, with one way to read and one way to write.

    A database in memory has a single connection; ``lock`` then hands it to one thread at a time.
    """

    def __init__(
        self,
        engine: Engine,
        label: str,
        timeout: float,
        *,
        lock: threading.RLock | None = None,
        hide: str = "",
        file: Path | None = None,
    ) -> None:
        self.file = file
        self._known_file = None if file is None else same_file(file)
        self.label = label
        self.timeout = timeout
        self._engine = engine
        self._beginning = {begin: engine.execution_options(veilstream_begin=begin) for begin in (READ, WRITE)}
        self._lock = lock
        self._hide = hide
        self._shared: Connection | None = None
        self._process = os.getpid()
        self._commits = 0
        # Whoever forgets to close a ledger loses nothing: its connections are closed with it.
        weakref.finalize(self, _dispose, engine, self._process)

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A transaction in which nothing happens but reading: what goes wrong in it with values, rows are to blame."""
        with self._guarded(time.monotonic(), DAMAGED):
            if self._shared is not None:
                yield self._shared
            else:
                with self._connect(READ) as connection:
                    yield connection

    @contextmanager
    def write(self) -> Generator[Connection]:
        """A transaction that holds SQLite's write lock; on PostgreSQL the caller locks the rows it needs."""
        started = time.monotonic()
        with self._guarded(started):
            if self._shared is not None:
                raise self._busy(started)
            with self._connect(WRITE) as connection:
                self._shared = connection if self._lock is not None else None
                try:
                    connection.begin()
                    yield connection
                finally:
                    self._shared = None

    def _connect(self, begin: str) -> Connection:
        return self._beginning[begin].connect()

    @contextmanager
    def _guarded(self, started: float, damaged: tuple[type[Exception], ...] = ()) -> Generator[None]:
        if os.getpid() != self._process:
            raise LedgerError(
                name="ledger",
                value=self.label,
                limit=f"opened by process {self._process}, used after a fork by {os.getpid()}; open it anew in each "
                "process",
            )
        if self._lock is not None and not self._lock.acquire(timeout=self.timeout):
            raise self._busy(started)
        try:
            with self.explained(started, damaged):
                yield
        finally:
            if self._lock is not None:
                self._lock.release()

    @contextmanager
    def explained(self, started: float | None = None, damaged: tuple[type[Exception], ...] = ()) -> Generator[None]:
        """What the database raises, in our own words, and what else a damaged row makes code raise that reads it."""
        started = time.monotonic() if started is None else started
        try:
            yield
        except DBAPIError as error:
            raise self._explain(error, started) from None
        except (PendingRollbackError, PoolTimeoutError) as error:
            raise self._lost(type(error).__name__) from None
        except VeilstreamError:
            raise
        except (*IMPOSSIBLE, *damaged) as error:
            raise LedgerError(
                name="ledger",
                value=self.label,
                limit=f"a row is damaged, or no row can be as asked for ({type(error).__name__})",
            ) from None

    def one_moment(self) -> AbstractContextManager[Write]:
        """Holds the present moment of the database, of which copies can be written."""

        def make(connection: Connection) -> None:
            create(connection)
            for table in (counter, secret_keys):
                connection.execute(sa.delete(table))

        return one_moment(self._engine, metadata.sorted_tables, make)

    def committed(self) -> None:
        """Bring the log into the file every so often: a copy of the file alone then misses little."""
        self._commits += 1
        if self.file is None or self._commits % CHECKPOINT_COMMITS:
            return
        try:
            with closing(sqlite3.connect(self.file, timeout=0)) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error:
            # Somebody else is at it; the commit itself is on the disk.
            return

    def shrink(self) -> None:
        """Write the file anew without what was deleted; a server does so by itself."""
        if self.file is None:
            return
        try:
            with closing(sqlite3.connect(self.file, timeout=1, isolation_level=None)) as connection:
                connection.execute("VACUUM")
        except sqlite3.Error:
            # Somebody is at it; the next commits use the room.
            return

    def check_file(self) -> None:
        """Refuse to commit to a file that has another name by now, or none: nobody would read it."""
        if self.file is not None and same_file(self.file) != self._known_file:
            raise LedgerError(
                name="ledger",
                value=self.label,
                limit="the file was moved or replaced while it was open; open the present one",
            )

    def close(self) -> None:
        _dispose(self._engine, self._process)

    def prepare(self) -> None:
        """Make the tables of a new ledger, under a lock that other processes wait for; a ledger is left as it is."""
        with self.read() as connection:
            self._refuse_triggers(connection)
            if self._is_made(connection):
                return
        with self.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(CREATION_LOCK)))
            if not self._is_made(connection):
                create(connection)
                connection.commit()

    def _refuse_triggers(self, connection: Connection) -> None:
        """Refuse tables that do something else than keep what is written to them."""
        found = connection.exec_driver_sql(TRIGGERS[connection.dialect.name]).first()
        if found is not None:
            raise LedgerError(
                name="ledger",
                value=self.label,
                limit=f"it has a trigger or rule {found[0]!r}, which may alter what is recorded; drop it and run "
                "`veilstream ledger verify`",
                outcome="nothing was opened",
            )

    def _is_made(self, connection: Connection) -> bool:
        tables = set(sa.inspect(connection).get_table_names())
        if VERSION_TABLE not in tables:
            if {"streams", "steps", "charges"} & tables or (connection.dialect.name == "sqlite" and tables):
                raise LedgerError(
                    name="ledger",
                    value=self.label,
                    limit="the database holds other tables and no ledger",
                    outcome="nothing was changed",
                )
            return False
        version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
        schema: str | None = connection.execute(sa.select(version.c.version_num)).scalar_one_or_none()
        if schema != SCHEMA:
            raise LedgerVersionError(
                name="ledger",
                value=self.label,
                limit=f"its schema is {schema}, this version reads {SCHEMA}",
                outcome="nothing was read or changed",
            )
        return True

    def _busy(self, started: float) -> LedgerBusyError:
        waited = time.monotonic() - started
        return LedgerBusyError(
            name="ledger",
            value=self.label,
            limit=f"held by another writer; waited {waited:.1f} s, limit {self.timeout:g} s",
        )

    def _explain(self, error: DBAPIError, started: float) -> LedgerError:
        """The error in our own words: drivers quote statements and keys, which may hold private values."""
        original: Any = error.orig
        code: int = getattr(original, "sqlite_errorcode", None) or 0
        state: str = getattr(original, "sqlstate", None) or ""
        name: str = getattr(original, "sqlite_errorname", None) or state or type(original).__name__
        if code & 0xFF in SQLITE_BUSY or state in POSTGRES_BUSY:
            return self._busy(started)
        if code in SQLITE_NO_ROOM or state in POSTGRES_NO_ROOM:
            return LedgerFullError(name="ledger", value=self.label, limit=f"the disk has no room ({name})")
        if code & 0xFF in SQLITE_BROKEN:
            return LedgerError(
                name="ledger",
                value=self.label,
                limit=f"not a database, or a damaged one ({name})",
            )
        if error.statement is None and not code:
            reason = str(original).strip().split("\n")[0]
            reason = reason.replace(self._hide, "***") if self._hide else reason
            return LedgerError(name="ledger", value=self.label, limit=f"cannot be reached: {reason}")
        if error.connection_invalidated:
            return self._lost(name)
        return LedgerError(name="ledger", value=self.label, limit=f"the database refused ({name})")

    def _lost(self, name: str) -> LedgerError:
        return LedgerError(
            name="ledger",
            value=self.label,
            limit=f"the connection was lost ({name}); a step in its commit is either wholly recorded or not at "
            "all: feed it again, and a recorded step returns its release",
        )


def _dispose(engine: Engine, process: int) -> None:
    """Close the connections of the process that made them; a fork shares them and leaves them alone."""
    if os.getpid() == process:
        engine.dispose()


def copy_database(file: Path, copy: Path) -> None:
    """Copy an SQLite database as of one moment to a file that does not exist yet."""
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        sync(copy.parent)
    except OSError as error:
        raise LedgerError(name="backup", value=copy, limit=f"{error.strerror}", outcome="nothing was written") from None
    except sqlite3.Error as error:
        raise LedgerError(
            name="backup", value=copy, limit=f"it failed ({error.sqlite_errorname})", outcome="delete the copy"
        ) from None
