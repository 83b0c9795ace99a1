"""Arrays in the ledger, each stored once per stream under the digest of its content.

A release that repeats an earlier one, or a state that remembers the last release, therefore costs no new
bytes. Bytes are transposed (all lowest bytes, then all second bytes, ...) before they are compressed: counts
are small, so most planes are zero. Arrays belong to one stream, whose writer holds its lock, so no writer can
drop what another is about to refer to.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, Row

from veilstream.errors import LedgerError
from veilstream.ledger.schema import blobs, charges, state_blobs, steps

RAW: Final = "raw"
PLANES: Final = "planes+zlib"
SAMPLE: Final = 1 << 16
IN_CLAUSE: Final = 500


def digest_of(dtype: str, shape: str, content: bytes) -> str:
    """A name for an array that no other array has."""
    named = blake2b(f"{dtype} {shape}\n".encode(), digest_size=20)
    named.update(content)
    return named.hexdigest()


def pack(content: bytes, itemsize: int) -> tuple[str, bytes]:
    """Content as it is stored: compressed where that shrinks it, as seen on a first part of it.

    >>> kind, packed = pack(np.arange(1000).tobytes(), 8)
    >>> kind, len(packed) < 2000, unpack(kind, packed, 8) == np.arange(1000).tobytes()
    ('planes+zlib', True, True)
    """
    head = _planes(content[:SAMPLE], itemsize)
    packed = zlib.compress(head, 1)
    if len(packed) > 0.9 * len(head):
        return RAW, content
    return PLANES, packed if len(content) <= SAMPLE else zlib.compress(_planes(content, itemsize), 1)


def unpack(packing: str, stored: bytes, itemsize: int) -> bytes:
    if packing == RAW:
        return stored
    planes = np.frombuffer(zlib.decompress(stored), np.uint8)
    return planes.reshape(itemsize, -1).T.tobytes()


def _planes(content: bytes, itemsize: int) -> bytes:
    return np.frombuffer(content, np.uint8).reshape(-1, itemsize).T.tobytes()


class Store:
    """The arrays of one stream, seen from its open write transaction."""

    def __init__(self, connection: Connection, stream_id: int) -> None:
        self._connection = connection
        self._stream_id = stream_id

    def put(self, arrays: Sequence[NDArray[Any]]) -> list[int]:
        """Row numbers of the arrays, in their order; only content that is new is written."""
        if not arrays:
            return []
        described = [(x.dtype.str, json.dumps(list(x.shape)), x.tobytes(), x.dtype.itemsize) for x in arrays]
        digests = [digest_of(dtype, shape, content) for dtype, shape, content, _ in described]
        known = self._known(set(digests))
        for digest, (dtype, shape, content, itemsize) in zip(digests, described, strict=True):
            if digest not in known:
                packing, stored = pack(content, itemsize)
                row = {"digest": digest, "dtype": dtype, "shape": shape, "packing": packing, "bytes": stored}
                result = self._connection.execute(INSERT, {"stream_id": self._stream_id, **row})
                known[digest] = int(result.scalar_one())
        return [known[digest] for digest in digests]

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
        f"ledger {label}: array {row.id} does not match its digest {row.digest}; "
        "it was altered or damaged, and was not returned"
    )
    try:
        dtype = np.dtype(row.dtype)
        shape: list[int] = json.loads(row.shape)
        content = unpack(row.packing, bytes(row.bytes), dtype.itemsize)
    except (ValueError, TypeError, zlib.error):
        raise damaged from None
    if digest_of(row.dtype, row.shape, content) != row.digest:
        raise damaged
    return np.frombuffer(content, dtype).reshape(shape)


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
