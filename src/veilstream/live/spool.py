"""The durable spool: accepted batches wait here, encoded, until their step closes.

One transaction stores a batch with its id, its digest and the positions of the source that it came from. Afterwards it
is neither lost nor taken twice. The spool holds private rows: its file has mode 0600, and what is deleted is
overwritten.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.private import Private
from veilstream.errors import BatchConflictError, LedgerError, SpoolFullError, StaleBatchError
from veilstream.live.clock import FAR_FUTURE
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import ON_ARRIVAL, EncodedBatch, Fates, join, pack, unpack
from veilstream.live.spool_tables import (
    batches,
    connect,
    counters,
    metadata,
    parts,
    positions,
    presences,
    streams,
    write,
)

KEY_BYTES: Final = 32
REMEMBERED_DAYS: Final = 14
"""How long batch ids are remembered after their arrival."""
DAY: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class SpooledStream:
    """A stream of the spool: its definition and how far it is. Steps below ``frozen`` take no more rows, those below
    ``done`` are published and their rows deleted."""

    id: int
    definition: StreamDefinition
    key: Key = field(repr=False)
    first: int
    frozen: int
    done: int
    frozen_at: int
    manual_now: int


@dataclass(frozen=True, slots=True)
class Moved:
    """A source was read from one position to another; None is its beginning."""

    before: str | None
    after: str


class Arrival(Private):
    """A batch on its way into the spool."""

    __slots__ = ("batch_id", "digest", "encoded", "positions", "received", "stream")

    def __init__(
        self,
        stream: SpooledStream,
        encoded: EncodedBatch,
        received: int,
        batch_id: str | None = None,
        digest: bytes = b"",
        positions: Mapping[str, Moved] | None = None,
    ) -> None:
        self.stream, self.encoded, self.received = stream, encoded, received
        self.batch_id, self.digest, self.positions = batch_id, digest, dict(positions or {})


class Present(Private):
    """Who was present in the steps of a stream, and how many rows did not count: for the operator alone."""

    __slots__ = ("history", "left_out")

    def __init__(self, left_out: int, history: bytes) -> None:
        self.left_out, self.history = left_out, history


class Spool:
    """Rows that wait for their step, in SQLite or PostgreSQL."""

    def __init__(self, url: str | Path, *, timeout: float = 30, most_bytes: int | None = None) -> None:
        self._engine, self.label = connect(url, timeout)
        self._most_bytes = most_bytes
        # SQLite lets waiting writers poll, so that a busy one starves the others; threads of a process take turns here.
        self._turn = threading.Lock()
        with self.write() as connection:
            metadata.create_all(connection)

    @contextmanager
    def write(self) -> Generator[Connection]:
        """One transaction; an error undoes all of it."""
        with self._turn, write(self._engine, self.label) as connection:
            yield connection

    def define(self, definition: StreamDefinition, first: int) -> SpooledStream:
        """Record the stream if it is new, else check that it is the same."""
        with self.write() as connection:
            row = _row(connection, definition.name)
            if row is None:
                text = json.dumps(definition.to_json())
                new = {"name": definition.name, "definition": text, "key": os.urandom(KEY_BYTES), "first": first}
                start = definition.timetable.begins(first)
                new |= {"frozen": first, "done": first, "frozen_at": -FAR_FUTURE, "manual_now": start}
                connection.execute(sa.insert(streams), new)
            else:
                merged = _stream(row).definition.check_same(definition)
                text = json.dumps(merged.to_json())
                connection.execute(sa.update(streams).where(streams.c.id == row.id).values(definition=text))
            row = _row(connection, definition.name)
        assert row is not None
        return _stream(row)

    def stream(self, name: str) -> SpooledStream | None:
        """The stream as it is now, or None."""
        with self._engine.connect() as connection:
            row = _row(connection, name)
        return None if row is None else _stream(row)

    def names(self) -> list[str]:
        with self._engine.connect() as connection:
            return list(connection.execute(sa.select(streams.c.name).order_by(streams.c.id)).scalars())

    def append(self, arrivals: Sequence[Arrival], now: int) -> list[str | Exception]:
        """Store batches in one commit; each is "accepted", a "duplicate", or refused with the error in its place."""
        with self.write() as connection:
            room = self._room(connection)
            outcomes: list[str | Exception] = []
            for arrival in arrivals:
                try:
                    outcomes.append(_store(connection, arrival, now, room))
                except (BatchConflictError, StaleBatchError, SpoolFullError) as error:
                    outcomes.append(error)
        return outcomes

    def positions(self, source: str) -> dict[str, str]:
        """How far a source was read, part by part."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(positions).where(positions.c.source == source)).all()
        return {row.part: row.position for row in rows}

    def move(self, source: str, part: str, position: str) -> None:
        """Remember how far a part of a source was read, or a receiver was served, without rows."""
        with self.write() as connection:
            same = _place(f"{source}|{part}")
            if connection.execute(sa.update(positions).where(same).values(position=position)).rowcount == 0:
                connection.execute(sa.insert(positions), {"source": source, "part": part, "position": position})

    def freeze(self, steps: Mapping[str, int]) -> None:
        """From now on the named streams take no more rows up to the given step, that step included."""
        with self.write() as connection:
            for name, step in steps.items():
                stream = _locked(connection, name)
                if step >= stream.frozen:
                    closed_at = max(stream.frozen_at, stream.definition.timetable.closes(step))
                    values = {"frozen": step + 1, "frozen_at": closed_at}
                    connection.execute(sa.update(streams).where(streams.c.id == stream.id).values(**values))

    def advance(self, name: str, tick: int) -> None:
        """Move a manual clock forward."""
        with self.write() as connection:
            moved = sa.update(streams).where(streams.c.name == name, streams.c.manual_now < tick)
            connection.execute(moved.values(manual_now=tick))

    def rows(self, stream: SpooledStream, step: int) -> Rows:
        """The rows of a step."""
        with self._engine.connect() as connection:
            chosen = sa.select(parts.c.payload).where(parts.c.stream_id == stream.id, parts.c.step == step)
            payloads = connection.execute(chosen.order_by(parts.c.id)).scalars().all()
        return join([unpack(payload) for payload in payloads])

    def forget(self, steps: Mapping[str, int], now: int, present: Mapping[str, Present] | None = None) -> None:
        """Delete the rows of published steps, up to the given one of each stream, and batch ids of long ago.

        ``present`` is who was present in them, where that decides about later steps.
        """
        with self.write() as connection:
            for name, step in steps.items():
                stream = _locked(connection, name)
                mine = parts.c.stream_id == stream.id
                connection.execute(sa.delete(parts).where(mine, parts.c.step <= step))
                old = batches.c.arrived < now - REMEMBERED_DAYS * DAY
                connection.execute(sa.delete(batches).where(batches.c.stream_id == stream.id, old))
                done = max(stream.done, step + 1)
                connection.execute(sa.update(streams).where(streams.c.id == stream.id).values(done=done))
                if present is not None and name in present:
                    _store_present(connection, stream.id, present[name])

    def present(self, stream: SpooledStream) -> Present | None:
        """Who was present in the steps that are done, None if nothing is recorded."""
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(presences).where(presences.c.stream_id == stream.id)).one_or_none()
        return None if row is None else Present(row.left_out, bytes(row.history))

    def fates(self, name: str) -> dict[int, Fates]:
        """Rows taken and left out, by the hour of arrival. Exact, FOR THE OPERATOR ALONE."""
        with self._engine.connect() as connection:
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

    def _room(self, connection: Connection) -> bool:
        if self._most_bytes is None:
            return True
        waiting = connection.execute(sa.select(sa.func.coalesce(sa.func.sum(parts.c.size), 0))).scalar_one()
        return int(waiting) < self._most_bytes


