"""The people of the last steps of a live stream, in a table of the spool: a note for each step."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.private import Private
from veilstream.live.spool_tables import people_notes


class PeopleNotes(Private):
    """What the commit that ends steps says about their people: notes of each, and which steps are looked back at."""

    __slots__ = ("notes", "since")

    def __init__(self, notes: Mapping[int, bytes], since: int) -> None:
        self.notes, self.since = notes, since


def read_people(connection: Connection, stream_id: int, first: int, done: int) -> list[tuple[int, bytes]]:
    """The notes of the steps from ``first`` to the one before ``done``, in order."""
    within = (people_notes.c.step >= first) & (people_notes.c.step < done)
    chosen = sa.select(people_notes.c.step, people_notes.c.payload).where(people_notes.c.stream_id == stream_id, within)
    return [(row.step, bytes(row.payload)) for row in connection.execute(chosen.order_by(people_notes.c.step)).all()]


def store_people(connection: Connection, stream_id: int, people: PeopleNotes) -> None:
    """Note the people of steps, and forget those of steps that are looked back at no more."""
    mine = people_notes.c.stream_id == stream_id
    connection.execute(sa.delete(people_notes).where(mine, people_notes.c.step < people.since))
    for step, payload in people.notes.items():
        connection.execute(sa.delete(people_notes).where(mine, people_notes.c.step == step))
        connection.execute(sa.insert(people_notes), {"stream_id": stream_id, "step": step, "payload": payload})
