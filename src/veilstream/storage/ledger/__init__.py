"""The durable record of what was released, what it cost, and where each mechanism stands.

One transaction per step writes the charges, the next state and the release together, so that after any crash
either all of a step exists or none of it. SQLite holds a ledger in one file, PostgreSQL behind a URL, and
``None`` keeps it in memory for a notebook.

The ledger holds secrets (pending sums, the noise of thresholds): see ``docs/ledger.md``. What may leave the
house is in :func:`export`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from veilstream.errors import LedgerError, LedgerMismatchError
from veilstream.storage.ledger.backend import Backend, connect
from veilstream.storage.ledger.blobs import Remembered
from veilstream.storage.ledger.rows import (
    RELEASE_AT,
    RELEASES,
    RELEASES_OF_STREAM,
    ChargeRow,
    read_charges,
    read_releases,
)
from veilstream.storage.ledger.schema import streams
from veilstream.storage.ledger.transaction import Transaction, now
from veilstream.values.release import Release

__all__ = ["ChargeRow", "Ledger", "StreamSpec", "Transaction", "export"]

PAGE: Final = 256
PAGE_NUMBERS: Final = 1 << 22
LOCK_STREAM: Final = (
    sa.select(streams.c.id).where(streams.c.name == sa.bindparam("name")).with_for_update(key_share=True)
)


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What a stream is: recorded once, compared whenever it is opened again."""

    name: str
    guarantee: str
    mechanism: str
    bins: int
    domain: str | None
    max_contribution: int


