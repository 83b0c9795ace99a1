"""A chain of keyed digests over what was committed: an edited, swapped, added or deleted row breaks it.

Every commit of a stream appends an entry: the HMAC of the entry before it and of the rows that the commit wrote. A
stream's own row and its secret state have digests of their own, the latter bound to the entry of its step. The key is
drawn when a ledger is made and is one of its secrets: who can read the secret tables can forge the chain. What the
chain cannot show is that its end is missing: see ``marks``.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, RowMapping

from veilstream.errors import LedgerError
from veilstream.storage.ledger.schema import (
    arrays,
    chain,
    charges,
    failures,
    secret_arrays,
    secret_keys,
    secret_states,
    steps,
    streams,
)

Fields: TypeAlias = Mapping[str, Any] | RowMapping
PURPOSE: Final = "chain"
KEY_BYTES: Final = 32
UNCHAINED: Final = ("mac",)
CHARGE: Final = tuple(
    column.name for column in charges.c if column.name not in ("stream_id", "bins_array", "starts_array")
)
STEP: Final = tuple(
    column.name for column in steps.c if column.name not in ("stream_id", "values_array", "std_array", "corners_array")
)
FAILURE: Final = tuple(column.name for column in failures.c if column.name != "stream_id")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a stream's history reaches: its last entry, with the last charge, step and failure that it covers."""

    number: int = 0
    digest: str = ""
    charge: int = 0
    seq: int = 0
    failure: int = 0


def find_key(connection: Connection, label: str) -> bytes:
    """The key of the chain."""
    found = connection.execute(KEY).scalar_one_or_none()
    if found is None or len(bytes(found)) != KEY_BYTES:
        raise LedgerError(name="ledger", value=label, limit="the key of its chain is missing or damaged; restore it")
    return bytes(found)


def record(kind: str, names: Sequence[str], row: Fields, *digests: str | None) -> list[Any]:
    """A row as the chain sees it: its columns by name, and its arrays by their digests."""
    return [kind, *[_plain(row[name]) for name in names], *digests]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        # SQLite keeps NaN as NULL.
        return None
    return value


def digest_of_entry(key: bytes, stream_id: int, before: Mark, number: int, rows: Iterable[list[Any]]) -> str:
    """The digest of an entry: of the one before it and of all rows that it covers."""
    text = json.dumps([stream_id, number, before.digest, list(rows)], separators=(",", ":"))
    return hmac.digest(key, text.encode(), "sha256").hex()


def digest_of_stream(key: bytes, row: Fields) -> str:
    """The digest of a stream's own row."""
    named = [[column.key, _plain(row[column.key])] for column in streams.c if column.key not in UNCHAINED]
    return hmac.digest(key, json.dumps(["stream", named]).encode(), "sha256").hex()


def digest_of_state(key: bytes, entry: str, t: int, header: bytes, digests: Sequence[str]) -> str:
    """The digest of a state; it differs from that of an equal state at another step."""
    text = json.dumps(["state", entry, t, header.hex(), list(digests)])
    return hmac.digest(key, text.encode(), "sha256").hex()


def last_mark(connection: Connection, stream_id: int) -> Mark:
    """The end of a stream's chain as it is recorded."""
    row = connection.execute(LAST, {"stream": stream_id}).mappings().one_or_none()
    return Mark() if row is None else _mark(row)


def append(connection: Connection, key: bytes, stream_id: int, end: Mark, rows: Sequence[list[Any]]) -> Mark:
    """Append the entry that covers ``rows``; ``end`` is where they end, with the number and digest of the last one."""
    number = end.number + 1
    mark = Mark(number, digest_of_entry(key, stream_id, end, number, rows), end.charge, end.seq, end.failure)
    columns = {"number": number, "digest": mark.digest, "charge": mark.charge, "seq": mark.seq, "failure": mark.failure}
    connection.execute(APPEND, {"stream_id": stream_id, **columns})
    return mark


def verified(connection: Connection, key: bytes, stream_id: int, stream: str, label: str, since: Mark) -> Mark:
    """The end of the chain, after checking every entry behind ``since`` against the rows that it covers."""
    mark = since
    entries = connection.execute(ENTRIES, {"stream": stream_id, "number": since.number}).mappings().all()
    if entries:
        rows = _Rows(connection, stream_id, since)
        for entry in entries:
            after = _mark(entry)
            covered = rows.until(after)
            if after.number != mark.number + 1 or not hmac.compare_digest(
                after.digest, digest_of_entry(key, stream_id, mark, after.number, covered)
            ):
                raise _broken(label, stream, f"entry {after.number} of its chain does not fit its {_what(covered)}")
            mark = after
    return _nothing_beyond(connection, stream_id, stream, label, mark)


def _nothing_beyond(connection: Connection, stream_id: int, stream: str, label: str, mark: Mark) -> Mark:
    """Refuse rows that no entry covers."""
    for name, table, column, last in (
        ("charge", charges, charges.c.id, mark.charge),
        ("step", steps, steps.c.seq, mark.seq),
        ("failure", failures, failures.c.id, mark.failure),
    ):
        query = sa.select(sa.func.max(column)).where(table.c.stream_id == stream_id)
        found = connection.execute(query).scalar_one()
        if (found or 0) != last:
            raise _broken(label, stream, f"the last {name} is {found or 'missing'}, the chain ends with {last}")
    return mark


