"""A long history in a ledger, written in minutes: the same rows, chain and snapshots, many steps to one commit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from sqlalchemy import Connection

import veilstream as vs
from veilstream.mechanisms.streams.uniform import State, Uniform
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.storage.codec import encode
from veilstream.storage.ledger.arrays import Named, Remembered
from veilstream.storage.ledger.chain import digest_of_entry, digest_of_state, find_key, last_mark
from veilstream.storage.ledger.records import CHARGE, STEP, Mark, record
from veilstream.storage.ledger.schema import arrays, chain, charges, counter, secret_states, steps, streams
from veilstream.storage.ledger.snapshots import INTERVAL, write_snapshot

GUARANTEE: Final = vs.Guarantee(1, w=24)
BATCH: Final = 20_000
SHARE: Final = Fraction(1, 24)
LEVEL: Final = 1_000


Opened: TypeAlias = Callable[[Path, str], vs.Publisher[Any]]


def publisher(ledger: Path, stream: str) -> vs.Publisher[Any]:
    """The publisher of the stream that :func:`fill` fills."""
    return vs.Publisher(1, GUARANTEE, Uniform(), ledger, stream=stream)


def fill(ledger: Path, stream: str, count: int, opened: Opened = publisher) -> None:
    """Bring a stream of one bin to ``count`` steps; its first two are fed, and whoever opens it can feed the next."""
    begin(ledger, stream, opened)
    extend(ledger, stream, count)


def begin(ledger: Path, stream: str, opened: Opened = publisher) -> None:
    """Feed the first two steps of a stream."""
    with opened(ledger, stream) as first:
        for _ in range(2):
            first.feed(np.array([LEVEL]))


def extend(ledger: Path, stream: str, count: int) -> None:
    """Bring a stream whose first two steps were fed to ``count`` steps."""
    engine = sa.create_engine(f"sqlite:///{ledger}")
    for start in range(2, count, BATCH):
        with engine.begin() as connection:
            _Writer(connection, stream).write(range(start, min(count, start + BATCH)))
    engine.dispose()


class _Writer:
    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection = connection
        self._key = find_key(connection, stream)
        self._id: int = connection.execute(sa.select(streams.c.id).where(streams.c.name == stream)).scalar_one()
        self._mark = last_mark(connection, self._id)
        self._seq: int = connection.execute(sa.select(counter.c.seq)).scalar_one()
        self._charge: int = connection.execute(sa.select(sa.func.max(charges.c.id))).scalar_one()
        self._array: int = connection.execute(sa.select(sa.func.max(arrays.c.id))).scalar_one()
        known = connection.execute(sa.select(arrays.c.digest, arrays.c.id).where(arrays.c.stream_id == self._id))
        self._known: dict[str, int] = {row.digest: row.id for row in known}
        self._like: dict[str, Any] = dict(connection.execute(sa.select(steps).limit(1)).mappings().one())
        self._rows: dict[sa.Table, list[dict[str, Any]]] = {table: [] for table in (arrays, charges, steps, chain)}

    def write(self, times: range) -> None:
        noise = default_rng(times.start).laplace(scale=24, size=len(times)).round()
        accountant = Accountant(GUARANTEE, 1)
        # A window before the first of them is all that the accountant can still know.
        for t in range(max(0, times.start - 2 * 24), times.start):
            accountant.replay_at(t, Charge(SHARE, Span(t, t), "publish"))
        for t, value in zip(times, noise, strict=True):
            accountant.replay_at(t, Charge(SHARE, Span(t, t), "publish"))
            covered = [self._charged(t), self._step(t, float(LEVEL + value))]
            number = self._mark.number + 1
            if t == times[-1] or t % (2 * INTERVAL) == 0:
                covered += write_snapshot(self._connection, self._id, number, t, accountant.snapshot())
            digest = digest_of_entry(self._key, self._id, self._mark, number, covered)
            self._mark = Mark(number, digest, self._charge, self._seq, 0)
            entry = {"number": number, "digest": digest, "charge": self._charge, "seq": self._seq, "failure": 0}
            self._rows[chain].append({"stream_id": self._id, **entry})
        for table, rows in self._rows.items():
            if rows:
                self._connection.execute(sa.insert(table), rows)
        self._connection.execute(sa.update(counter).values(seq=self._seq))
        self._state(times[-1])

    def _charged(self, t: int) -> list[Any]:
        self._charge += 1
        row: dict[str, Any] = {
            "id": self._charge,
            "stream_id": self._id,
            "t": t,
            "first": t,
            "last": t,
            "purpose": "publish",
            "epsilon": str(SHARE),
            "mu_squared": "0",
            "epsilon_decimal": float(SHARE),
            "block": None,
            "outcome": "released",
            "bins_array": None,
            "starts_array": None,
        }
        self._rows[charges].append(row)
        return record("charge", CHARGE, row, None, None)

    def _step(self, t: int, value: float) -> list[Any]:
        self._seq += 1
        named = Named(np.array([value]), Remembered())
        if named.digest not in self._known:
            self._array += 1
            self._known[named.digest] = self._array
            self._rows[arrays].append({"id": self._array, "stream_id": self._id, **named.row(lasting=True)})
        left = max(Fraction(0), 1 - SHARE * (t + 1))
        row = {
            **self._like,
            "seq": self._seq,
            "stream_id": self._id,
            "t": t,
            "left": str(left),
            "left_decimal": float(left),
            "values_array": self._known[named.digest],
        }
        self._rows[steps].append(row)
        return record("step", STEP, row, named.digest, None, None)

    def _state(self, t: int) -> None:
        header = encode(State(t + 1)).header
        mac = digest_of_state(self._key, self._mark.digest, t, header, [])
        row = {"t": t, "header": header, "slots": "[]", "entry": self._mark.number, "mac": mac}
        self._connection.execute(sa.update(secret_states).where(secret_states.c.stream_id == self._id).values(row))
