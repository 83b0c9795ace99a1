"""Snapshots of a stream's accountant in the ledger: who reopens a stream replays only the charges after the last one.

A snapshot is written with a step and its digest is part of the entry of that step, so that one entry and what follows
it need to be checked before it is used. Of earlier snapshots the digests stay, which ``verify`` computes again from
the charges.
"""

from __future__ import annotations

import hmac
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.privacy.snapshots import AccountantSnapshot
from veilstream.storage.codec import decode, encode
from veilstream.storage.ledger.chain import LAST_COMPACTION, base_of, broken, checked_entries
from veilstream.storage.ledger.records import SNAPSHOT, Mark, record
from veilstream.storage.ledger.schema import chain, compactions, snapshots

INTERVAL: Final = 512
"""After so many commits, and one for each number that the snapshot holds, the next one is due."""
NUMBERS: Final = "<i8"


@dataclass(frozen=True, slots=True, eq=False)
class Resumed:
    """What the accountant of a stream knew after the entry of ``mark``."""

    mark: Mark
    known: AccountantSnapshot


def packed(known: AccountantSnapshot) -> tuple[str, bytes]:
    """The digest of a snapshot, and the bytes in which it is stored."""
    kept = encode(known)
    sizes = [x.size for x in kept.arrays]
    text = json.dumps([kept.header.decode("ascii"), sizes]).encode("ascii")
    content = b"\n".join([text, b"".join(x.astype(NUMBERS).tobytes() for x in kept.arrays)])
    return sha256(content).hexdigest(), zlib.compress(content, 1)


def unpacked(digest: str, body: bytes) -> AccountantSnapshot:
    """The snapshot of which ``packed`` gave these; ValueError or zlib.error if it is another.

    >>> from veilstream.privacy.accountant import Accountant
    >>> from veilstream.privacy.guarantee import Guarantee
    >>> unpacked(*packed(Accountant(Guarantee(1, w=5), bins=3).snapshot())).weight
    0
    """
    content = zlib.decompress(body)
    if not hmac.compare_digest(sha256(content).hexdigest(), digest):
        raise ValueError(digest)
    text, _, numbers = content.partition(b"\n")
    header, sizes = read_json(text)
    parts = np.split(np.frombuffer(numbers, NUMBERS).astype(np.int64), np.cumsum(sizes)[:-1]) if sizes else []
    return decode(header.encode("ascii"), tuple(parts), AccountantSnapshot)


def write_snapshot(
    connection: Connection, stream_id: int, entry: int, t: int, known: AccountantSnapshot
) -> list[list[Any]]:
    """Write the snapshot that belongs to ``entry``, drop the bodies of earlier ones; what the entry must cover."""
    digest, body = packed(known)
    row = {"entry": entry, "t": t, "digest": digest}
    connection.execute(DROP_BODIES, {"stream": stream_id})
    connection.execute(INSERT, {"stream_id": stream_id, "body": body, **row})
    return [record("snapshot", SNAPSHOT, row)]


def resumed(connection: Connection, key: bytes, stream_id: int, stream: str, label: str) -> Resumed | None:
    """The last snapshot of a stream, after checking the entry to which it belongs; None if there is none.

    The caller checks the entries behind it.
    """
    row = connection.execute(LATEST, {"stream": stream_id}).mappings().one_or_none()
    if row is None:
        return None
    mark = _mark_of(connection, key, stream_id, stream, label, row["entry"], row["digest"])
    return Resumed(mark, _read(row, stream, label))


def summary_of(connection: Connection, stream_id: int, stream: str, label: str) -> AccountantSnapshot:
    """What a compacted stream's accountant knew when its charges were taken away."""
    base = base_of(connection, stream_id)
    row = connection.execute(ONE, {"stream": stream_id, "entry": base.number}).mappings().one_or_none()
    if row is None or row["body"] is None:
        raise broken(label, stream, "its summary is missing")
    return _read(row, stream, label)


def _read(row: sa.RowMapping, stream: str, label: str) -> AccountantSnapshot:
    try:
        return unpacked(row["digest"], bytes(row["body"]))
    except (ValueError, TypeError, zlib.error):
        raise broken(label, stream, "the snapshot of its accountant was altered") from None


def _mark_of(
    connection: Connection, key: bytes, stream_id: int, stream: str, label: str, entry: int, digest: str
) -> Mark:
    base = base_of(connection, stream_id)
    if entry == base.number:
        # The entry that compacted the stream says what its summary is; it lies behind and is checked there.
        summary = connection.execute(LAST_COMPACTION, {"stream": stream_id}).mappings().one()["summary"]
        if not hmac.compare_digest(summary, digest):
            raise broken(label, stream, "its summary was altered")
        return base
    before = mark_at(connection, stream_id, entry - 1)
    if before is None:
        raise broken(label, stream, f"entry {entry - 1} of its chain is missing")
    mark = checked_entries(connection, key, stream_id, stream, label, before, entry)
    if mark.number != entry:
        raise broken(label, stream, f"entry {entry} of its chain is missing")
    return mark


def mark_at(connection: Connection, stream_id: int, number: int) -> Mark | None:
    """The mark of an entry, as it is recorded."""
    if number == 0:
        return Mark()
    row = connection.execute(AT, {"stream": stream_id, "number": number}).mappings().one_or_none()
    return None if row is None else Mark.of(row)


def numbered(connection: Connection, stream_id: int) -> Iterable[sa.RowMapping]:
    """Every snapshot of a stream with the last charge before it, oldest first."""
    return connection.execute(ALL, {"stream": stream_id}).mappings().all()


_stream: sa.BindParameter[int] = sa.bindparam("stream")
INSERT: Final = sa.insert(snapshots)
DROP_BODIES: Final = (
    sa.update(snapshots)
    .where(
        snapshots.c.stream_id == _stream,
        snapshots.c.body.is_not(None),
        # The summary of a compacted stream stays.
        snapshots.c.entry.not_in(sa.select(compactions.c.through).where(compactions.c.stream_id == _stream)),
    )
    .values(body=None)
)
LATEST: Final = (
    sa.select(snapshots)
    .where(snapshots.c.stream_id == _stream, snapshots.c.body.is_not(None))
    .order_by(snapshots.c.entry.desc())
    .limit(1)
)
ONE: Final = sa.select(snapshots).where(snapshots.c.stream_id == _stream, snapshots.c.entry == sa.bindparam("entry"))
AT: Final = sa.select(chain).where(chain.c.stream_id == _stream, chain.c.number == sa.bindparam("number"))
ALL: Final = (
    sa.select(snapshots.c.entry, snapshots.c.t, snapshots.c.digest, chain.c.charge)
    .join(chain, (chain.c.stream_id == snapshots.c.stream_id) & (chain.c.number == snapshots.c.entry))
    .where(snapshots.c.stream_id == _stream)
    .order_by(snapshots.c.entry)
)