def check_state(connection: Connection, key: bytes, stream_id: int, stream: str, label: str) -> None:
    """Refuse a state other than that of the entry it belongs to."""
    row = connection.execute(STATE, {"stream": stream_id}).mappings().one_or_none()
    released = connection.execute(sa.select(sa.func.max(steps.c.t)).where(steps.c.stream_id == stream_id)).scalar_one()
    if row is None:
        if released is not None:
            raise _broken(label, stream, "its state is missing")
        return
    digests = {row.slot: row.digest for row in connection.execute(SLOT_DIGESTS, {"stream": stream_id})}
    slots: list[int] = json.loads(row["slots"])
    entry = connection.execute(ENTRY, {"stream": stream_id, "number": row["entry"]}).scalar_one_or_none()
    expected = digest_of_state(
        key, entry or "", row["t"], bytes(row["header"]), [digests.get(slot, "missing") for slot in slots]
    )
    if entry is None or row["t"] != released or not hmac.compare_digest(row["mac"], expected):
        raise _broken(label, stream, "its state was altered, or is not that of its last step")


def check_stream(key: bytes, row: Fields, label: str) -> None:
    """Refuse a stream's row that was altered."""
    if not hmac.compare_digest(row["mac"], digest_of_stream(key, row)):
        raise _broken(label, str(row["name"]), "what it is was altered")


def _broken(label: str, stream: str, what: str) -> LedgerError:
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


def _mark(row: Fields) -> Mark:
    return Mark(row["number"], row["digest"], row["charge"], row["seq"], row["failure"])


def covered_rows(connection: Connection, stream_id: int, since: Mark, end: Mark) -> list[list[Any]]:
    """The rows of a stream behind ``since`` up to ``end``, as the chain sees them."""
    return _Rows(connection, stream_id, since).until(end)


class _Rows:
    """Charges, failures and steps of a stream in the order of their numbers, up to one entry after the other."""

    def __init__(self, connection: Connection, stream_id: int, since: Mark) -> None:
        after = {"stream": stream_id, "charge": since.charge, "seq": since.seq, "failure": since.failure}
        self._charges = _peekable(connection, CHARGES_SINCE, after, "charge", CHARGE, ("bins_digest", "starts_digest"))
        self._failures = _peekable(connection, FAILURES_SINCE, after, "failure", FAILURE, ())
        self._steps = _peekable(
            connection, STEPS_SINCE, after, "step", STEP, ("values_digest", "std_digest", "corners_digest")
        )

    def until(self, mark: Mark) -> list[list[Any]]:
        return [
            *self._charges.until(mark.charge),
            *self._failures.until(mark.failure),
            *self._steps.until(mark.seq),
        ]


class _Peekable:
    def __init__(self, rows: Iterator[list[Any]]) -> None:
        self._rows = rows
        self._next: list[Any] | None = None

    def until(self, number: int) -> list[list[Any]]:
        found: list[list[Any]] = []
        while True:
            if self._next is None:
                self._next = next(self._rows, None)
            # The number of a row is its first column.
            if self._next is None or self._next[1] > number:
                return found
            found.append(self._next)
            self._next = None


def _peekable(
    connection: Connection,
    query: sa.Select[Any],
    after: dict[str, int],
    kind: str,
    names: Sequence[str],
    digests: Sequence[str],
) -> _Peekable:
    rows = connection.execute(query, after).mappings()
    return _Peekable(record(kind, names, row, *[row[name] for name in digests]) for row in rows)


_stream: sa.BindParameter[int] = sa.bindparam("stream")
KEY: Final = sa.select(secret_keys.c.key).where(secret_keys.c.purpose == PURPOSE)
LAST: Final = sa.select(chain).where(chain.c.stream_id == _stream).order_by(chain.c.number.desc()).limit(1)
ENTRIES: Final = (
    sa.select(chain)
    .where(chain.c.stream_id == _stream, chain.c.number > sa.bindparam("number"))
    .order_by(chain.c.number)
)
ENTRY: Final = sa.select(chain.c.digest).where(chain.c.stream_id == _stream, chain.c.number == sa.bindparam("number"))
APPEND: Final = sa.insert(chain)
STATE: Final = sa.select(secret_states).where(secret_states.c.stream_id == _stream)
SLOT_DIGESTS: Final = sa.select(secret_arrays.c.slot, secret_arrays.c.digest).where(
    secret_arrays.c.stream_id == _stream
)
_bins, _starts, _values, _std, _corners = (arrays.alias(name) for name in ("b", "f", "v", "d", "k"))
CHARGES_SINCE: Final = (
    sa.select(charges, _bins.c.digest.label("bins_digest"), _starts.c.digest.label("starts_digest"))
    .outerjoin(_bins, _bins.c.id == charges.c.bins_array)
    .outerjoin(_starts, _starts.c.id == charges.c.starts_array)
    .where(charges.c.stream_id == _stream, charges.c.id > sa.bindparam("charge"))
    .order_by(charges.c.id)
)
FAILURES_SINCE: Final = (
    sa.select(failures)
    .where(failures.c.stream_id == _stream, failures.c.id > sa.bindparam("failure"))
    .order_by(failures.c.id)
)
STEPS_SINCE: Final = (
    sa.select(
        steps,
        _values.c.digest.label("values_digest"),
        _std.c.digest.label("std_digest"),
        _corners.c.digest.label("corners_digest"),
    )
    .outerjoin(_values, _values.c.id == steps.c.values_array)
    .outerjoin(_std, _std.c.id == steps.c.std_array)
    .outerjoin(_corners, _corners.c.id == steps.c.corners_array)
    .where(steps.c.stream_id == _stream, steps.c.seq > sa.bindparam("seq"))
    .order_by(steps.c.seq)
)
