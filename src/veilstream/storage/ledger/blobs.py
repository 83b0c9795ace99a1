"""Arrays in the ledger, each stored once per stream under the digest of its content.

A release that repeats an earlier one, or a state that remembers the last release, therefore costs no new
bytes. Arrays belong to one stream, whose writer holds its lock, so no writer can drop what another is about to
refer to.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, Row

from veilstream.errors import LedgerError
from veilstream.storage.ledger.packing import PLANES, content_of, digest_of, pack, restored
from veilstream.storage.ledger.schema import blobs, charges, state_blobs, steps

IN_CLAUSE: Final = 500


def closed(x: NDArray[Any]) -> bool:
    """Whether an array can be changed neither by itself nor through the one whose memory it shares."""
    owner: object = x if x.base is None else x.base
    return isinstance(owner, np.ndarray) and owner.flags.owndata and not (owner.flags.writeable or x.flags.writeable)


class Remembered:
    """Digests of a stream's arrays that cannot be written to, as of its last step: they need no second look.

    A digest tells only what the content is; whether it is stored is asked of the database every time.
    """

    def __init__(self) -> None:
        self._digests: dict[int, tuple[NDArray[Any], str]] = {}

    def digest(self, x: NDArray[Any]) -> str | None:
        known = self._digests.get(id(x))
        return known[1] if known is not None and known[0] is x and closed(x) else None

    def keep(self, arrays: Sequence[NDArray[Any]], digests: Sequence[str]) -> None:
        """Forget all but these, of which those that are closed to writing stay."""
        self._digests = {id(x): (x, digest) for x, digest in zip(arrays, digests, strict=True) if closed(x)}


class Store:
    """The arrays of one stream, seen from its open write transaction."""

    def __init__(self, connection: Connection, stream_id: int, remembered: Remembered) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._remembered = remembered

    def arriving(self, lasting: Sequence[NDArray[Any]], passing: Sequence[NDArray[Any]] = ()) -> Arriving:
        """Arrays to be stored: ``lasting`` ones as small as they get, ``passing`` ones, which the next step replaces,
        quickly."""
        arrays = [*lasting, *passing]
        shapes = [json.dumps(list(x.shape)) for x in arrays]
        contents: list[bytes | None] = []
        digests: list[str] = []
        for x, shape in zip(arrays, shapes, strict=True):
            digest = self._remembered.digest(x)
            contents.append(None if digest is not None else content_of(x))
            digests.append(digest or digest_of(x.dtype.str, shape, contents[-1] or b""))
        if passing:
            self._remembered.keep(arrays, digests)
        return Arriving(self, arrays, shapes, contents, digests, self._known(set(digests)), len(lasting))

    def insert(self, row: dict[str, Any]) -> int:
        return int(self._connection.execute(INSERT, {"stream_id": self._stream_id, **row}).scalar_one())

    def _known(self, digests: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for part in _chunks(sorted(digests)):
            rows = self._connection.execute(FIND, {"stream_id": self._stream_id, "digests": part})
            found.update({row.digest: row.id for row in rows})
        return found

    def drop_unused(self, ids: Iterable[int]) -> None:
        """Delete those of ``ids`` to which no release, charge or state refers any more."""
        for part in _chunks(sorted(ids)):
            self._connection.execute(DROP, {"ids": part})


@dataclass(frozen=True, slots=True)
class Arriving:
    """Arrays on their way into a store, of which some are there already."""

    store: Store
    arrays: list[NDArray[Any]] = field(repr=False)
    shapes: list[str]
    contents: list[bytes | None] = field(repr=False)
    digests: list[str]
    known: dict[str, int]
    lasting: int

    @property
    def stored(self) -> set[int]:
        """Row numbers of those that are there."""
        return set(self.known.values())

    def put(self) -> list[int]:
        """Row numbers of all, in their order; only content that is new is written."""
        for i, (x, digest) in enumerate(zip(self.arrays, self.digests, strict=True)):
            if digest not in self.known:
                content = self.contents[i] or content_of(x)
                packing, stored = pack(content) if i < self.lasting else (PLANES, content)
                row = {"digest": digest, "dtype": x.dtype.str, "shape": self.shapes[i], "packing": packing}
                self.known[digest] = self.store.insert({**row, "bytes": stored})
        return [self.known[digest] for digest in self.digests]


def fetch(connection: Connection, ids: Iterable[int], label: str) -> dict[int, NDArray[Any]]:
    """Arrays by row number, restored."""
    found: dict[int, NDArray[Any]] = {}
    for part in _chunks(sorted(set(ids))):
        for row in connection.execute(FETCH, {"ids": part}):
            found[row.id] = restore(row, label)
    return found


def restore(row: Row[Any], label: str) -> NDArray[Any]:
    """The array of a row of ``blobs``, checked against its digest. It cannot be written to."""
    damaged = LedgerError(
        name="ledger",
        value=label,
        limit=f"array {row.id} does not match its digest {row.digest}; it was altered or damaged, and was not returned",
    )
    try:
        return restored(row.packing, bytes(row.bytes), row.dtype, row.shape, row.digest)
    except (ValueError, TypeError, zlib.error):
        raise damaged from None


def _chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[i : i + IN_CLAUSE] for i in range(0, len(items), IN_CLAUSE))


def _unused() -> sa.ColumnElement[bool]:
    references = (
        steps.c.values_blob,
        steps.c.std_blob,
        charges.c.bins_blob,
        charges.c.since_blob,
        state_blobs.c.blob_id,
    )
    return sa.and_(*(~sa.exists().where(reference == blobs.c.id) for reference in references))


INSERT: Final = sa.insert(blobs).returning(blobs.c.id)
FIND: Final = sa.select(blobs.c.id, blobs.c.digest).where(
    blobs.c.stream_id == sa.bindparam("stream_id"),
    blobs.c.digest.in_(sa.bindparam("digests", expanding=True)),
)
FETCH: Final = sa.select(blobs).where(blobs.c.id.in_(sa.bindparam("ids", expanding=True)))
DROP: Final = sa.delete(blobs).where(blobs.c.id.in_(sa.bindparam("ids", expanding=True)), _unused())
