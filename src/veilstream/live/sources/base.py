"""What every source does: give the batches that came since the positions that are known, and say how it is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.json_lines import is_row, read_json_lines
from veilstream.errors import InvalidInputError
from veilstream.live.clock import FAR_FUTURE
from veilstream.live.spooled import Moved
from veilstream.live.stream import Inlet

LOG: Final = logging.getLogger("veilstream.live")
LONGEST_PAUSE: Final = 30.0
SHORTEST_PAUSE: Final = 0.001
MILLISECOND: Final = 1000
LONG_AGO: Final = -FAR_FUTURE


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows, where each part of the source stands after them, and when they arrived at its store: all at one moment,
    each at its own, or None where the store does not say. ``refused`` names a part that cannot be read, and why."""

    rows: pl.DataFrame | list[pl.DataFrame] = field(repr=False)
    positions: Mapping[str, str]
    unreadable: int = field(default=0, repr=False)
    arrived: int | NDArray[np.int64] | None = field(default=None, repr=False)
    refused: str | None = None


class Source(Protocol):
    """Something that grows. ``name`` tells it from other sources; its positions are stored under that name."""

    @property
    def name(self) -> str: ...

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        """Batches that came since ``known``, at least all that were there when this was called.

        The first of the columns holds people's ids. Whatever keeps the source from being read is raised; what is wrong
        with one part of it concerns that part alone.
        """
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class SourceState:
    """How a source is. All of it is about the source and none about rows, so all of it may be public.

    ``read_until`` is the tick of the stream's clock up to which everything that arrived was read. ``error`` is the
    kind of the last one, ``since`` when ``up`` last changed, ``refused`` how many parts could not be read.
    """

    up: bool = False
    error: str | None = None
    since: float = field(default_factory=time.time)
    read_until: int = LONG_AGO
    refused: int = 0

    def well(self, read_until: int) -> None:
        """Everything that had arrived by then was read."""
        self.read_until = max(self.read_until, read_until)
        self._turn(up=True)

    def fail(self, kind: str) -> None:
        """It could not be read to its end."""
        self.error = kind
        self._turn(up=False)

    def _turn(self, *, up: bool) -> None:
        if up != self.up:
            self.up, self.since = up, time.time()


def drain(stream: Inlet, source: Source, state: SourceState | None = None) -> int:
    """Take all that has come; how many batches. Rows and positions are stored in one commit, so none comes twice."""
    state = SourceState() if state is None else state
    began, known = stream.clock.now(), stream.spool.positions(source.name)
    count = 0
    for batch in source.poll(dict(known), stream.definition.columns):
        if batch.arrived is None and batch.refused is None and stream.definition.clock == "wall":
            raise InvalidInputError(
                name="source",
                value=source.name,
                limit="its store does not say when rows arrived; a topic needs message.timestamp.type=LogAppendTime",
                outcome="its rows wait, and the steps of its stream with them",
            )
        moved = {f"{source.name}|{part}": Moved(known.get(part), to) for part, to in batch.positions.items()}
        if batch.refused is not None:
            _refuse(stream, source, batch.refused, moved, state)
        else:
            try:
                stream.add(batch.rows, positions=moved, unreadable=batch.unreadable, arrived=batch.arrived)
            except InvalidInputError as error:
                _refuse(stream, source, f"{', '.join(batch.positions)}: {error}", moved, state)
        known |= batch.positions
        count += 1
    state.well(began)
    return count


def _refuse(stream: Inlet, source: Source, why: str, moved: Mapping[str, Moved], state: SourceState) -> None:
    """Go past a part that cannot be read: it would stop the source for everybody."""
    LOG.error("source %s: %s; none of it counts", source.name, why)
    stream.add(pl.DataFrame(schema=dict.fromkeys(stream.definition.columns, pl.String)), positions=moved, unreadable=1)
    state.refused += 1


def follow(
    stream: Inlet, source: Source, stop: threading.Event, pause: float = 1.0, state: SourceState | None = None
) -> None:
    """Take what comes until told to stop; after an error wait, longer each time, and go on from the stored position."""
    state, wait = SourceState() if state is None else state, pause
    try:
        while not stop.is_set():
            try:
                wait = 0.0 if drain(stream, source, state) else min(pause, _until_closing(stream))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # a panic of Polars is no Exception
                # The kind of error alone: what a reader says may quote rows.
                state.fail(type(error).__name__)
                LOG.error("source %s: %s; its steps wait, it will be tried again", source.name, state.error)
                source.close()
                wait = min(LONGEST_PAUSE, max(pause, 2 * wait))
            stop.wait(wait)
    finally:
        source.close()


def _until_closing(stream: Inlet) -> float:
    """How long it is until a step may close, which waits for whoever reads from then on."""
    timetable, now = stream.definition.timetable, stream.clock.now()
    if stream.definition.clock == "manual":
        return LONGEST_PAUSE
    open_step = max(0, timetable.step_at(now - timetable.grace - timetable.settle))
    return stream.clock.seconds_until(timetable.closes(open_step)) + SHORTEST_PAUSE


def rows_of_messages(messages: Sequence[bytes | None], columns: Sequence[str]) -> tuple[pl.DataFrame, int]:
    """JSON objects, one a message, as a table; and how many messages are none. The first column is the person's.

    >>> rows_of_messages([b'{"id": 7}', b"?"], ["id"])[1]
    1
    """
    frame, _ = read_json_lines(b"\n".join(_lines(messages)), columns, columns[0])
    return frame, len(messages) - len(frame)


def batch_of_messages(
    messages: Sequence[bytes | None],
    arrived: Sequence[int | None],
    columns: Sequence[str],
    positions: Mapping[str, str],
) -> Batch:
    """JSON objects, one a message, each with the moment of its arrival."""
    frame, unreadable = rows_of_messages(messages, columns)
    if unreadable:
        kept = [is_row(line, columns, columns[0]) for line in _lines(messages)]
        arrived = [moment for moment, good in zip(arrived, kept, strict=True) if good]
    known = [moment for moment in arrived if moment is not None]
    moments = np.array(known, np.int64) if len(known) == len(arrived) else None
    return Batch(frame, positions, unreadable, moments)


def _lines(messages: Sequence[bytes | None]) -> list[bytes]:
    return [b"" if message is None else message.replace(b"\n", b" ") for message in messages]
