"""One step of one stream: everything it writes, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from veilstream.errors import InvalidInputError, LedgerError, OutOfOrderError
from veilstream.privacy.charge import Charge
from veilstream.storage.codec import Encoded
from veilstream.storage.ledger.blobs import Remembered, Store, closed, restore
from veilstream.storage.ledger.rows import RELEASE_AT, ChargeRow, read_charges, read_releases
from veilstream.storage.ledger.schema import (
    STEP_FORMAT,
    blobs,
    charges,
    counter,
    failures,
    state_blobs,
    states,
    steps,
)
from veilstream.values.release import Release
from veilstream.values.values import Values

LARGEST_TIME: Final = 2**63 - 1


class Transaction:
    """The stream's write lock, what was last committed, and one chance to commit.

    Made by :meth:`Ledger.transaction`. Leaving without a commit leaves no trace. ``last_charge`` is the row number of
    the last charge that it wrote.
    """

    def __init__(self, connection: Connection, stream_id: int, stream: str, label: str, remembered: Remembered) -> None:
        self._connection = connection
        self._store = Store(connection, stream_id, remembered)
        self._stream_id = stream_id
        self._stream = stream
        self._label = label
        self._open = True
        self.last_charge = 0
        self.head: int | None = connection.execute(HEAD, {"stream": stream_id}).scalar_one()

    def charges(self, after: int) -> list[ChargeRow]:
        """Charge rows of this stream with an id above ``after``, oldest first."""
        self._check_open()
        return read_charges(self._connection, self._stream_id, after, None, self._label)

    def state(self) -> Encoded | None:
        """The state stored with the last committed step; its arrays are the caller's to change."""
        self._check_open()
        rows = self._connection.execute(STATE, {"stream": self._stream_id}).all()
        if not rows:
            return None
        arrays = [restore(row, self._label).copy() for row in rows if row.digest is not None]
        return Encoded(bytes(rows[0].header), tuple(arrays))

    def release_at(self, t: int) -> Release | None:
        """The release of step ``t``, or ``None`` if that step has not been released."""
        self._check_open()
        if self.head is None or t > self.head:
            return None
        found = read_releases(self._connection, RELEASE_AT, {"stream": self._stream_id, "time": t}, self._label)
        return found[0] if found else None

    def commit_step(
        self,
        t: int,
        charges: Sequence[Charge],
        state: Encoded,
        values: Values,
        spent: Fraction,
        left: Fraction,
    ) -> Release:
        """Write charges, next state and values in one commit, and give the release that now exists."""
        self._check_open()
        self._check_time(t)
        if self.head is not None and t <= self.head:
            raise OutOfOrderError(f"step t={t} of stream {self._stream!r}: the last released step is {self.head}")
        numbers = _frozen(values.numbers)
        std = _frozen(values.std) if isinstance(values.std, np.ndarray) else float(values.std)
        per_bin = not isinstance(std, float)
        self._write_charges(t, charges, "released")
        public = [numbers, std] if isinstance(std, np.ndarray) else [numbers]
        before = self._state_ids()
        arriving = self._store.arriving(public, state.arrays)
        # Deleted first, so that the new state takes the place of the old one and overwrites it.
        self._clear_state(before, arriving.stored)
        ids = arriving.put()
        self._write_state(t, state.header, ids[len(public) :])
        row: dict[str, Any] = {
            "format": STEP_FORMAT,
            "stream_id": self._stream_id,
            "t": t,
            "fresh": values.fresh,
            "law": values.law.value,
            "spent": str(spent),
            "left": str(left),
            "spent_decimal": float(spent),
            "left_decimal": float(left),
            "std": None if per_bin else std,
            "values_blob": ids[0],
            "std_blob": ids[1] if per_bin else None,
            "recorded": now(),
        }
        seq = int(self._connection.execute(NEXT_SEQ).scalar_one())
        self._connection.execute(INSERT_STEP, {"seq": seq, **row})
        self._commit()
        return Release(
            self._stream,
            seq,
            t,
            _view(numbers),
            _view(std) if isinstance(std, np.ndarray) else std,
            values.law,
            values.fresh,
            spent,
            left,
        )

    def commit_failure(self, t: int, charges: Sequence[Charge], reason: str) -> None:
        """Record a step that raised after it was charged: the charges stay, state and releases do not move.

        ``reason`` is stored in clear and must not hold private values: give the kind of error.
        """
        self._check_open()
        self._check_time(t)
        self._write_charges(t, charges, "failed")
        failure = {"stream_id": self._stream_id, "t": t, "reason": reason, "recorded": now()}
        self._connection.execute(INSERT_FAILURE, failure)
        self._commit()

    def _write_charges(self, t: int, made: Sequence[Charge], outcome: str) -> None:
        # Positions: truth values may also be in a state, whose arrays are kept as they are, and so for ever.
        arrays = [x for charge in made for x in (charge.positions, charge.starts) if x is not None]
        ids = iter(self._store.arriving(arrays).put())
        rows = [
            {
                "stream_id": self._stream_id,
                "t": t,
                "first": charge.span.first,
                "last": charge.span.last,
                "purpose": charge.purpose,
                "epsilon": str(charge.epsilon),
                "mu_squared": str(charge.mu_squared),
                "epsilon_decimal": float(charge.epsilon),
                "block": charge.block,
                "outcome": outcome,
                "bins_blob": None if charge.bins is None else next(ids),
                "since_blob": None if charge.starts is None else next(ids),
            }
            for charge in made
        ]
        for row in rows:
            self.last_charge = int(self._connection.execute(INSERT_CHARGE, row).scalar_one())

    def _state_ids(self) -> list[int]:
        return list(self._connection.execute(STATE_IDS, {"stream": self._stream_id}).scalars())

    def _clear_state(self, before: list[int], keep: set[int]) -> None:
        if before:
            self._connection.execute(CLEAR_STATE, {"stream": self._stream_id})
            self._store.drop_unused(set(before) - keep)

    def _write_state(self, t: int, header: bytes, ids: list[int]) -> None:
        row = {"stream": self._stream_id, "new_t": t, "new_header": header}
        if self._connection.execute(UPDATE_STATE, row).rowcount == 0:
            self._connection.execute(INSERT_STATE, row)
        if ids:
            placed = [{"stream_id": self._stream_id, "position": i, "blob_id": b} for i, b in enumerate(ids)]
            self._connection.execute(INSERT_STATE_ID, placed)

    def _commit(self) -> None:
        self._open = False
        self._connection.commit()

    def _check_open(self) -> None:
        if not self._open:
            raise LedgerError(
                f"transaction of stream {self._stream!r}: it has ended; begin another", outcome="nothing was written"
            )

    def _check_time(self, t: int) -> None:
        if not -LARGEST_TIME <= t <= LARGEST_TIME:
            raise InvalidInputError(f"step t={t} of stream {self._stream!r}: limit ±{LARGEST_TIME}")


