"""What one commit of the spool stores of the batches that share it.

Statements are made once: a batch costs its bytes and a few short calls, and of all batches of a stream in a commit the
counters are written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.private import Private
from veilstream.errors import BatchConflictError, SpoolFullError, StaleBatchError
from veilstream.live.rows import ON_ARRIVAL, EncodedBatch, Fates, pack
from veilstream.live.spool_tables import batches, counters, parts, positions
from veilstream.live.spooled import Moved, SpooledStream, locked_stream

HOUR: Final = 3_600_000_000
_INSERT_PARTS: Final = sa.insert(parts)
_INSERT_BATCH: Final = sa.insert(batches)
_INSERT_COUNTERS: Final = sa.insert(counters)
_KNOWN_BATCH: Final = sa.select(batches.c.digest).where(
    batches.c.stream_id == sa.bindparam("stream"), batches.c.batch_id == sa.bindparam("batch")
)
_ADD_COUNTERS: Final = (
    sa.update(counters)
    .where(counters.c.stream_id == sa.bindparam("stream"), counters.c.hour == sa.bindparam("at"))
    .values({name: counters.c[name] + sa.bindparam(f"more_{name}") for name in Fates.__slots__})
)


class Arrival(Private):
    """A batch on its way into the spool.

    It was ``received`` at a tick of the clock; None for rows of a source, whose store knows when each of them arrived:
    which of them are in time was decided when they were encoded.
    """

    __slots__ = ("batch_id", "digest", "encoded", "positions", "received", "stream")

    def __init__(
        self,
        stream: SpooledStream,
        encoded: EncodedBatch,
        received: int | None,
        batch_id: str | None = None,
        digest: bytes = b"",
        positions: Mapping[str, Moved] | None = None,
    ) -> None:
        self.stream, self.encoded, self.received = stream, encoded, received
        self.batch_id, self.digest, self.positions = batch_id, digest, dict(positions or {})


class SharedCommit:
    """The batches of one transaction. Nothing is stored until ``finish``, but for ids and positions of batches."""

    def __init__(self, connection: Connection, now: int, refusal: SpoolFullError | None) -> None:
        self._connection, self._now, self._refusal = connection, now, refusal
        self._streams: dict[str, SpooledStream] = {}
        self._parts: list[dict[str, Any]] = []
        self._fates: dict[tuple[int, int], Fates] = {}

    def store(self, arrival: Arrival) -> str:
        """Take a batch: "accepted" or "duplicate"."""
        stream = self._stream(arrival.stream.definition.name)
        if arrival.batch_id is not None and self._is_known(stream, arrival):
            return "duplicate"
        self._check_positions(arrival)
        manual = stream.definition.clock == "manual"
        received = arrival.received
        if not manual and received is not None and self._now - received > stream.definition.timetable.settle:
            delay = stream.definition.delay
            raise StaleBatchError(
                name="batch",
                value=arrival.batch_id,
                limit=f"it took longer than half the stream's delay of {delay} to store; send it again",
            )
        if self._refusal is not None:
            raise self._refusal
        # Only a machine whose clock was set back can be before the last closing.
        arrived = stream.manual_now if manual else max(self._now if received is None else received, stream.frozen_at)
        kept, fates = self._place(stream, arrival, arrived)
        self._remember(stream, arrival, arrived, max((part["step"] for part in kept), default=-1))
        self._parts += kept
        hour = (stream.id, arrived // HOUR)
        self._fates[hour] = self._fates.get(hour, Fates()) + fates
        return "accepted"

    def finish(self) -> None:
        """Write the rows and the counters of all batches."""
        if self._parts:
            self._connection.execute(_INSERT_PARTS, self._parts)
        for (stream, hour), fates in self._fates.items():
            numbers = {name: getattr(fates, name) for name in fates.__slots__}
            more = {f"more_{name}": value for name, value in numbers.items()}
            if self._connection.execute(_ADD_COUNTERS, {"stream": stream, "at": hour, **more}).rowcount == 0:
                self._connection.execute(_INSERT_COUNTERS, {"stream_id": stream, "hour": hour, **numbers})

    def _stream(self, name: str) -> SpooledStream:
        # The transaction holds the lock on the stream, which stays as it is until the end.
        if name not in self._streams:
            self._streams[name] = locked_stream(self._connection, name)
        return self._streams[name]

    def _place(self, stream: SpooledStream, arrival: Arrival, arrived: int) -> tuple[list[dict[str, Any]], Fates]:
        """The rows of steps that are open, and the fates of all rows."""
        definition, timetable = stream.definition, stream.definition.timetable
        fates, kept = replace(arrival.encoded.fates), list[dict[str, Any]]()
        for given, rows in arrival.encoded.parts.items():
            step = timetable.step_at(arrived) if given == ON_ARRIVAL else given
            judged = arrival.received is None
            if step < stream.frozen or (not judged and arrived >= timetable.deadline(step)):
                fates.late += len(rows)
            elif (
                not judged
                and definition.clock != "manual"
                and timetable.begins(step) > arrived + definition.ahead_ticks
            ):
                fates.bad_time += len(rows)
            else:
                payload = pack(rows)
                kept.append({"stream_id": stream.id, "step": step, "size": len(payload), "payload": payload})
        return kept, fates

    def _is_known(self, stream: SpooledStream, arrival: Arrival) -> bool:
        same = {"stream": stream.id, "batch": arrival.batch_id}
        digest = self._connection.execute(_KNOWN_BATCH, same).scalar_one_or_none()
        if digest is not None and bytes(digest) != arrival.digest:
            raise BatchConflictError(
                name="batch",
                value=arrival.batch_id,
                limit="this id was used for other content; give every batch an id of its own",
            )
        return digest is not None

    def _remember(self, stream: SpooledStream, arrival: Arrival, arrived: int, last_step: int) -> None:
        if arrival.batch_id is not None:
            new = {"stream_id": stream.id, "batch_id": arrival.batch_id, "digest": arrival.digest}
            self._connection.execute(_INSERT_BATCH, {**new, "arrived": arrived, "last_step": last_step})
        for place, moved in arrival.positions.items():
            same = sa.update(positions).where(_place(place)).values(position=moved.after)
            if self._connection.execute(same).rowcount == 0:
                source, _, part = place.partition("|")
                new = {"source": source, "part": part, "position": moved.after}
                self._connection.execute(sa.insert(positions), new)

    def _check_positions(self, arrival: Arrival) -> None:
        for place, moved in arrival.positions.items():
            chosen = sa.select(positions.c.position).where(_place(place))
            known = self._connection.execute(chosen).scalar_one_or_none()
            if known != moved.before:
                raise BatchConflictError(
                    name="source",
                    value=place,
                    limit=f"it was read up to {known} by another process; let one process read it",
                )


def _place(place: str) -> sa.ColumnElement[bool]:
    source, _, part = place.partition("|")
    return sa.and_(positions.c.source == source, positions.c.part == part)
