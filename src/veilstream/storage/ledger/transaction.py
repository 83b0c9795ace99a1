"""One step of one stream: everything it writes, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, Table
from sqlalchemy.exc import IntegrityError

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, LedgerError, OutOfOrderError
from veilstream.privacy.charge import Charge
from veilstream.privacy.snapshots import AccountantSnapshot
from veilstream.storage.codec import Encoded
from veilstream.storage.ledger.arrays import Named, Remembered, fetch_secret, store_public, store_secret
from veilstream.storage.ledger.chain import (
    LOST_UNTIL,
    append,
    check_state,
    digest_of_state,
    refuse_beyond,
    verified,
)
from veilstream.storage.ledger.opening import Opened
from veilstream.storage.ledger.payloads import corners, frozen_payload, viewed_payload
from veilstream.storage.ledger.population_shared import PoolMemory, SharedPool, shared_pool
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import CHARGE, FAILURE, STEP, Mark, event, moment, record, refuse_other_types
from veilstream.storage.ledger.rows import RELEASE_AT, ChargeRow, read_charges, read_releases, rows_of
from veilstream.storage.ledger.schema import (
    STEP_FORMAT,
    blocks,
    charges,
    counter,
    failures,
    secret_arrays,
    secret_states,
    steps,
)
from veilstream.storage.ledger.snapshots import Resumed, resumed, write_snapshot
from veilstream.storage.ledger.vintages import write_vintage
from veilstream.values.boxes import Boxes
from veilstream.values.release import Payload, Release
from veilstream.values.revision import Revision
from veilstream.values.values import NoiseLaw

LARGEST_TIME: Final = 2**63 - 1
LOST: Final = "lost"
"""The outcome of charges that stand for steps of which nobody knows what they cost."""


class Transaction:
    """The stream's write lock, what was last committed, and one chance to commit.

    Made by :meth:`Ledger.transaction`. Leaving without a commit leaves no trace. ``mark`` is the end of the stream's
    chain, before and after the commit.
    """

    def __init__(
        self,
        connection: Connection,
        opened: Opened,
        stream: str,
        label: str,
        remembered: Remembered,
        pools: PoolMemory,
        *,
        before_commit: Callable[[], None],
        commit: Callable[[], None],
        after_commit: Callable[[Mark], None],
        recorded: Callable[[int], str] | None = None,
    ) -> None:
        self._connection = connection
        self._before_commit = before_commit
        self._commit_rows = commit
        self._after_commit = after_commit
        self._recorded = recorded if recorded is not None else _now
        self._remembered = remembered
        self._opened = opened
        self._stream_id = opened.stream_id
        self._stream = stream
        self._label = label
        self._open = True
        self._key = opened.key
        self._pool = shared_pool(connection, opened.key, opened.stream_id, opened.membership, label, pools)
        self.mark = opened.mark
        self.head = opened.head

    def pool(self) -> SharedPool | None:
        """The pool of the population that this stream shares, None if it has its budget for itself."""
        self._check_open()
        return self._pool

    def verify(self, since: Mark) -> Mark:
        """Check what was committed since a mark against the chain; where it ends."""
        self._check_open()
        with rows_of(self._label):
            stream = self._stream_id, self._stream, self._label
            if since == self.mark:
                refuse_beyond(self._connection, *stream, since, self._opened.rows)
                return since
            return verified(self._connection, self._key, *stream, since)

    def resume(self) -> Resumed | None:
        """What the accountant knew at the last snapshot, whose entry is checked; :meth:`verify` what came later."""
        self._check_open()
        with rows_of(self._label):
            return resumed(self._connection, self._key, self._stream_id, self._stream, self._label)

    def charges(self, after: int) -> list[ChargeRow]:
        """Charge rows of this stream with an id above ``after``, oldest first."""
        self._check_open()
        if after >= self.mark.charge:
            return []
        return read_charges(self._connection, self._stream_id, after, None, self._label)

    def state(self) -> Encoded | None:
        """The state stored with the last committed step; its arrays are the caller's to change."""
        self._check_open()
        with rows_of(self._label):
            check_state(self._connection, self._key, self._stream_id, self._stream, self._label)
            row = self._connection.execute(STATE, {"stream": self._stream_id}).one_or_none()
            if row is None:
                return None
            slots: list[int] = read_json(row.slots)
            arrays = fetch_secret(self._connection, self._stream_id, slots, self._label)
        return Encoded(bytes(row.header), tuple(arrays))

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
        payload: Payload,
        spent: Fraction,
        left: Fraction,
        *,
        opened: Iterable[int] = (),
        snapshot: AccountantSnapshot | None = None,
        revisions: Sequence[Revision] = (),
    ) -> Release:
        """Write charges, next state and payload in one commit, and give the release that now exists.

        ``opened`` are the blocks of comparisons that the step began, ``snapshot`` is what the accountant knows after
        it, where that is to be kept, ``revisions`` are new values for earlier steps.
        """
        self._check_open()
        self._check_time(t)
        if self.head is not None and t <= self.head:
            raise OutOfOrderError(f"step t={t} of stream {self._stream!r}: the last released step is {self.head}")
        payload = frozen_payload(payload)
        written = self._write_charges(t, charges, "released", opened)
        columns, public = self._public_columns(payload)
        row: dict[str, Any] = {
            "format": STEP_FORMAT,
            "stream_id": self._stream_id,
            "t": t,
            "spent": str(spent),
            "left": str(left),
            "spent_decimal": float(spent),
            "left_decimal": float(left),
            "recorded": self._recorded(t),
            **columns,
        }
        seq = int(NEXT_SEQ.value(self._connection, {}))
        INSERT_STEP.changed(self._connection, {"seq": seq, **row})
        digests = {one: named.digest for one, named in public.items()}
        arrays = [digests.get(name) for name in ("values_array", "std_array", "corners_array")]
        written.append(record("step", STEP, {"seq": seq, **row}, *arrays))
        entry = self.mark.number + 1
        written += write_vintage(self._connection, self._stream_id, entry, revisions, self._remembered, row["recorded"])
        if snapshot is not None:
            written += write_snapshot(self._connection, self._stream_id, self.mark.number + 1, t, snapshot)
        self._append(written, seq=seq)
        secret = [Named(x, self._remembered) for x in state.arrays]
        slots = store_secret(self._connection, self._stream_id, secret) if secret or self._opened.slots else []
        self._write_state(t, state.header, slots, [one.digest for one in secret])
        self._remembered.keep([*public.values(), *secret])
        self._commit(t)
        return Release(self._stream, seq, t, viewed_payload(payload), spent, left)

    def _append(self, written: list[list[Any]], *, seq: int | None = None, failure: int | None = None) -> None:
        """Put the rows of this commit into the chain."""
        last = self.mark
        end = Mark(last.number, last.digest, self._last_charge(written), seq or last.seq, failure or last.failure)
        self.mark = append(self._connection, self._key, self._stream_id, end, written)

    def _last_charge(self, written: list[list[Any]]) -> int:
        return max([self.mark.charge, *[int(row[1]) for row in written if row[0] == "charge"]])

    def _public_columns(self, payload: Payload) -> tuple[dict[str, Any], dict[str, Named]]:
        """What a step row says of its payload, and the arrays that were stored for it."""
        arrays: dict[str, NDArray[Any]] = {}
        if isinstance(payload, Boxes):
            arrays["values_array"], arrays["corners_array"] = payload.values, corners(payload)
            law, fresh = NoiseLaw.MIXED, True
        else:
            arrays["values_array"] = payload.numbers
            law, fresh = payload.law, payload.fresh
        if isinstance(payload.std, np.ndarray):
            arrays["std_array"] = payload.std
        named = [Named(x, self._remembered) for x in arrays.values()]
        ids = store_public(self._connection, self._stream_id, named)
        columns: dict[str, Any] = {"values_array": None, "std_array": None, "corners_array": None}
        columns |= dict(zip(arrays, ids, strict=True))
        std = None if isinstance(payload.std, np.ndarray) else float(payload.std)
        return {**columns, "std": std, "law": law.value, "fresh": fresh}, dict(zip(arrays, named, strict=True))

    def commit_failure(self, t: int, charges: Sequence[Charge], reason: str, *, opened: Iterable[int] = ()) -> None:
        """Record a step that raised after it was charged: the charges stay, state and releases do not move.

        ``reason`` is stored in clear and must not hold private values: give the kind of error.
        """
        self._check_open()
        self._check_time(t)
        written = self._write_charges(t, charges, "failed", opened)
        failure = {"stream_id": self._stream_id, "t": t, "reason": reason, "recorded": self._recorded(t)}
        number = int(self._connection.execute(INSERT_FAILURE, failure).scalar_one())
        written.append(record("failure", FAILURE, {"id": number, **failure}))
        self._append(written, failure=number)
        self._commit(t)

    def _write_charges(self, t: int, made: Sequence[Charge], outcome: str, opened: Iterable[int]) -> list[list[Any]]:
        if self._pool is not None and made and outcome != LOST:
            self._pool.confirm(made)
        self._write_blocks(t, opened)
        arrays = [x for charge in made for x in (charge.positions, charge.starts) if x is not None]
        named = [Named(x, self._remembered) for x in arrays]
        ids = iter(store_public(self._connection, self._stream_id, named))
        digests = iter([one.digest for one in named])
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
                "bins_array": None if charge.bins is None else next(ids),
                "starts_array": None if charge.starts is None else next(ids),
            }
            for charge in made
        ]
        written: list[list[Any]] = []
        for row in rows:
            number = int(INSERT_CHARGE.value(self._connection, row))
            named_by = [None if row[name] is None else next(digests) for name in ("bins_array", "starts_array")]
            written.append(record("charge", CHARGE, {"id": number, **row}, *named_by))
        return written

    def _write_blocks(self, t: int, opened: Iterable[int]) -> None:
        rows = [{"stream_id": self._stream_id, "block": block, "t": t} for block in sorted(set(opened))]
        if not rows:
            return
        try:
            self._connection.execute(INSERT_BLOCK, rows)
        except IntegrityError:
            raise LedgerError(
                name="stream",
                value=self._stream,
                limit=f"one of the blocks {[row['block'] for row in rows]} was opened before; another writer charged "
                "the stream unseen",
            ) from None

    def _write_state(self, t: int, header: bytes, slots: list[int], digests: list[str]) -> None:
        row = {
            "stream": self._stream_id,
            "new_t": t,
            "new_header": header,
            "new_slots": json.dumps(slots),
            "new_entry": self.mark.number,
            "new_mac": digest_of_state(self._key, self.mark.digest, t, header, digests),
        }
        if UPDATE_STATE.changed(self._connection, row) == 0:
            INSERT_STATE.changed(self._connection, row)

    def _commit(self, t: int | None) -> None:
        """Commit what touched step ``t``, the furthest one so far unless the stream's head is further."""
        self._open = False
        self._before_commit()
        self._commit_rows()
        touched = [step for step in (t, self.head) if step is not None]
        self._after_commit(replace(self.mark, t=max(touched, default=None)))

    def commit_event(
        self,
        table: Table,
        kind: str,
        names: Sequence[str],
        row: dict[str, Any],
        charges: Sequence[Charge] = (),
        t: int = 0,
    ) -> Mark:
        """Write a row about the stream itself, with charges of step ``t`` that go with it, in one commit.

        ``write`` what else belongs to it before, through :attr:`connection`.
        """
        self._check_open()
        written = self._write_charges(t, charges, LOST, ())
        made = {**row, "entry": self.mark.number + 1, "recorded": moment()}
        self._connection.execute(sa.insert(table), {"stream_id": self._stream_id, **made})
        written.append(event(kind, names, made))
        self._append(written)
        self._commit(t if charges else None)
        return self.mark

    def drop_state(self) -> None:
        """Forget the mechanism's state: it begins anew at the next step."""
        self._check_open()
        for table in (secret_arrays, secret_states):
            self._connection.execute(sa.delete(table).where(table.c.stream_id == self._stream_id))

    @property
    def connection(self) -> Connection:
        """The connection that holds the lock, for what is committed together with :meth:`commit_event`."""
        self._check_open()
        return self._connection

    @property
    def stream_id(self) -> int:
        return self._stream_id

    def _check_open(self) -> None:
        if not self._open:
            raise LedgerError(
                f"transaction of stream {self._stream!r}: it has ended; begin another", outcome="nothing was written"
            )

    def _check_time(self, t: int) -> None:
        if not -LARGEST_TIME <= t <= LARGEST_TIME:
            raise InvalidInputError(f"step t={t} of stream {self._stream!r}: limit ±{LARGEST_TIME}")


