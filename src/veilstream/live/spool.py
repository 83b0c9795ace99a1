"""The durable spool: accepted batches wait here, encoded, until their step closes.

One transaction stores a batch with its id, its digest and the positions of the source that it came from. Afterwards it
is neither lost nor taken twice. The spool holds private rows: its file has mode 0600, and what is deleted is
overwritten.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_spill import Records
from veilstream.errors import (
    BatchConflictError,
    InvalidInputError,
    LedgerBusyError,
    LedgerError,
    SpoolFullError,
    StaleBatchError,
)
from veilstream.live.clock import FAR_FUTURE
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import Fates, join, unpack
from veilstream.live.spool_people import PeopleNotes, read_people, store_people
from veilstream.live.spool_presence import (
    Known,
    Present,
    next_image,
    read_left_out,
    read_present,
    store_present,
    write_block,
)
from veilstream.live.spool_tables import (
    batches,
    connect,
    counters,
    metadata,
    parts,
    positions,
    read,
    streams,
    write,
)
from veilstream.live.spool_writing import Arrival, SharedCommit
from veilstream.live.spooled import SpooledStream, found_stream, locked_stream
from veilstream.storage.copies import Write, one_moment
from veilstream.storage.ledger.surroundings import same_file

KEY_BYTES: Final = 32
MOST_BYTES: Final = 16 << 30
"""How large a spool may grow; batches are refused beyond, until steps have closed."""
KEPT_FREE: Final = 256 << 20
"""What batches leave free on the disk, at most a tenth of it: closing a step needs room, and gives more back."""
LOOK_SECONDS: Final = 5.0
REMEMBERED_DAYS: Final = 14
"""For how many days after its arrival a batch id is remembered at least, and until its last step is published."""
DAY: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class SpoolRoom:
    """Bytes that rows take and may take; what is free on the disk (None: it is not ours to see) and what is kept so."""

    used: int
    most: int
    free: int | None
    kept: int

    def refusal(self) -> SpoolFullError | None:
        """Why no batch is taken now, if none is; senders are not told how much others have sent."""
        if self.used >= self.most:
            return SpoolFullError(
                name="spool",
                limit="it holds as much as it may",
                operator_note=f"it takes {self.used:,} bytes, the limit is {self.most:,}",
            )
        if self.free is not None and self.free < self.kept:
            return SpoolFullError(
                name="spool",
                limit="what is left of its disk is for closing steps",
                operator_note=f"{self.free:,} bytes are free, {self.kept:,} are kept so",
            )
        return None


class Spool:
    """Rows that wait for their step, in SQLite or PostgreSQL."""

    def __init__(self, url: str | Path, *, timeout: float = 30, most_bytes: int = MOST_BYTES) -> None:
        self._engine, self.label = connect(url, timeout)
        self._most_bytes, self._timeout = most_bytes, timeout
        self._file = Path(self.label) if self._engine.dialect.name == "sqlite" else None
        self._known_file = None if self._file is None else same_file(self._file)
        self._looked: tuple[float, int] = (-math.inf, 0)
        # SQLite lets waiting writers poll, so that a busy one starves the others; threads of a process take turns here.
        self._turn = threading.Lock()
        self.folder = None if self._engine.dialect.name != "sqlite" else Path(self.label).resolve().parent
        """Where secrets that do not fit in memory may lie for a while; None is the machine's place for such files."""
        with self.write() as connection:
            metadata.create_all(connection)

    @property
    def tables(self) -> list[sa.Table]:
        """The tables of a spool in the order in which rows can be put into them."""
        return metadata.sorted_tables

    @contextmanager
    def write(self) -> Generator[Connection]:
        """One transaction; an error undoes all of it."""
        if not self._turn.acquire(timeout=self._timeout):
            raise LedgerBusyError(
                name="spool",
                value=self.label,
                limit=f"other writers of this process held it for {self._timeout:g} s",
                outcome="nothing was stored",
            )
        try:
            with write(self._engine, self.label) as connection:
                if self._file is not None and same_file(self._file) != self._known_file:
                    raise LedgerError(
                        name="spool",
                        value=self.label,
                        limit="the file was moved or replaced while it was open",
                        outcome="nothing was stored",
                        next_step="start the server again, with the latest spool",
                    )
                yield connection
        finally:
            self._turn.release()

    @contextmanager
    def read(self) -> Generator[Connection]:
        """A look at what is committed; it waits for no writer."""
        with read(self._engine, self.label) as connection:
            yield connection

    def define(self, definition: StreamDefinition, first: int) -> SpooledStream:
        """Record the stream if it is new, else check that it is the same."""
        with self.write() as connection:
            known = found_stream(connection, definition.name)
            if known is None:
                text = json.dumps(definition.to_json())
                new = {"name": definition.name, "definition": text, "key": os.urandom(KEY_BYTES), "first": first}
                start = definition.timetable.begins(first)
                new |= {"frozen": first, "done": first, "frozen_at": -FAR_FUTURE, "manual_now": start}
                connection.execute(sa.insert(streams), new)
            else:
                merged = known.definition.check_same(definition)
                text = json.dumps(merged.to_json())
                connection.execute(sa.update(streams).where(streams.c.id == known.id).values(definition=text))
            return locked_stream(connection, definition.name)

    def stream(self, name: str) -> SpooledStream | None:
        """The stream as it is now, or None."""
        with self.read() as connection:
            return found_stream(connection, name)

    def names(self) -> list[str]:
        with self.read() as connection:
            return list(connection.execute(sa.select(streams.c.name).order_by(streams.c.id)).scalars())

    def append(self, arrivals: Sequence[Arrival], now: int) -> list[str | Exception]:
        """Store batches in one commit; each is "accepted", a "duplicate", or refused with the error in its place."""
        with self.write() as connection:
            shared = SharedCommit(connection, now, self._room(connection).refusal())
            outcomes: list[str | Exception] = []
            for arrival in arrivals:
                try:
                    outcomes.append(shared.store(arrival))
                except (BatchConflictError, StaleBatchError, SpoolFullError, InvalidInputError) as error:
                    outcomes.append(error)
            shared.finish()
        return outcomes

    def positions(self, source: str) -> dict[str, str]:
        """How far a source was read, part by part."""
        with self.read() as connection:
            rows = connection.execute(sa.select(positions).where(positions.c.source == source)).all()
        return {row.part: row.position for row in rows}

    def move(self, source: str, part: str, position: str) -> None:
        """Remember how far a part of a source was read, or a receiver was served, without rows."""
        with self.write() as connection:
            same = _part(source, part)
            if connection.execute(sa.update(positions).where(same).values(position=position)).rowcount == 0:
                connection.execute(sa.insert(positions), {"source": source, "part": part, "position": position})

    def freeze(self, steps: Mapping[str, int]) -> None:
        """From now on the named streams take no more rows up to the given step, that step included."""
        with self.write() as connection:
            for name, step in steps.items():
                stream = locked_stream(connection, name)
                if step >= stream.frozen:
                    closed_at = max(stream.frozen_at, stream.definition.timetable.closes(step))
                    values = {"frozen": step + 1, "frozen_at": closed_at}
                    connection.execute(sa.update(streams).where(streams.c.id == stream.id).values(**values))

    def go_on_at(self, name: str, step: int) -> None:
        """Give up the rows of all steps before ``step``: the ledger goes on there, and this spool is behind it."""
        with self.write() as connection:
            stream = locked_stream(connection, name)
            connection.execute(sa.delete(parts).where(parts.c.stream_id == stream.id, parts.c.step < step))
            values = {"frozen": max(stream.frozen, step), "done": max(stream.done, step)}
            connection.execute(sa.update(streams).where(streams.c.id == stream.id).values(**values))

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """No step is frozen or done meanwhile, and no batch is taken."""
        with self.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"LOCK TABLE {streams.name} IN EXCLUSIVE MODE")
            yield

    def one_moment(self, beside: Sequence[sa.Table]) -> AbstractContextManager[Write]:
        """Holds the present moment of the spool, of which copies can be written while others write to it."""
        tables = [*self.tables, *beside]

        def make(connection: Connection) -> None:
            for table in tables:
                table.create(connection)

        return one_moment(self._engine, tables, make)

    def advance(self, name: str, tick: int) -> None:
        """Move a manual clock forward."""
        with self.write() as connection:
            moved = sa.update(streams).where(streams.c.name == name, streams.c.manual_now < tick)
            connection.execute(moved.values(manual_now=tick))

    def rows(self, stream: SpooledStream, step: int) -> Rows:
        """The rows of a step."""
        with self.read() as connection:
            chosen = sa.select(parts.c.payload).where(parts.c.stream_id == stream.id, parts.c.step == step)
            payloads = connection.execute(chosen.order_by(parts.c.id)).scalars().all()
        return join([unpack(payload) for payload in payloads])

    def forget(
        self,
        steps: Mapping[str, int],
        now: int,
        present: Mapping[str, Present] | None = None,
        people: Mapping[str, PeopleNotes] | None = None,
    ) -> None:
        """Delete the rows of published steps, up to the given one of each stream, and batch ids of long ago.

        ``present`` is who was present in them, where that decides about later steps, ``people`` who was there in
        which bins, where later steps count them as well.
        """
        with self.write() as connection:
            for name, step in steps.items():
                stream = locked_stream(connection, name)
                mine = parts.c.stream_id == stream.id
                connection.execute(sa.delete(parts).where(mine, parts.c.step <= step))
                old = batches.c.arrived < now - REMEMBERED_DAYS * DAY
                over = batches.c.last_step <= step
                connection.execute(sa.delete(batches).where(batches.c.stream_id == stream.id, old, over))
                done = max(stream.done, step + 1)
                connection.execute(sa.update(streams).where(streams.c.id == stream.id).values(done=done))
                if present is not None and name in present:
                    store_present(connection, stream.id, present[name])
                if people is not None and name in people:
                    store_people(connection, stream.id, people[name])

    def present(self, stream: SpooledStream, done: int, empty: PresenceHistory) -> Known:
        """Who was present in the steps before ``done``, in a history of the rule and key of ``empty``."""
        with self.read() as connection:
            return read_present(connection, stream.id, done, empty, self.folder)

    def people(self, stream: SpooledStream, first: int, done: int) -> list[tuple[int, bytes]]:
        """The people that were noted of the steps from ``first`` to the one before ``done``."""
        with self.read() as connection:
            return read_people(connection, stream.id, first, done)

    def left_out(self, stream: SpooledStream) -> int | None:
        """Rows of people who counted in enough steps, None where people count in all. FOR THE OPERATOR ALONE."""
        with self.read() as connection:
            return read_left_out(connection, stream.id)

    def write_image(self, stream: SpooledStream, blocks: Iterable[Records]) -> int:
        """Write an image of a presence history, block by block; it is none until ``forget`` names its number."""
        with self.read() as connection:
            image = next_image(connection, stream.id)
        for number, block in enumerate(blocks):
            with self.write() as connection:
                write_block(connection, stream.id, image, number, block)
        return image

    def fates(self, name: str) -> dict[int, Fates]:
        """Rows taken and left out, by the hour of arrival. Exact, FOR THE OPERATOR ALONE."""
        with self.read() as connection:
            chosen = sa.select(counters).join(streams, streams.c.id == counters.c.stream_id)
            rows = connection.execute(chosen.where(streams.c.name == name).order_by(counters.c.hour)).mappings().all()
        return {row["hour"]: Fates(**{name: row[name] for name in Fates.__slots__}) for row in rows}

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def room(self) -> SpoolRoom:
        """How large the spool is, how large it may be, and what is free on its disk."""
        with self.read() as connection:
            return self._room(connection)

    def _room(self, connection: Connection) -> SpoolRoom:
        if self._file is None:
            # What is deleted on a server is free when it has cleaned up: rows that wait are counted.
            looked, waiting = self._looked
            if time.monotonic() - looked > LOOK_SECONDS:
                waiting = int(
                    connection.execute(sa.select(sa.func.coalesce(sa.func.sum(parts.c.size), 0))).scalar_one()
                )
                self._looked = (time.monotonic(), waiting)
            return SpoolRoom(waiting, self._most_bytes, None, 0)
        pages, unused, size = (
            int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
            for name in ("page_count", "freelist_count", "page_size")
        )
        disk = os.statvfs(self._file)
        free, kept = disk.f_bavail * disk.f_frsize, min(KEPT_FREE, disk.f_blocks * disk.f_frsize // 10)
        # Pages that are unused take rows without more of the disk.
        return SpoolRoom((pages - unused) * size, self._most_bytes, free, max(0, kept - unused * size))


def _part(source: str, part: str) -> sa.ColumnElement[bool]:
    return sa.and_(positions.c.source == source, positions.c.part == part)
