"""A chain of keyed digests over what was committed: an edited, swapped, added or deleted row breaks it.

Every commit of a stream appends an entry: the HMAC of the entry before it and of the rows that the commit wrote. A
stream's own row and its secret state have digests of their own, the latter bound to the entry of its step. The key is
drawn when a ledger is made and is one of its secrets: who can read the secret tables can forge the chain. What the
chain cannot show is that its end is missing: see ``marks``.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.arguments import is_a
from veilstream.documents import read_json
from veilstream.errors import LedgerError
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import IN_PAGES, Fields, Mark, Rows, events_since, plain
from veilstream.storage.ledger.schema import (
    chain,
    charges,
    compactions,
    failures,
    losses,
    secret_arrays,
    secret_keys,
    secret_states,
    steps,
    streams,
)

PURPOSE: Final = "chain"
KEY_BYTES: Final = 32
UNCHAINED: Final = ("mac",)
MEMBERSHIP: Final = "membership"
"""Streams of no population have the digest that they had before there were any."""


def find_key(connection: Connection, label: str) -> bytes:
    """The key of the chain."""
    return checked_key(connection.execute(KEY).scalar_one_or_none(), label)


def checked_key(found: bytes | None, label: str) -> bytes:
    """The key of a chain as it was found."""
    if not is_a(found, bytes, memoryview) or found is None or len(bytes(found)) != KEY_BYTES:
        raise LedgerError(name="ledger", value=label, limit="the key of its chain is missing or damaged; restore it")
    return bytes(found)


def digest_of_entry(key: bytes, stream_id: int, before: Mark, number: int, rows: Iterable[list[Any]]) -> str:
    """The digest of an entry: of the one before it and of all rows that it covers."""
    text = _narrow([stream_id, number, before.digest, list(rows)])
    return hmac.digest(key, text.encode(), "sha256").hex()


def digest_of_stream(key: bytes, row: Fields) -> str:
    """The digest of a stream's own row."""
    named = [
        [column.key, plain(row[column.key])]
        for column in streams.c
        if column.key not in UNCHAINED and (column.key != MEMBERSHIP or row.get(MEMBERSHIP) is not None)
    ]
    return hmac.digest(key, json.dumps(["stream", named]).encode(), "sha256").hex()


def digest_of_state(key: bytes, entry: str, t: int, header: bytes, digests: Sequence[str]) -> str:
    """The digest of a state; it differs from that of an equal state at another step."""
    text = json.dumps(["state", entry, t, header.hex(), list(digests)])
    return hmac.digest(key, text.encode(), "sha256").hex()


def last_mark(connection: Connection, stream_id: int) -> Mark:
    """The end of a stream's chain as it is recorded."""
    row = connection.execute(LAST, {"stream": stream_id}).mappings().one_or_none()
    return Mark() if row is None else Mark.of(row)


def append(connection: Connection, key: bytes, stream_id: int, end: Mark, rows: Sequence[list[Any]]) -> Mark:
    """Append the entry that covers ``rows``; ``end`` is where they end, with the number and digest of the last one."""
    number = end.number + 1
    mark = Mark(number, digest_of_entry(key, stream_id, end, number, rows), end.charge, end.seq, end.failure)
    columns = {"number": number, "digest": mark.digest, "charge": mark.charge, "seq": mark.seq, "failure": mark.failure}
    APPEND.changed(connection, {"stream_id": stream_id, **columns})
    return mark


def base_of(connection: Connection, stream_id: int) -> Mark:
    """Where the rows of a stream begin: at its summary, if it was compacted."""
    row = connection.execute(LAST_COMPACTION, {"stream": stream_id}).mappings().one_or_none()
    return Mark() if row is None else Mark(row["through"], row["digest"], row["charge"], row["seq"], row["failure"])


def verified(connection: Connection, key: bytes, stream_id: int, stream: str, label: str, since: Mark) -> Mark:
    """The end of the chain, after checking every entry behind ``since`` against the rows that it covers.

    Of a compacted stream the entries behind its summary: the entry that compacted it says what the summary is.
    """
    base = base_of(connection, stream_id)
    mark = base if since.number < base.number else since
    mark = checked_entries(connection, key, stream_id, stream, label, mark, None)
    found: Sequence[int | None] = connection.execute(LAST_ROWS, {"stream": stream_id}).one()
    refuse_beyond(connection, stream_id, stream, label, mark, found)
    return mark


