"""The durable record of what was released, what it cost, and where each mechanism stands.

One transaction per step writes the charges, the next state and the release together, so that after any crash
either all of a step exists or none of it. SQLite holds a ledger in one file, PostgreSQL behind a URL, and
``None`` keeps it in memory for a notebook.

The ledger holds secrets (pending sums, the noise of thresholds): see ``docs/ledger.md``. What may leave the
house is in :func:`veilstream.storage.ledger.exporting.export`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.arguments import checks_arguments
from veilstream.errors import LedgerError
from veilstream.storage.copies import Write
from veilstream.storage.ledger.anchor import Anchor
from veilstream.storage.ledger.arrays import Remembered
from veilstream.storage.ledger.backend import Backend
from veilstream.storage.ledger.chain import find_key, last_mark
from veilstream.storage.ledger.connecting import connect
from veilstream.storage.ledger.decisions import ARCHIVE, last_decision
from veilstream.storage.ledger.group import CommitGroup
from veilstream.storage.ledger.locking import lock_together
from veilstream.storage.ledger.marks import Marks, check_mark, server_folder
from veilstream.storage.ledger.opening import open_stream
from veilstream.storage.ledger.population_book import Populations
from veilstream.storage.ledger.population_shared import PoolMemory
from veilstream.storage.ledger.readers import grant_reader
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.registering import all_specs, find_spec, record_calendar, register
from veilstream.storage.ledger.rows import (
    RELEASE_AT,
    RELEASES,
    RELEASES_OF_STREAM,
    ChargeRow,
    read_charges,
    read_releases,
    rows_of,
)
from veilstream.storage.ledger.schema import streams
from veilstream.storage.ledger.servers import check_server, record_server
from veilstream.storage.ledger.spec import Given, StreamSpec
from veilstream.storage.ledger.transaction import Transaction, head_of
from veilstream.storage.ledger.turns import Turn
from veilstream.storage.ledger.vintages import read_vintages
from veilstream.values.release import Release
from veilstream.values.revision import Revision

__all__ = ["ChargeRow", "Ledger", "StreamSpec", "Transaction"]

PAGE: Final = 1 << 14
PAGE_NUMBERS: Final = 1 << 22
VINTAGES: Final = 16
"""That are read at once: each has new values for many steps."""


class Ledger:
    """Streams, their releases and their charges.

    >>> with Ledger.open(None) as ledger:
    ...     _ = ledger.register(StreamSpec("visits", "{}", "{}", bins=3, domain=None, max_contribution=1))
    ...     with ledger.transaction("visits") as step:
    ...         print(step.head, step.charges(after=0))
    None []
    """

    @checks_arguments
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.marks = Marks(backend.file)
        """How far each stream was seen; of a ledger on a server known once a stream was opened for writing."""
        self._server_is_known = False
        self._remembered: dict[str, Remembered] = {}
        self._pools = PoolMemory(self.marks)
        self._group: CommitGroup | None = None
        self._moments: dict[str, Callable[[int], str]] = {}

    @classmethod
    @checks_arguments
    def open(cls, url: str | Path | None, *, timeout: float = 30, silence: float | None = None) -> Self:
        """Open or create a ledger: a path, a ``sqlite:///`` or ``postgresql://`` URL, ``None`` for memory.

        ``timeout`` is how many seconds to wait for another process before ``LedgerBusyError``, ``silence`` for how many
        a PostgreSQL server may send nothing before it counts as lost; None waits for it. ``LedgerVersionError`` says
        that a newer version wrote it, ``LedgerError`` that it is no ledger or cannot be reached.
        """
        return cls(connect(url, timeout, silence))

    def __repr__(self) -> str:
        return f"Ledger({self._backend.label})"

    def record_at(self, stream: str, moments: Callable[[int], str]) -> None:
        """Let tables say of each step of a stream that it was recorded at its public moment.

        When it was committed depends on how long its rows took, and readers may see these tables. ``moments`` gives the
        moment of a step.
        """
        self._moments[stream] = moments

    @property
    def label(self) -> str:
        """What messages call this ledger."""
        return self._backend.label

    @property
    def populations(self) -> Populations:
        """What is promised about populations, and what streams have drawn on them."""
        return Populations(self._backend.read, self._backend.write, self._backend.label)

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that sees one moment of the ledger, for whoever checks it."""
        return self._backend.read()

    def mark(self, stream: str) -> Mark:
        """The end of the stream's chain: give it with what is published, and an older ledger can be told."""
        with self._backend.read() as connection:
            stream_id = self._stream_id(connection, stream)
            return replace(last_mark(connection, stream_id), t=head_of(connection, stream_id))

    def check_seen(self, stream: str, seen: Mark) -> None:
        """Refuse a ledger that is behind an end of the stream that was seen before."""
        with self._backend.read() as connection:
            stream_id = self._stream_id(connection, stream)
            check_mark(connection, stream_id, stream, self.label, last_mark(connection, stream_id), seen)

    def turn(self) -> Turn:
        """A lock by which threads of this process take turns, for as long as they would wait for another process."""
        return Turn(self._backend.label, self._backend.timeout)

    def register(
        self, spec: StreamSpec, recognises: Callable[[str], bool] | None = None, fingerprint: str | None = None
    ) -> StreamSpec:
        """Record the stream if it is new, else check that it is the same; what is recorded afterwards.

        ``recognises`` tells whether a mechanism as schema 0001 described it is the same one, ``fingerprint`` is what
        that schema kept of the domain: what it left out is recorded now.
        """
        return register(self._backend, Given(spec, recognises or spec.mechanism.__eq__, fingerprint))

    def record_calendar(self, stream: str, anchor: Anchor) -> StreamSpec:
        """Record which time step 0 is, if the stream has no calendar and released nothing yet; what is recorded."""
        return record_calendar(self._backend, stream, anchor)

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction on the ledger as a whole, for decisions about it; leaving without a commit rolls back."""
        return self._backend.write()

    @contextmanager
    def transaction(self, stream: str, *, rolled_back: bool = False) -> Generator[Transaction]:
        """The stream's write lock for one step; leaving without a commit rolls back.

        ``rolled_back`` is for whoever records what a ledger has forgotten: marks and servers are not compared.
        """
        with self._writing() as (connection, commit):
            with rows_of(self._backend.label):
                opened = open_stream(connection, stream, self._backend.label)
            if opened is None:
                raise self._unknown(stream)
            remembered = self._remembered.setdefault(stream, Remembered())
            transaction = Transaction(
                connection,
                opened,
                stream,
                self._backend.label,
                remembered,
                self._pools,
                before_commit=self._backend.check_file,
                commit=commit,
                after_commit=partial(self._committed, stream),
                recorded=self._moments.get(stream),
            )
            self._find_marks(connection, opened.key)
            if not rolled_back:
                self._check_place(connection)
                with rows_of(self._backend.label):
                    self.marks.check(connection, opened.stream_id, stream, self._backend.label, opened.mark)
            yield transaction

    def all_marks(self) -> dict[str, Mark | None]:
        """How far each stream was seen on this machine, streams that are not in the ledger included; None is a mark
        that cannot be read."""
        with self._backend.read() as connection:
            self._find_marks(connection, find_key(connection, self._backend.label))
        return self.marks.all()

    def marks_at(self, file: Path | None) -> Marks:
        """The marks of this ledger if it lay in another ``file``, or (None) on a server."""
        if file is not None:
            return Marks(file)
        with self._backend.read() as connection:
            return _server_marks(find_key(connection, self._backend.label))

    def one_moment(self) -> AbstractContextManager[Write]:
        """Holds the present moment of the ledger, of which copies can be written while others write to it."""
        return self._backend.one_moment()

    def watch(self) -> None:
        """Note how far each stream has come whose steps others make, for who may have to go on with it."""
        with self._backend.read() as connection:
            self._find_marks(connection, find_key(connection, self._backend.label))
            named = connection.execute(sa.select(streams.c.id, streams.c.name)).all()
            for stream_id, name in named:
                self.marks.check_other(connection, stream_id, name, self._backend.label)
                end, seen = last_mark(connection, stream_id), self.marks.seen(name)
                # Beside a file there is one mark for all, which whoever makes the steps writes.
                if self._backend.file is None and seen is not None and seen.number < end.number:
                    self.marks.note(name, replace(end, t=head_of(connection, stream_id)))

    def _find_marks(self, connection: Connection, key: bytes) -> None:
        """The marks of a ledger on a server lie with the user, named by a digest of its key."""
        if connection.dialect.name == "postgresql" and not self.marks.known:
            self.marks = self._pools.marks = _server_marks(key)

    def _check_place(self, connection: Connection) -> None:
        """Refuse to write to an archive, or on another server than before; the first step records the server."""
        if self._server_is_known:
            return
        if last_decision(connection, self._backend.label, ARCHIVE, None) is not None:
            raise LedgerError(
                name="ledger",
                value=self._backend.label,
                limit="it is an archive; publish to the ledger it was taken of",
            )
        if check_server(connection, self._backend.label):
            record_server(connection, self._backend.label)
        self._server_is_known = True

    @contextmanager
    def _writing(self) -> Generator[tuple[Connection, Callable[[], None]]]:
        """A connection for one step, and what commits it: by itself, or within the group of this thread."""
        if (group := self._my_group()) is not None:
            with self._backend.explained(), group.step() as step:
                yield step
            return
        with self._backend.write() as connection:
            yield connection, connection.commit

    def _my_group(self) -> CommitGroup | None:
        return self._group if self._group is not None and self._group.is_mine() else None

    @contextmanager
    def commit_together(self, names: Sequence[str] = ()) -> Generator[None]:
        """Steps of this thread inside the block are committed at its end, all with one wait for the disk.

        What they released must not be shown before: :func:`veilstream.release.together.feed_together` sees to that.
        If the block raises, nothing of it was committed. Streams that are named are locked first, in the order in
        which everybody locks: nobody waits in a circle.
        """
        with self._backend.write() as connection:
            lock_together(connection, names)
            group = self._group = CommitGroup(connection)
            try:
                yield
                self._backend.check_file()
                for stream, mark in group.commit().items():
                    self.marks.note(stream, mark)
                self._backend.committed()
            finally:
                self._group = None
                group.abandon()

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Call ``undo`` if the group of steps that this thread is in is not committed; without one there is no need."""
        if (group := self._my_group()) is not None:
            group.on_failure(undo)

    def _committed(self, stream: str, mark: Mark) -> None:
        if (group := self._my_group()) is not None:
            group.note(stream, mark)
            group.on_failure(self._remembered.clear)
            group.on_failure(self._pools.forget)
            return
        self.marks.note(stream, mark)
        self._backend.committed()

    @checks_arguments
    def releases(self, stream: str | None = None, *, after: int = 0, limit: int | None = None) -> Iterator[Release]:
        """Releases with ``seq`` above ``after`` in the order of their commits, of one stream or of all.

        They are read page by page: releases committed while the iteration runs are found by it.
        """
        chosen: dict[str, int] = {}
        with self._backend.read() as connection:
            widest = connection.execute(sa.select(sa.func.max(streams.c.bins))).scalar_one() or 1
            if stream is not None:
                chosen["stream"] = self._stream_id(connection, stream)
        query = RELEASES if stream is None else RELEASES_OF_STREAM
        remaining = limit
        while remaining is None or remaining > 0:
            size = max(1, min(PAGE, PAGE_NUMBERS // widest, PAGE if remaining is None else remaining))
            with self._backend.read() as connection:
                chosen |= {"after": after, "size": size}
                page = read_releases(connection, query, chosen, self._backend.label)
            yield from page
            if len(page) < size:
                return
            after = page[-1].seq
            remaining = None if remaining is None else remaining - len(page)

    @checks_arguments
    def release_at(self, stream: str, t: int) -> Release | None:
        """The release of step ``t``, or ``None`` if that step has not been released."""
        with self._backend.read() as connection:
            chosen = {"stream": self._stream_id(connection, stream), "time": t}
            found = read_releases(connection, RELEASE_AT, chosen, self._backend.label)
        return found[0] if found else None

    @checks_arguments
    def revisions(self, stream: str, *, first: int | None = None, last: int | None = None) -> Iterator[Revision]:
        """New values for steps ``first`` to ``last`` in the order in which they were published, every version of each.

        The release of a step is its version 0.
        """
        after: int | None = 0
        while after is not None:
            with self._backend.read() as connection:
                stream_id = self._stream_id(connection, stream)
                page, after = read_vintages(
                    connection, stream_id, self._backend.label, first=first, last=last, after=after, size=VINTAGES
                )
            yield from page

    def charges(self, stream: str, *, after: int = 0) -> Iterator[ChargeRow]:
        """Charges of a stream with an id above ``after``, oldest first, those of failed steps included."""
        while True:
            with self._backend.read() as connection:
                stream_id = self._stream_id(connection, stream)
                page = read_charges(connection, stream_id, after, PAGE, self._backend.label)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    @checks_arguments
    def head(self, stream: str) -> int | None:
        """The last step that is released or lost, or ``None`` if there is none."""
        with self._backend.read() as connection:
            return head_of(connection, self._stream_id(connection, stream))

    def spec(self, stream: str) -> StreamSpec:
        """What a stream is."""
        with self._backend.read() as connection:
            recorded = find_spec(connection, stream)
        if recorded is None:
            raise self._unknown(stream)
        return recorded

    def streams(self) -> list[StreamSpec]:
        """Every stream of the ledger, in the order in which they were registered."""
        with self._backend.read() as connection:
            return all_specs(connection)

    def shrink(self) -> None:
        """Give room that is no longer used back to the disk, if nobody else is at the ledger."""
        self._backend.shrink()

    def grant_reader(self, role: str) -> list[str]:
        """Let a role of PostgreSQL read what is public here, and nothing secret; the statements that did it."""
        with self._backend.write() as connection:
            return grant_reader(connection, role, self._backend.label)

    def close(self) -> None:
        """Close the connection; what was committed stays."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stream_id(self, connection: Connection, stream: str) -> int:
        found = connection.execute(sa.select(streams.c.id).where(streams.c.name == stream))
        stream_id: int | None = found.scalar_one_or_none()
        if stream_id is None:
            raise self._unknown(stream)
        return stream_id

    def _unknown(self, stream: str) -> LedgerError:
        return LedgerError(
            name="stream", value=stream, limit=f"ledger {self._backend.label} has no such stream; register it first"
        )


def _server_marks(key: bytes) -> Marks:
    return Marks(None, server_folder(sha256(b"ledger" + key).hexdigest()[:32]))