def now() -> str:
    """This moment, for people who read the tables; nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _view(x: NDArray[Any]) -> NDArray[Any]:
    """The same numbers for a reader, who cannot open them for writing."""
    return x[...]


def _frozen(x: NDArray[Any]) -> NDArray[Any]:
    if x.flags.c_contiguous and closed(x):
        return x
    copy = np.array(x, order="C")
    copy.setflags(write=False)
    return copy


_stream: sa.BindParameter[int] = sa.bindparam("stream")
HEAD: Final = sa.select(sa.func.max(steps.c.t)).where(steps.c.stream_id == _stream)
STATE: Final = (
    sa.select(states.c.header, blobs)
    .outerjoin(state_blobs, state_blobs.c.stream_id == states.c.stream_id)
    .outerjoin(blobs, blobs.c.id == state_blobs.c.blob_id)
    .where(states.c.stream_id == _stream)
    .order_by(state_blobs.c.position)
)
STATE_IDS: Final = (
    sa.select(state_blobs.c.blob_id).where(state_blobs.c.stream_id == _stream).order_by(state_blobs.c.position)
)
NEXT_SEQ: Final = sa.update(counter).values(seq=counter.c.seq + 1).returning(counter.c.seq)
INSERT_STEP: Final = sa.insert(steps)
INSERT_CHARGE: Final = sa.insert(charges).returning(charges.c.id)
INSERT_FAILURE: Final = sa.insert(failures)
UPDATE_STATE: Final = (
    sa.update(states)
    .where(states.c.stream_id == _stream)
    .values(t=sa.bindparam("new_t"), header=sa.bindparam("new_header"))
)
INSERT_STATE: Final = sa.insert(states).values(
    stream_id=_stream, t=sa.bindparam("new_t"), header=sa.bindparam("new_header")
)
CLEAR_STATE: Final = sa.delete(state_blobs).where(state_blobs.c.stream_id == _stream)
INSERT_STATE_ID: Final = sa.insert(state_blobs)