def checked_entries(
    connection: Connection, key: bytes, stream_id: int, stream: str, label: str, since: Mark, until: int | None
) -> Mark:
    """The mark of entry ``until`` (None: of the last one), after checking those behind ``since`` up to it."""
    mark = since
    query = ENTRIES if until is None else ENTRIES.where(chain.c.number <= until)
    events = events_since(connection, stream_id, since)
    entries = connection.execute(query, {"stream": stream_id, "number": since.number}, execution_options=IN_PAGES)
    with closing(entries), closing(Rows(connection, stream_id, since)) as rows:
        for entry in entries.mappings():
            after = Mark.of(entry)
            covered = [*rows.until(after), *events.pop(after.number, [])]
            if after.number != mark.number + 1 or not hmac.compare_digest(
                after.digest, digest_of_entry(key, stream_id, mark, after.number, covered)
            ):
                raise broken(label, stream, f"entry {after.number} of its chain does not fit its {_what(covered)}")
            mark = after
        if until is None and (events or rows.revised_beyond()):
            raise broken(label, stream, "a snapshot, summary, loss or revision belongs to no entry of its chain")
    return mark


def refuse_beyond(
    connection: Connection, stream_id: int, stream: str, label: str, mark: Mark, found: Sequence[int | None]
) -> None:
    """Refuse rows that no entry covers: ``found`` are the last charge, step and failure."""
    for name, there in zip(KINDS, found, strict=True):
        last: int = getattr(mark, name)
        if (there or 0) != last and (there or getattr(base_of(connection, stream_id), name)) != last:
            raise broken(label, stream, f"the last {name} is {there or 'missing'}, the chain ends with {last}")


def check_state(connection: Connection, key: bytes, stream_id: int, stream: str, label: str) -> None:
    """Refuse a state other than that of the entry it belongs to."""
    row = connection.execute(STATE, {"stream": stream_id}).mappings().one_or_none()
    released = connection.execute(sa.select(sa.func.max(steps.c.t)).where(steps.c.stream_id == stream_id)).scalar_one()
    if row is None:
        lost = connection.execute(LOST_UNTIL, {"stream": stream_id}).scalar_one()
        if released is not None and (lost is None or lost < released):
            raise broken(label, stream, "its state is missing")
        return
    digests = {row.slot: row.digest for row in connection.execute(SLOT_DIGESTS, {"stream": stream_id})}
    slots: list[int] = read_json(row["slots"])
    entry = connection.execute(ENTRY, {"stream": stream_id, "number": row["entry"]}).scalar_one_or_none()
    expected = digest_of_state(
        key, entry or "", row["t"], bytes(row["header"]), [digests.get(slot, "missing") for slot in slots]
    )
    if entry is None or row["t"] != released or not hmac.compare_digest(row["mac"], expected):
        raise broken(label, stream, "its state was altered, or is not that of its last step")


def check_stream(key: bytes, row: Fields, label: str) -> None:
    """Refuse a stream's row that was altered."""
    if not hmac.compare_digest(row["mac"], digest_of_stream(key, row)):
        raise broken(label, str(row["name"]), "what it is was altered")


def broken(label: str, stream: str, what: str) -> LedgerError:
    """What is said of a stream that does not fit its chain."""
    return LedgerError(
        name="stream",
        value=stream,
        limit=f"in ledger {label} {what}; it was changed outside veilstream or damaged. `veilstream ledger verify` "
        "says more; restore the ledger",
    )


def _what(rows: Sequence[list[Any]]) -> str:
    if not rows:
        return "rows, of which none is left"
    first, last = rows[0], rows[-1]
    return f"rows ({first[0]} {first[1]} to {last[0]} {last[1]})"


_narrow: Final = json.JSONEncoder(separators=(",", ":")).encode
_stream: sa.BindParameter[int] = sa.bindparam("stream")
KEY: Final = sa.select(secret_keys.c.key).where(secret_keys.c.purpose == PURPOSE)
LAST: Final = sa.select(chain).where(chain.c.stream_id == _stream).order_by(chain.c.number.desc()).limit(1)
KINDS: Final = ("charge", "seq", "failure")
LAST_ROWS: Final = sa.select(
    *[
        sa.select(sa.func.max(column)).where(column.table.c.stream_id == _stream).scalar_subquery()
        for column in (charges.c.id, steps.c.seq, failures.c.id)
    ]
)
ENTRIES: Final = (
    sa.select(chain)
    .where(chain.c.stream_id == _stream, chain.c.number > sa.bindparam("number"))
    .order_by(chain.c.number)
)
ENTRY: Final = sa.select(chain.c.digest).where(chain.c.stream_id == _stream, chain.c.number == sa.bindparam("number"))
APPEND: Final = Prepared(sa.insert(chain))
LAST_COMPACTION: Final = (
    sa.select(compactions).where(compactions.c.stream_id == _stream).order_by(compactions.c.entry.desc()).limit(1)
)
LOST_UNTIL: Final = sa.select(sa.func.max(losses.c.resume) - 1).where(losses.c.stream_id == _stream)
STATE: Final = sa.select(secret_states).where(secret_states.c.stream_id == _stream)
SLOT_DIGESTS: Final = sa.select(secret_arrays.c.slot, secret_arrays.c.digest).where(
    secret_arrays.c.stream_id == _stream
)
