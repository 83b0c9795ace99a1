"""A stream as the spool knows it, and how far a source was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.keyed import Key
from veilstream.documents import read_json
from veilstream.errors import LedgerError
from veilstream.live.definition import StreamDefinition
from veilstream.live.spool_tables import streams

_NAMED: Final = sa.select(streams).where(streams.c.name == sa.bindparam("name"))
_NAMED_AND_LOCKED: Final = _NAMED.with_for_update()
"""PostgreSQL locks the row; SQLite leaves FOR UPDATE out and holds the whole file already."""


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


def found_stream(connection: Connection, name: str) -> SpooledStream | None:
    """The stream of that name, or None."""
    row = connection.execute(_NAMED, {"name": name}).one_or_none()
    return None if row is None else _stream(row)


def locked_stream(connection: Connection, name: str) -> SpooledStream:
    """The stream of that name; nobody else changes it until the transaction ends."""
    row = connection.execute(_NAMED_AND_LOCKED, {"name": name}).one_or_none()
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
        found = _parsed_definitions[text] = StreamDefinition.from_json(read_json(text))
    return found