def _store_present(connection: Connection, stream_id: int, present: Present) -> None:
    values = {"left_out": present.left_out, "history": present.history}
    if connection.execute(sa.update(presences).where(presences.c.stream_id == stream_id).values(values)).rowcount == 0:
        connection.execute(sa.insert(presences), {"stream_id": stream_id, **values})


def _store(connection: Connection, arrival: Arrival, now: int, room: bool) -> str:
    stream = _locked(connection, arrival.stream.definition.name)
    if arrival.batch_id is not None and _known(connection, stream, arrival):
        return "duplicate"
    _check_positions(connection, arrival)
    timetable = stream.definition.timetable
    manual = stream.definition.clock == "manual"
    if not manual and now - arrival.received > timetable.settle:
        raise StaleBatchError(
            name="batch",
            value=arrival.batch_id,
            limit=f"it took longer than half the stream's delay of {stream.definition.delay} to store; send it again",
        )
    if not room:
        raise SpoolFullError(name="spool", limit="it holds as many rows as allowed; send the batch again later")
    # Only a machine whose clock was set back can be before the last closing.
    arrived = stream.manual_now if manual else max(arrival.received, stream.frozen_at)
    fates, stored = replace(arrival.encoded.fates), list[dict[str, Any]]()
    for given, rows in arrival.encoded.parts.items():
        step = timetable.step_at(arrived) if given == ON_ARRIVAL else given
        if arrived >= timetable.deadline(step) or step < stream.frozen:
            fates.late += len(rows)
        elif not manual and timetable.begins(step) > arrived + stream.definition.ahead_ticks:
            fates.bad_time += len(rows)
        else:
            payload = pack(rows)
            stored.append({"stream_id": stream.id, "step": step, "size": len(payload), "payload": payload})
    if stored:
        connection.execute(sa.insert(parts), stored)
    _remember(connection, stream, arrival, arrived)
    _count(connection, stream.id, arrived // (DAY // 24), fates)
    return "accepted"


def _known(connection: Connection, stream: SpooledStream, arrival: Arrival) -> bool:
    chosen = sa.select(batches.c.digest).where(batches.c.stream_id == stream.id, batches.c.batch_id == arrival.batch_id)
    digest = connection.execute(chosen).scalar_one_or_none()
    if digest is not None and bytes(digest) != arrival.digest:
        raise BatchConflictError(
            name="batch",
            value=arrival.batch_id,
            limit="this id was used for other content; give every batch an id of its own",
        )
    return digest is not None


def _remember(connection: Connection, stream: SpooledStream, arrival: Arrival, arrived: int) -> None:
    if arrival.batch_id is not None:
        new = {"stream_id": stream.id, "batch_id": arrival.batch_id, "digest": arrival.digest, "arrived": arrived}
        connection.execute(sa.insert(batches), new)
    for place, moved in arrival.positions.items():
        same = _place(place)
        if connection.execute(sa.update(positions).where(same).values(position=moved.after)).rowcount == 0:
            source, _, part = place.partition("|")
            connection.execute(sa.insert(positions), {"source": source, "part": part, "position": moved.after})


def _check_positions(connection: Connection, arrival: Arrival) -> None:
    for place, moved in arrival.positions.items():
        known = connection.execute(sa.select(positions.c.position).where(_place(place))).scalar_one_or_none()
        if known != moved.before:
            raise BatchConflictError(
                name="source",
                value=place,
                limit=f"it was read up to {known} by another process; let one process read it",
            )


def _place(place: str) -> sa.ColumnElement[bool]:
    source, _, part = place.partition("|")
    return sa.and_(positions.c.source == source, positions.c.part == part)


def _count(connection: Connection, stream_id: int, hour: int, fates: Fates) -> None:
    new = {name: getattr(fates, name) for name in fates.__slots__}
    same = sa.and_(counters.c.stream_id == stream_id, counters.c.hour == hour)
    more = {name: counters.c[name] + value for name, value in new.items()}
    if connection.execute(sa.update(counters).where(same).values(**more)).rowcount == 0:
        connection.execute(sa.insert(counters), {"stream_id": stream_id, "hour": hour, **new})


def _row(connection: Connection, name: str, lock: bool = False) -> sa.Row[Any] | None:
    chosen = sa.select(streams).where(streams.c.name == name)
    # PostgreSQL locks the row; SQLite leaves FOR UPDATE out and holds the whole file already.
    return connection.execute(chosen.with_for_update() if lock else chosen).one_or_none()


def _locked(connection: Connection, name: str) -> SpooledStream:
    row = _row(connection, name, lock=True)
    if row is None:
        raise LedgerError(name="stream", value=name, limit="the spool has no such stream; define it first")
    return _stream(row)


def _stream(row: sa.Row[Any]) -> SpooledStream:
    definition = _parsed(row.definition)
    return SpooledStream(
        row.id, definition, Key(bytes(row.key)), row.first, row.frozen, row.done, row.frozen_at, row.manual_now
    )


_parsed_definitions: dict[str, StreamDefinition] = {}


def _parsed(text: str) -> StreamDefinition:
    """The definition that ``text`` holds, parsed once."""
    found = _parsed_definitions.get(text)
    if found is None:
        found = _parsed_definitions[text] = StreamDefinition.from_json(json.loads(text))
    return found
