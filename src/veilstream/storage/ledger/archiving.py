"""What is taken out of a ledger, in a file of its own that can be read, exported and verified like a ledger.

It holds the rows of a stream up to its summary, the chain over them and the chain's key, and no secret state of any
mechanism. Nobody can publish to it. The last entry of its chain is the one with which the compacted ledger goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from veilstream.errors import LedgerError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.chain import PURPOSE, find_key
from veilstream.storage.ledger.compacting import ARRAY_COLUMNS, Plan
from veilstream.storage.ledger.decisions import ARCHIVE, record_decision
from veilstream.storage.ledger.recomputing import accountant_at
from veilstream.storage.ledger.records import IN_PAGES, Mark
from veilstream.storage.ledger.schema import (
    arrays,
    blocks,
    chain,
    charges,
    compactions,
    counter,
    failures,
    losses,
    populations,
    revisions,
    secret_keys,
    snapshots,
    steps,
    streams,
)
from veilstream.storage.ledger.snapshots import mark_at, packed
from veilstream.storage.ledger.surroundings import sync
from veilstream.storage.ledger.verifying import verify

PAGE: Final = 2000


def archive(ledger: Ledger, plans: Sequence[Plan], file: Path) -> None:
    """Write the archive of what ``plans`` take away to a new file, and verify it."""
    if file.exists():
        raise LedgerError(
            name="archive", value=file, limit="there is such a file already", outcome="nothing was written"
        )
    try:
        with Ledger.open(file) as made:
            with ledger.reading() as source, made.writing() as target:
                _copy(source, target, ledger.label, [plan for plan in plans if plan.through])
                target.commit()
            found = verify(made, marks=False)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    if found:
        file.unlink()
        raise LedgerError(name="archive", value=file, limit=f"it does not verify: {found[0].problem}")
    sync(file)
    sync(file.parent)


def _copy(source: Connection, target: Connection, label: str, plans: Sequence[Plan]) -> None:
    key = find_key(source, label)
    target.execute(sa.update(secret_keys).where(secret_keys.c.purpose == PURPOSE).values(key=key))
    last = 0
    for plan in plans:
        stream_id: int = source.execute(sa.select(streams.c.id).where(streams.c.name == plan.stream)).scalar_one()
        end = mark_at(source, stream_id, plan.through)
        if end is None:
            raise LedgerError(name="stream", value=plan.stream, limit="it was compacted meanwhile; plan anew")
        _copy_stream(source, target, stream_id, end, plan)
        _write_summary(source, target, label, stream_id, end, plan)
        last = max(last, end.seq)
    for row in source.execute(sa.select(populations)).mappings().all():
        target.execute(sa.insert(populations), dict(row))
    target.execute(sa.update(counter).values(seq=last))
    record_decision(target, label, ARCHIVE, None, {plan.stream: plan.through for plan in plans})


def _copy_stream(source: Connection, target: Connection, stream_id: int, end: Mark, plan: Plan) -> None:
    used = sa.union(
        *[
            sa.select(column).where(
                column.table.c.stream_id == stream_id, column.is_not(None), number <= getattr(end, last)
            )
            for column, number, last in ARRAY_COLUMNS
        ]
    )
    rows: list[tuple[Table, sa.ColumnElement[bool]]] = [
        (streams, streams.c.id == stream_id),
        (arrays, arrays.c.id.in_(used)),
        (steps, steps.c.seq <= end.seq),
        (revisions, revisions.c.entry <= end.number),
        (charges, charges.c.id <= end.charge),
        (failures, failures.c.id <= end.failure),
        (blocks, blocks.c.t <= plan.t),
        (chain, chain.c.number <= end.number),
        (snapshots, snapshots.c.entry <= end.number),
        (compactions, compactions.c.entry <= end.number),
        (losses, losses.c.entry <= end.number),
    ]
    for table, condition in rows:
        mine = condition if table is streams else (table.c.stream_id == stream_id) & condition
        found = source.execute(sa.select(table).where(mine), execution_options=IN_PAGES)
        for page in found.mappings().partitions(PAGE):
            target.execute(sa.insert(table), [_by_key(table, row) for row in page])


def _by_key(table: Table, row: sa.RowMapping) -> dict[str, Any]:
    return {column.key: row[column.key] for column in table.c}


def _write_summary(source: Connection, target: Connection, label: str, stream_id: int, end: Mark, plan: Plan) -> None:
    """Only the last snapshot of an archive has a body: what the compacted ledger goes on with."""
    known = accountant_at(source, label, stream_id, end.charge)
    if known.now is None or plan.t > known.now:
        known.advance(plan.t)
    mine = (snapshots.c.stream_id == stream_id) & (snapshots.c.entry == end.number)
    target.execute(sa.update(snapshots).where(mine).values(body=packed(known.snapshot())[1]))
