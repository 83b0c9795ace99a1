"""What every source does: give the batches that came since the positions that are known."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import polars as pl

from veilstream.data.json_lines import read_json_lines
from veilstream.errors import BatchConflictError, VeilstreamError
from veilstream.live.spooled import Moved
from veilstream.live.stream import Inlet

LOG: Final = logging.getLogger("veilstream.live")
LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows, and where each part of the source stands after them."""

    rows: pl.DataFrame = field(repr=False)
    positions: Mapping[str, str]
    unreadable: int = field(default=0, repr=False)


class Source(Protocol):
    """Something that grows. ``name`` tells it from other sources; its positions are stored under that name."""

    @property
    def name(self) -> str: ...

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        """Batches that came since ``known``; the iterator ends when there are none for the moment."""
        ...

    def close(self) -> None: ...


def drain(stream: Inlet, source: Source) -> int:
    """Take all that has come; how many batches. Rows and positions are stored in one commit, so none comes twice."""
    known = stream.spool.positions(source.name)
    count = 0
    for batch in source.poll(dict(known), stream.definition.columns):
        moved = {f"{source.name}|{part}": Moved(known.get(part), to) for part, to in batch.positions.items()}
        stream.add(batch.rows, positions=moved, unreadable=batch.unreadable)
        known |= batch.positions
        count += 1
    return count


def follow(stream: Inlet, source: Source, stop: threading.Event, pause: float = 1.0) -> None:
    """Take what comes until told to stop; after an error wait, longer each time, and go on from the stored position."""
    wait = pause
    try:
        while not stop.is_set():
            try:
                wait = 0.0 if drain(stream, source) else pause
            except BatchConflictError:
                raise
            except VeilstreamError as error:
                # The kind of error alone: what a reader says may quote rows.
                LOG.error("source %s: %s; it will be tried again", source.name, type(error).__name__)
                wait = min(LONGEST_PAUSE, max(pause, 2 * wait))
            stop.wait(wait)
    finally:
        source.close()


def rows_of_messages(messages: Sequence[bytes | None], columns: Sequence[str]) -> tuple[pl.DataFrame, int]:
    """JSON objects, one a message, as a table; and how many messages are none. The first column is the person's.

    >>> rows_of_messages([b'{"id": 7}', b"?"], ["id"])[1]
    1
    """
    lines = [b"" if message is None else message.replace(b"\n", b" ") for message in messages]
    frame, _ = read_json_lines(b"\n".join(lines), columns, columns[0])
    return frame, len(lines) - len(frame)
