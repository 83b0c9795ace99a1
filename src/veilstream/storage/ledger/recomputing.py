"""What a stream's charges add up to, computed again from its rows: by definition, and by a fresh accountant."""

from __future__ import annotations

from fractions import Fraction

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee, gaussian_budget
from veilstream.privacy.presence_windows import fullest
from veilstream.storage.ledger.chain import base_of, find_key
from veilstream.storage.ledger.records import Fields
from veilstream.storage.ledger.rows import ChargeRow, charges_between, read_charges
from veilstream.storage.ledger.schema import chain, losses, streams
from veilstream.storage.ledger.snapshots import numbered, packed, resumed, summary_of


def accountant_of(row: Fields) -> Accountant:
    """An accountant of a stream's row that has counted nothing."""
    return Accountant(Guarantee.from_json(row["guarantee"]), row["bins"], per_timestamp=row["per_timestamp"])


def row_of(connection: Connection, stream_id: int) -> sa.RowMapping:
    """The row of a stream."""
    return connection.execute(sa.select(streams).where(streams.c.id == stream_id)).mappings().one()


def accountant_at(connection: Connection, label: str, stream_id: int, last: int) -> Accountant:
    """What an accountant knows that has counted all charges up to the one of number ``last``."""
    row, base = row_of(connection, stream_id), base_of(connection, stream_id)
    known = accountant_of(row)
    if base.number:
        known.restore(summary_of(connection, stream_id, row["name"], label))
    for charged in charges_between(connection, stream_id, base.charge, last, label):
        known.replay_at(charged.t, charged.charge)
    return known


def check_snapshots(connection: Connection, label: str, stream_id: int) -> None:
    """Every snapshot is what an accountant knows that counts the charges from the first one on."""
    row, base = row_of(connection, stream_id), base_of(connection, stream_id)
    resumed(connection, find_key(connection, label), stream_id, row["name"], label)
    known, after = accountant_of(row), base.charge
    if base.number:
        known.restore(summary_of(connection, stream_id, row["name"], label))
    for snapshot in numbered(connection, stream_id):
        for charged in charges_between(connection, stream_id, after, snapshot["charge"], label):
            known.replay_at(charged.t, charged.charge)
        after = max(after, snapshot["charge"])
        if known.now is None or snapshot["t"] > known.now:
            known.advance(snapshot["t"])
        if packed(known.snapshot())[0] != snapshot["digest"]:
            limit = f"its snapshot of entry {snapshot['entry']} is not what its charges add up to"
            raise LedgerError(name="stream", value=row["name"], limit=limit)


def check_windows(connection: Connection, label: str, stream_id: int) -> None:
    """No window costs more than was promised, recomputed from the charges by definition.

    Of a compacted stream the accountant that begins with its summary says it of windows that lie across it.
    """
    row = row_of(connection, stream_id)
    guarantee = Guarantee.from_json(row["guarantee"])
    rows = read_charges(connection, stream_id, 0, None, label)
    lost = _check_losses(connection, stream_id, row["name"], rows)
    recorded = [one.charge for one in rows if one.outcome != "lost"]
    _check_cost(row["name"], guarantee, *fullest(recorded, guarantee, row["bins"], per_timestamp=row["per_timestamp"]))
    if base_of(connection, stream_id).number and not lost:
        _check_cost(row["name"], guarantee, *accountant_at(connection, label, stream_id, 1 << 62).fullest)


def _check_cost(stream: str, guarantee: Guarantee, pure: Fraction, squared: Fraction) -> None:
    # However the budget was divided between pure and Gaussian charges, this is the most that is left for the latter.
    limit = gaussian_budget(guarantee.epsilon - pure, guarantee.delta) if pure < guarantee.epsilon else Fraction(0)
    if pure > guarantee.epsilon or squared > limit:
        raise LedgerError(
            name="stream", value=stream, limit=f"a window costs {pure} (and μ² {squared}) under {guarantee}"
        )


def _check_losses(connection: Connection, stream_id: int, stream: str, rows: list[ChargeRow]) -> bool:
    """After steps were lost, nothing reads what lies before the step at which the stream went on; whether any were."""
    query = (
        sa.select(losses.c.resume, chain.c.charge)
        .join(chain, (chain.c.stream_id == losses.c.stream_id) & (chain.c.number == losses.c.entry))
        .where(losses.c.stream_id == stream_id)
    )
    found = connection.execute(query).all()
    for resume, charge in found:
        if any(row.id > charge and row.charge.span.first < resume for row in rows if row.outcome != "lost"):
            limit = f"a charge reads steps before {resume}, where it went on after steps were lost"
            raise LedgerError(name="stream", value=stream, limit=limit)
    return bool(found)
