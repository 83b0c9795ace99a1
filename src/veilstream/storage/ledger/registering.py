"""The row that says what a stream is: recorded once, completed where an earlier schema left something out."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from veilstream.storage.ledger.anchor import Anchor
from veilstream.storage.ledger.backend import Backend
from veilstream.storage.ledger.chain import digest_of_stream, find_key
from veilstream.storage.ledger.opening import LOCK_STREAM
from veilstream.storage.ledger.population_book import admit_member
from veilstream.storage.ledger.records import moment
from veilstream.storage.ledger.schema import steps, streams
from veilstream.storage.ledger.spec import Given, StreamSpec


def register(backend: Backend, given: Given) -> StreamSpec:
    """Record the stream if it is new, else check that it is the same; what is recorded afterwards."""
    spec = given.spec
    with backend.read() as connection:
        recorded = find_spec(connection, spec.name)
    if recorded is None:
        with backend.write() as connection:
            admit_member(connection, spec, backend.label)
            try:
                connection.execute(sa.insert(streams), {**asdict(spec), "recorded": moment(), "mac": ""})
                _sign(connection, spec.name, backend.label)
                connection.commit()
            except IntegrityError:
                connection.rollback()
            recorded = _existing_spec(connection, spec.name)
    complete = given.completed(recorded)
    given.check(complete, backend.label)
    if complete != recorded:
        _complete(backend, given)
    return complete


def record_calendar(backend: Backend, stream: str, anchor: Anchor) -> StreamSpec:
    """Record which time step 0 is, if the stream has no calendar and released nothing yet; what is recorded."""
    with backend.write() as connection:
        connection.execute(LOCK_STREAM, {"name": stream})
        recorded = _existing_spec(connection, stream)
        released = sa.select(steps.c.seq).join(streams).where(streams.c.name == stream).limit(1)
        if recorded.calendar is None and connection.execute(released).first() is None:
            recorded = replace(recorded, calendar=anchor.to_json())
            dated = sa.update(streams).where(streams.c.name == stream)
            connection.execute(dated.values(calendar=recorded.calendar))
            _sign(connection, stream, backend.label)
            connection.commit()
    return recorded


def find_spec(connection: Connection, name: str) -> StreamSpec | None:
    """What the stream of this name is, or ``None`` if there is none."""
    row = connection.execute(sa.select(streams).where(streams.c.name == name)).one_or_none()
    return None if row is None else _spec(row)


def all_specs(connection: Connection) -> list[StreamSpec]:
    """Every stream, in the order in which they were registered."""
    return [_spec(row) for row in connection.execute(sa.select(streams).order_by(streams.c.id)).all()]


def _complete(backend: Backend, given: Given) -> None:
    """Record what is given of what an earlier schema left out, unless another process was first with another."""
    with backend.write() as connection:
        connection.execute(LOCK_STREAM, {"name": given.spec.name})
        complete = given.completed(_existing_spec(connection, given.spec.name))
        given.check(complete, backend.label)
        columns = {name: getattr(complete, name) for name in ("mechanism", "domain", "calendar", "key", "payload")}
        connection.execute(sa.update(streams).where(streams.c.name == given.spec.name).values(**columns))
        _sign(connection, given.spec.name, backend.label)
        connection.commit()


def _sign(connection: Connection, stream: str, label: str) -> None:
    """Put the keyed digest of a stream's row into it."""
    key = find_key(connection, label)
    row = connection.execute(sa.select(streams).where(streams.c.name == stream)).mappings().one()
    mac = digest_of_stream(key, row)
    connection.execute(sa.update(streams).where(streams.c.name == stream).values(mac=mac))


def _existing_spec(connection: Connection, name: str) -> StreamSpec:
    return _spec(connection.execute(sa.select(streams).where(streams.c.name == name)).one())


def _spec(row: sa.Row[Any]) -> StreamSpec:
    return StreamSpec(**{f.name: getattr(row, f.name) for f in fields(StreamSpec)})