class Ledger:
    """Streams, their releases and their charges.

    >>> with Ledger.open(None) as ledger:
    ...     ledger.register(StreamSpec("visits", "{}", "{}", bins=3, domain=None, max_contribution=1))
    ...     with ledger.transaction("visits") as step:
    ...         print(step.head, step.charges(after=0))
    None []
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._remembered: dict[str, Remembered] = {}

    @classmethod
    def open(cls, url: str | Path | None, *, timeout: float = 30) -> Self:
        """Open or create a ledger: a path, a ``sqlite:///`` or ``postgresql://`` URL, ``None`` for memory.

        ``timeout`` is how many seconds to wait for another process before :class:`LedgerBusyError`.
        """
        return cls(connect(url, timeout))

    def __repr__(self) -> str:
        return f"Ledger({self._backend.label})"

    def register(self, spec: StreamSpec) -> None:
        """Record the stream if it is new, else check that it is the same."""
        with self._backend.read() as connection:
            recorded = _find(connection, spec.name)
        if recorded is None:
            with self._backend.write() as connection:
                try:
                    connection.execute(sa.insert(streams), {**asdict(spec), "recorded": now()})
                    connection.commit()
                except IntegrityError:
                    connection.rollback()
                recorded = _find(connection, spec.name)
        for f in fields(StreamSpec):
            given, known = getattr(spec, f.name), getattr(recorded, f.name)
            if given != known:
                raise LedgerMismatchError(
                    f"stream {spec.name!r} in ledger {self._backend.label}: {f.name} is recorded as {known!r}, "
                    f"given {given!r}",
                    outcome="nothing was changed, nothing was released",
                )

    @contextmanager
    def transaction(self, stream: str) -> Generator[Transaction]:
        """The stream's write lock for one step; leaving without a commit rolls back."""
        with self._backend.write() as connection:
            # PostgreSQL locks this row; SQLite leaves FOR UPDATE out and holds the whole file already.
            stream_id = connection.execute(LOCK_STREAM, {"name": stream}).scalar_one_or_none()
            if stream_id is None:
                raise self._unknown(stream)
            remembered = self._remembered.setdefault(stream, Remembered())
            yield Transaction(connection, stream_id, stream, self._backend.label, remembered)

    def releases(self, stream: str | None = None, *, after: int = 0, limit: int | None = None) -> Iterator[Release]:
        """Releases with ``seq`` above ``after`` in the order of their commits, of one stream or of all.

        They are read page by page: releases committed while the iteration runs are found by it.
        """
        chosen: dict[str, int] = {}
        with self._backend.read() as connection:
            widest = connection.execute(sa.select(sa.func.max(streams.c.bins))).scalar_one() or 1
            if stream is not None:
                chosen["stream"] = self._stream_id(connection, stream)
        query = RELEASES if stream is None else RELEASES_OF_STREAM
        remaining = limit
        while remaining is None or remaining > 0:
            size = max(1, min(PAGE, PAGE_NUMBERS // widest, PAGE if remaining is None else remaining))
            with self._backend.read() as connection:
                chosen |= {"after": after, "size": size}
                page = read_releases(connection, query, chosen, self._backend.label)
            yield from page
            if len(page) < size:
                return
            after = page[-1].seq
            remaining = None if remaining is None else remaining - len(page)

    def release_at(self, stream: str, t: int) -> Release | None:
        """The release of step ``t``, or ``None`` if that step has not been released."""
        with self._backend.read() as connection:
            chosen = {"stream": self._stream_id(connection, stream), "time": t}
            found = read_releases(connection, RELEASE_AT, chosen, self._backend.label)
        return found[0] if found else None

    def charges(self, stream: str, *, after: int = 0) -> Iterator[ChargeRow]:
        """Charges of a stream with an id above ``after``, oldest first, those of failed steps included."""
        while True:
            with self._backend.read() as connection:
                stream_id = self._stream_id(connection, stream)
                page = read_charges(connection, stream_id, after, PAGE, self._backend.label)
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def streams(self) -> list[StreamSpec]:
        """Every stream of the ledger, in the order in which they were registered."""
        with self._backend.read() as connection:
            rows = connection.execute(sa.select(streams).order_by(streams.c.id)).all()
        return [_spec(row) for row in rows]

    def close(self) -> None:
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stream_id(self, connection: Connection, stream: str) -> int:
        found = connection.execute(sa.select(streams.c.id).where(streams.c.name == stream))
        stream_id: int | None = found.scalar_one_or_none()
        if stream_id is None:
            raise self._unknown(stream)
        return stream_id

    def _unknown(self, stream: str) -> LedgerError:
        return LedgerError(
            name="stream", value=stream, limit=f"ledger {self._backend.label} has no such stream; register it first"
        )


def export(ledger: Ledger, stream: str) -> list[dict[str, Any]]:
    """Releases and charges of a stream as plain dicts in the order of time; never state.

    Everything in it is public under the stream's guarantee: it can be given away, unlike the ledger itself.
    """
    rows: list[dict[str, Any]] = []
    for row in ledger.charges(stream):
        charge = row.charge
        rows.append(
            {
                "kind": "charge",
                "t": row.t,
                "id": row.id,
                "purpose": charge.purpose,
                "epsilon": str(charge.epsilon),
                "mu_squared": str(charge.mu_squared),
                "first": charge.span.first,
                "last": charge.span.last,
                "block": charge.block,
                "bins": None if charge.positions is None else charge.positions.tolist(),
                "starts": None if charge.starts is None else charge.starts.tolist(),
                "outcome": row.outcome,
            }
        )
    for release in ledger.releases(stream):
        rows.append(
            {
                "kind": "release",
                "t": release.t,
                "seq": release.seq,
                "values": release.values.tolist(),
                "std": np.asarray(release.std).tolist(),
                "law": release.law.value,
                "fresh": release.fresh,
                "spent": str(release.spent),
                "left": str(release.left),
            }
        )
    return sorted(rows, key=lambda row: (row["t"], row["kind"]))


def _find(connection: Connection, name: str) -> StreamSpec | None:
    row = connection.execute(sa.select(streams).where(streams.c.name == name)).one_or_none()
    return None if row is None else _spec(row)


def _spec(row: sa.Row[Any]) -> StreamSpec:
    return StreamSpec(row.name, row.guarantee, row.mechanism, row.bins, row.domain, row.max_contribution)