def _now(_: int) -> str:
    return moment()


def head_of(connection: Connection, stream_id: int) -> int | None:
    """The last step that is released or lost."""
    found: Sequence[int | None] = connection.execute(HEAD, {"stream": stream_id}).one()
    known = [t for t in found if t is not None]
    refuse_other_types(int, known)
    return max(known, default=None)


_stream: sa.BindParameter[int] = sa.bindparam("stream")
HEAD: Final = sa.select(
    sa.select(sa.func.max(steps.c.t)).where(steps.c.stream_id == _stream).scalar_subquery(),
    LOST_UNTIL.scalar_subquery(),
)
STATE: Final = sa.select(secret_states.c.header, secret_states.c.slots).where(secret_states.c.stream_id == _stream)
NEXT_SEQ: Final = Prepared(sa.update(counter).values(seq=counter.c.seq + 1).returning(counter.c.seq))
INSERT_STEP: Final = Prepared(sa.insert(steps))
INSERT_CHARGE: Final = Prepared(sa.insert(charges).returning(charges.c.id))
INSERT_BLOCK: Final = sa.insert(blocks)
INSERT_FAILURE: Final = sa.insert(failures).returning(failures.c.id)
_new_state: Final[dict[str, sa.BindParameter[Any]]] = {
    "t": sa.bindparam("new_t"),
    "header": sa.bindparam("new_header"),
    "slots": sa.bindparam("new_slots"),
    "entry": sa.bindparam("new_entry"),
    "mac": sa.bindparam("new_mac"),
}
UPDATE_STATE: Final = Prepared(
    sa.update(secret_states).where(secret_states.c.stream_id == _stream).values(**_new_state)
)
INSERT_STATE: Final = Prepared(sa.insert(secret_states).values(stream_id=_stream, **_new_state))
