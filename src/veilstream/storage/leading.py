"""Which of several servers on one ledger serves: one at a time leads, the others stand by and take over when it ends.

The leader holds a lock that its end releases, however it ends: an advisory lock of the PostgreSQL session, or the lock
of a file beside an SQLite ledger. The lock keeps two servers from working against each other. That nothing is charged
or published twice rests on the transactions of the ledger, also in the moments before a server notices that it lost
its lock.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from veilstream.errors import LedgerError
from veilstream.storage.location import locate
from veilstream.storage.postgres import postgres_engine

LEADING: Final = 0x7665696C  # "veil", as for migrations, but in PostgreSQL's other space of locks: pairs of numbers


class Leadership(Protocol):
    """The lock of the server that leads. One thread at a time."""

    def take(self) -> bool:
        """Whether this process leads now; it does from here on if nobody else does."""
        ...

    def release(self) -> None:
        """Let another server lead."""
        ...


def leadership(ledger: str | Path, timeout: float) -> Leadership:
    """The lock that belongs to a ledger."""
    place = locate(ledger)
    if place.server is not None:
        return _SessionLock(place.server, timeout)
    assert place.file is not None
    return _FileLock(place.file.with_name(f"{place.file.name}.serving"))


class _FileLock:
    """The lock of a file; the operating system releases it when the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        # A child process that outlives this one must not go on holding the lock.
        os.register_at_fork(after_in_child=self._close)

    def take(self) -> bool:
        if self._descriptor is not None:
            return True
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            locked = _lock(self._descriptor)
        except OSError as error:
            self._close()
            raise LedgerError(
                name="lock of the server", value=self._path, limit=f"{error.strerror}", outcome="nothing was served"
            ) from None
        if not locked:
            self._close()
        return locked

    def release(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _SessionLock:
    """An advisory lock of a session of PostgreSQL, one for each schema; it ends with the session."""

    def __init__(self, url: URL, timeout: float) -> None:
        self._engine = postgres_engine(url, timeout, silence=timeout)
        self._session: Connection | None = None
        self._held = False

    def take(self) -> bool:
        try:
            if self._session is None:
                self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if self._held:
                self._ask("SELECT 1")
            else:
                self._held = bool(self._ask(f"SELECT pg_try_advisory_lock({LEADING}, hashtext(current_schema()))"))
        except SQLAlchemyError:
            # The lock went with the session, if the server noticed that; another session asks for it anew.
            self.release()
            raise LedgerError(
                name="lock of the server", limit="the database cannot be reached", outcome="nothing was served"
            ) from None
        return self._held

    def _ask(self, query: str) -> Any:
        assert self._session is not None
        return self._session.exec_driver_sql(query).scalar_one()

    def release(self) -> None:
        session, self._session, self._held = self._session, None, False
        if session is not None:
            # Closing the session itself, which the pool would keep.
            session.invalidate()
            session.close()
        self._engine.dispose()
