"""Who was present in the steps of a live stream, in the tables of the spool.

The commit that forgets the rows of a step notes who was present in it, and deletes the notes of steps that the rule
looks back at no more. Where notes have grown to more than the history itself, an image of it is written beside them in
small commits of its own, and takes the place of the notes in the commit that ends the step. A kill before that leaves
blocks of an image that nothing names; they are deleted with those of old images, a few with every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_pairs import Words
from veilstream.data.bounding.presence_spill import Records, spilled_run
from veilstream.data.bounding.presence_store import read_history
from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError
from veilstream.live.spool_tables import presence_heads, presence_images, presence_notes, presences

PEOPLE_OF_A_NOTE: Final = 1 << 16
OLD_BLOCKS_AT_ONCE: Final = 8
"""How many blocks of images that nothing names any more are deleted with a step."""


class People(Private):
    """The people who were present in one step: pairs of keyed hashes, sorted by the first."""

    __slots__ = ("first", "second")

    def __init__(self, first: Words, second: Words) -> None:
        self.first, self.second = first, second

    @property
    def size(self) -> int:
        """How many bytes their note takes."""
        return 16 * len(self.first)

    def payloads(self) -> Iterator[bytes]:
        """The people as values of the database, of about a megabyte at most."""
        for start in range(0, len(self.first), PEOPLE_OF_A_NOTE):
            part = slice(start, start + PEOPLE_OF_A_NOTE)
            yield self.first[part].astype("<u8").tobytes() + self.second[part].astype("<u8").tobytes()


class Present(Private):
    """What the commit that ends a step says about presence.

    ``left_out`` rows did not count in all. ``notes`` are the people of the steps that are done now; steps before
    ``since`` are looked back at no more. A new ``image`` is all that is known of the steps before ``end``.
    """

    __slots__ = ("end", "image", "left_out", "notes", "rule", "since")

    def __init__(
        self, rule: str, left_out: int, notes: Mapping[int, People], since: int, end: int, image: int | None
    ) -> None:
        self.rule, self.left_out, self.notes = rule, left_out, notes
        self.since, self.end, self.image = since, end, image


class Known(Private):
    """The history of the steps that are done, rows that did not count, bytes of the notes of each step since the
    last image, and whether a history of an earlier version should give way to an image."""

    __slots__ = ("history", "left_out", "sizes", "to_convert")

    def __init__(self, history: PresenceHistory, left_out: int, sizes: dict[int, int], to_convert: bool) -> None:
        self.history, self.left_out, self.sizes, self.to_convert = history, left_out, sizes, to_convert


def read_present(
    connection: Connection, stream_id: int, done: int, empty: PresenceHistory, directory: Path | None
) -> Known:
    """What is stored about the steps before ``done``; blocks of an image go to a file without a name."""
    head = connection.execute(sa.select(presence_heads).where(presence_heads.c.stream_id == stream_id)).one_or_none()
    whole = connection.execute(sa.select(presences).where(presences.c.stream_id == stream_id)).one_or_none()
    history, left_out, sizes = empty, 0, dict[int, int]()
    if head is not None and head.rule != empty.rule:
        raise InvalidInputError(
            name="presence history",
            limit="it belongs to another guarantee, calendar or key; restore the spool that belongs to the stream",
            outcome="nothing was read",
        )
    if whole is not None:
        history, left_out = read_history(BytesIO(whole.history), empty, "in the spool"), whole.left_out
    elif head is not None and head.image:
        blocks = _image_blocks(connection, stream_id, head.image, empty.records)
        history = empty.restored(spilled_run(blocks, empty.records, directory), head.image_end)
    if head is not None:
        left_out = head.left_out
    mine = presence_notes.c.stream_id == stream_id
    chosen = sa.select(presence_notes.c.id, presence_notes.c.step).where(mine, presence_notes.c.step < done)
    for number, step in connection.execute(chosen.order_by(presence_notes.c.step, presence_notes.c.id)).all():
        payload = connection.execute(sa.select(presence_notes.c.payload).where(presence_notes.c.id == number))
        words = np.frombuffer(bytes(payload.scalar_one()), dtype="<u8")
        history.advance(max(step, history.through or 0))
        history.people_counted(words[: len(words) // 2], words[len(words) // 2 :], step)
        sizes[step] = sizes.get(step, 0) + 8 * len(words)
    history.advance(max(done, history.through or 0))
    return Known(history, left_out, sizes, whole is not None)


def read_left_out(connection: Connection, stream_id: int) -> int | None:
    """How many rows did not count; None if nothing is stored."""
    for table in (presence_heads, presences):
        query = sa.select(table.c.left_out).where(table.c.stream_id == stream_id)
        found: int | None = connection.execute(query).scalar_one_or_none()
        if found is not None:
            return found
    return None


def _image_blocks(connection: Connection, stream_id: int, image: int, records: np.dtype[np.void]) -> Iterator[Records]:
    mine = (presence_images.c.stream_id == stream_id) & (presence_images.c.image == image)
    numbers = sa.select(presence_images.c.number).where(mine).order_by(presence_images.c.number)
    payloads = sa.select(presence_images.c.payload).where(mine)
    for number in connection.execute(numbers).scalars().all():
        payload = connection.execute(payloads.where(presence_images.c.number == number)).scalar_one()
        yield np.frombuffer(bytes(payload), dtype=records)


def next_image(connection: Connection, stream_id: int) -> int:
    """A number that no image of the stream has."""
    known = sa.select(sa.func.max(presence_images.c.image)).where(presence_images.c.stream_id == stream_id)
    named = sa.select(presence_heads.c.image).where(presence_heads.c.stream_id == stream_id)
    found = (connection.execute(query).scalar_one_or_none() for query in (known, named))
    return 1 + max(number or 0 for number in found)


def write_block(connection: Connection, stream_id: int, image: int, number: int, block: Records) -> None:
    """Write one block of an image."""
    new = {"stream_id": stream_id, "image": image, "number": number, "payload": block.tobytes()}
    connection.execute(sa.insert(presence_images), new)


def store_present(connection: Connection, stream_id: int, present: Present) -> None:
    """Note who was present, and forget what the rule looks back at no more."""
    mine = presence_notes.c.stream_id == stream_id
    outdated = presence_notes.c.step < (present.since if present.image is None else present.end)
    connection.execute(sa.delete(presence_notes).where(mine, outdated))
    if present.image is None:
        for step, people in present.notes.items():
            for payload in people.payloads():
                new = {"stream_id": stream_id, "step": step, "size": len(payload), "payload": payload}
                connection.execute(sa.insert(presence_notes), new)
    else:
        connection.execute(sa.delete(presences).where(presences.c.stream_id == stream_id))
    image = _store_head(connection, stream_id, present)
    old = (presence_images.c.stream_id == stream_id) & (presence_images.c.image != image)
    chosen = sa.select(presence_images.c.image, presence_images.c.number).where(old).limit(OLD_BLOCKS_AT_ONCE)
    for name, number in connection.execute(chosen).all():
        one = (presence_images.c.image == name) & (presence_images.c.number == number)
        connection.execute(sa.delete(presence_images).where(presence_images.c.stream_id == stream_id, one))


def _store_head(connection: Connection, stream_id: int, present: Present) -> int:
    """Store the head; which image it names."""
    mine = presence_heads.c.stream_id == stream_id
    head = connection.execute(sa.select(presence_heads).where(mine)).one_or_none()
    values: dict[str, Any] = {"rule": present.rule, "left_out": present.left_out, "image": 0, "image_end": 0}
    if present.image is not None:
        values |= {"image": present.image, "image_end": present.end}
    elif head is not None and head.image_end > present.since:
        # Everybody of an older image was present before the steps that are looked back at.
        values |= {"image": head.image, "image_end": head.image_end}
    if head is None:
        connection.execute(sa.insert(presence_heads), {"stream_id": stream_id, **values})
    else:
        connection.execute(sa.update(presence_heads).where(mine).values(values))
    return int(values["image"])
