"""One commit for the steps of several streams: they share the wait for the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import Mark

SAVEPOINT: Final = Prepared(sa.text("SAVEPOINT step"))
UNDO: Final = Prepared(sa.text("ROLLBACK TO SAVEPOINT step"))
KEEP: Final = Prepared(sa.text("RELEASE SAVEPOINT step"))


class CommitGroup:
    """A transaction of the database in which every step has a savepoint of its own.

    A step that is left without a commit takes back what it wrote and no more. All others exist when the group is
    committed, and until then for nobody: if the group fails, whatever was derived from them is dropped (``undo``).
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._thread = threading.get_ident()
        self._marks: dict[str, Mark] = {}
        self._undo: list[Callable[[], None]] = []

    def is_mine(self) -> bool:
        """Whether the present thread opened it; others go on by themselves."""
        return threading.get_ident() == self._thread

    @contextmanager
    def step(self) -> Generator[tuple[Connection, Callable[[], None]]]:
        """A connection for one step, and what commits it within the group."""
        committed = False

        def commit() -> None:
            nonlocal committed
            KEEP.changed(self.connection, {})
            committed = True

        SAVEPOINT.changed(self.connection, {})
        try:
            yield self.connection, commit
        finally:
            if not committed:
                UNDO.changed(self.connection, {})
                KEEP.changed(self.connection, {})

    def note(self, stream: str, mark: Mark) -> None:
        """Remember where the chain of a stream will end."""
        self._marks[stream] = mark

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` if the group is not committed."""
        self._undo.append(undo)

    def commit(self) -> dict[str, Mark]:
        """Commit all steps; where the chains of their streams end now."""
        self.connection.commit()
        self._undo.clear()
        return self._marks

    def abandon(self) -> None:
        """Take back what was not committed."""
        for undo in self._undo:
            undo()
