"""Arrays in the ledger: public ones by the digest of their content, secret ones in the slots of their stream's state.

A release that repeats an earlier one costs no new bytes, and neither does an array of a state that the next state has
too. The two never share a row: whether a secret array is equal to a public one shows nowhere. Arrays belong to one
stream, whose writer holds its lock.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, Row

from veilstream.errors import LedgerError
from veilstream.storage.ledger.packing import PLANES, content_of, digest_of, pack, restored
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.schema import arrays, secret_arrays

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

    def keep(self, named: Sequence[Named]) -> None:
        """Forget all but these, of which those that are closed to writing stay."""
        self._digests = {id(one.array): (one.array, one.digest) for one in named if closed(one.array)}


class Named:
    """An array with the digest of its content, which is taken apart only if it must be written."""

    def __init__(self, array: NDArray[Any], remembered: Remembered) -> None:
        self.array = array
        self.shape = json.dumps(list(array.shape))
        digest = remembered.digest(array)
        self._content = None if digest is not None else content_of(array)
        self.digest = digest or digest_of(array.dtype.str, self.shape, self._content or b"")

    def row(self, *, lasting: bool) -> dict[str, Any]:
        """What is stored: as small as it gets if it stays for ever, else quickly."""
        content = self._content or content_of(self.array)
        packing, stored = pack(content) if lasting else (PLANES, content)
        return {
            "digest": self.digest,
            "dtype": self.array.dtype.str,
            "shape": self.shape,
            "packing": packing,
            "bytes": stored,
        }


def store_public(connection: Connection, stream_id: int, named: Sequence[Named]) -> list[int]:
    """Row numbers of public arrays, in their order; only content that is new is written."""
    known: dict[str, int] = {}
    for digest in {one.digest for one in named}:
        known.update(dict(FIND.rows(connection, {"stream": stream_id, "digest": digest})))
    for one in named:
        if one.digest not in known:
            row = {"stream_id": stream_id, **one.row(lasting=True)}
            known[one.digest] = int(INSERT.value(connection, row))
    return [known[one.digest] for one in named]


def store_secret(connection: Connection, stream_id: int, named: Sequence[Named]) -> list[int]:
    """The slots of a state's arrays, in their order; arrays of the state before that are no longer in it are dropped.

    They are deleted first, so that the new ones take their place in the file and overwrite them.
    """
    wanted = {one.digest: one for one in named}
    slots: dict[str, int] = {}
    free: list[int] = []
    for row in connection.execute(SLOTS, {"stream": stream_id}):
        if row.digest in wanted and row.digest not in slots:
            slots[row.digest] = row.slot
        else:
            free.append(row.slot)
    for part in _chunks(free):
        connection.execute(FREE, {"stream": stream_id, "slots": part})
    taken = set(slots.values())
    numbers = (slot for slot in count() if slot not in taken)
    rows: list[dict[str, Any]] = []
    for digest, one in wanted.items():
        if digest not in slots:
            slots[digest] = next(numbers)
            rows.append({"stream_id": stream_id, "slot": slots[digest], **one.row(lasting=False)})
    if rows:
        connection.execute(FILL, rows)
    return [slots[one.digest] for one in named]


def fetch_public(connection: Connection, ids: Iterable[int], label: str) -> dict[int, NDArray[Any]]:
    """Public arrays by row number, restored."""
    found: dict[int, NDArray[Any]] = {}
    for part in _chunks(sorted(set(ids))):
        for row in connection.execute(FETCH, {"ids": part}):
            found[row.id] = _restore(row, f"array {row.id}", label)
    return found


def fetch_secret(connection: Connection, stream_id: int, slots: Sequence[int], label: str) -> list[NDArray[Any]]:
    """The arrays of a state, restored; they are the caller's to change."""
    rows = connection.execute(FETCH_SECRET, {"stream": stream_id})
    found = {row.slot: _restore(row, f"array {row.slot} of a state", label) for row in rows}
    missing = [slot for slot in slots if slot not in found]
    if missing:
        raise LedgerError(name="ledger", value=label, limit=f"array {missing[0]} of a state is missing; restore it")
    return [found[slot].copy() for slot in slots]


def _restore(row: Row[Any], name: str, label: str) -> NDArray[Any]:
    """The array of a row, checked against its digest. It cannot be written to."""
    try:
        return restored(row.packing, bytes(row.bytes), row.dtype, row.shape, row.digest)
    except (ValueError, TypeError, zlib.error):
        raise LedgerError(
            name="ledger",
            value=label,
            limit=f"{name} does not match its digest; it was altered or damaged, and was not returned",
        ) from None


def _chunks(items: list[Any]) -> Iterable[list[Any]]:
    return (items[i : i + IN_CLAUSE] for i in range(0, len(items), IN_CLAUSE))


_stream: sa.BindParameter[int] = sa.bindparam("stream")
INSERT: Final = Prepared(sa.insert(arrays).returning(arrays.c.id))
FIND: Final = Prepared(
    sa.select(arrays.c.digest, arrays.c.id).where(
        arrays.c.stream_id == _stream, arrays.c.digest == sa.bindparam("digest")
    )
)
FETCH: Final = sa.select(arrays).where(arrays.c.id.in_(sa.bindparam("ids", expanding=True)))
SLOTS: Final = (
    sa.select(secret_arrays.c.slot, secret_arrays.c.digest)
    .where(secret_arrays.c.stream_id == _stream)
    .order_by(secret_arrays.c.slot)
)
FREE: Final = sa.delete(secret_arrays).where(
    secret_arrays.c.stream_id == _stream, secret_arrays.c.slot.in_(sa.bindparam("slots", expanding=True))
)
FILL: Final = sa.insert(secret_arrays)
FETCH_SECRET: Final = sa.select(secret_arrays).where(secret_arrays.c.stream_id == _stream)
