"""Making a ledger smaller: charges that no window can reach any more give way to an exact summary of them.

The summary is a snapshot of the accountant, which later charges see exactly as they would have seen the charges
(PROOF.md, "Snapshots"), and for a population what they cost each of its windows. The commit that takes the rows away
says in the chain which entry the summary belongs to, so that the chain goes on; what was before it is kept in an
archive that is checked by itself, or given up, as the holder chooses.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from veilstream.errors import LedgerError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.chain import base_of, broken
from veilstream.storage.ledger.population_book import enrolled_stream
from veilstream.storage.ledger.population_draws import packed_draws, read_until
from veilstream.storage.ledger.recomputing import accountant_at, row_of
from veilstream.storage.ledger.records import COMPACTION, IN_PAGES, LOSS, Mark, Rows, record
from veilstream.storage.ledger.schema import (
    arrays,
    chain,
    charges,
    compactions,
    failures,
    losses,
    revisions,
    snapshots,
    steps,
    streams,
)
from veilstream.storage.ledger.snapshots import mark_at, numbered, packed
from veilstream.storage.ledger.transaction import head_of


@dataclass(frozen=True, slots=True)
class Plan:
    """What compacting a stream takes away: ``steps`` releases (if they go) and ``charges`` up to the entry ``through``.

    ``reason`` says why there is nothing to take away, if ``through`` is 0.
    """

    stream: str
    through: int = 0
    t: int = 0
    charges: int = 0
    steps: int = 0
    reason: str = ""

    def __str__(self) -> str:
        if not self.through:
            return f"stream '{self.stream}': nothing to compact; {self.reason}"
        return (
            f"stream '{self.stream}': {self.charges:,} charges of steps up to {self.t} give way to an exact summary; "
            f"no window that can still change holds them ({self.steps:,} releases up to there)"
        )


def plan_compaction(ledger: Ledger, stream: str) -> Plan:
    """What can be taken away of a stream: all up to the last snapshot before every window that can still change."""
    with ledger.reading() as connection:
        stream_id: int = connection.execute(sa.select(streams.c.id).where(streams.c.name == stream)).scalar_one()
        row = row_of(connection, stream_id)
        period = Guarantee.from_json(row["guarantee"]).period
        if period is None:
            return Plan(stream, reason="one budget lasts for the whole stream, so that every charge still counts")
        head, compacted = head_of(connection, stream_id), _last_compaction(connection, stream_id)
        last = connection.execute(sa.select(sa.func.max(charges.c.id))).scalar_one() or 0
        passed = [
            row
            for row in numbered(connection, stream_id)
            # SQLite gives the number of a last row that was deleted again: the ledger keeps its last charge. An archive
            # must hold the entry that says where its rows begin.
            if head is not None and row["t"] <= head - period and row["entry"] > compacted and row["charge"] < last
        ]
        if not passed:
            return Plan(stream, reason="no snapshot lies before every window that can still change")
        end = mark_at(connection, stream_id, passed[-1]["entry"])
        assert end is not None
        charged = _count(connection, charges, stream_id, charges.c.id <= end.charge)
        released = _count(connection, steps, stream_id, steps.c.seq <= end.seq)
        return Plan(stream, end.number, passed[-1]["t"], charged, released)


def _last_compaction(connection: Connection, stream_id: int) -> int:
    """The entry that compacted the stream last; 0 if none did."""
    entries = sa.select(sa.func.max(compactions.c.entry)).where(compactions.c.stream_id == stream_id)
    return connection.execute(entries).scalar_one() or 0


def _count(connection: Connection, table: Table, stream_id: int, condition: sa.ColumnElement[bool]) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(table.c.stream_id == stream_id, condition)
    return int(connection.execute(query).scalar_one())


def compact(ledger: Ledger, plan: Plan, *, keep_releases: bool, archived: bool) -> None:
    """Carry out a plan in one commit; ``ledger.shrink()`` gives the room back to the disk."""
    with ledger.transaction(plan.stream) as transaction:
        transaction.verify(Mark())
        connection, stream_id = transaction.connection, transaction.stream_id
        end = mark_at(connection, stream_id, plan.through)
        if end is None or plan.through <= base_of(connection, stream_id).number:
            raise LedgerError(name="stream", value=plan.stream, limit="it was compacted meanwhile; plan anew")
        summary, pool = _write_summary(connection, ledger.label, stream_id, plan, end)
        removed = _removed(connection, stream_id)
        _delete(connection, stream_id, end, keep_releases=keep_releases)
        row = {
            "through": end.number,
            "digest": end.digest,
            "charge": end.charge,
            "seq": end.seq,
            "failure": end.failure,
            "summary": summary,
            "removed_charges": removed[0] + plan.charges,
            "removed_steps": removed[1] + (0 if keep_releases else plan.steps),
            "kept": digest_of_kept(connection, stream_id, end),
            "archived": archived,
            "pool": pool,
        }
        transaction.commit_event(compactions, "compaction", COMPACTION, row)


def _write_summary(
    connection: Connection, label: str, stream_id: int, plan: Plan, end: Mark
) -> tuple[str, bytes | None]:
    """Put the body back into the snapshot that becomes the summary; its digest, and what its population keeps."""
    known = accountant_at(connection, label, stream_id, end.charge)
    if known.now is None or plan.t > known.now:
        known.advance(plan.t)
    digest, body = packed(known.snapshot())
    here = sa.update(snapshots).where(
        snapshots.c.stream_id == stream_id, snapshots.c.entry == end.number, snapshots.c.digest == digest
    )
    if connection.execute(here.values(body=body)).rowcount != 1:
        raise broken(label, plan.stream, "a snapshot is not what its charges add up to")
    return digest, pool_summary(connection, label, stream_id, end, known)


def pool_summary(connection: Connection, label: str, stream_id: int, end: Mark, known: Accountant) -> bytes | None:
    """What the charges up to ``end`` cost windows of the stream's population; None if it belongs to none."""
    found = enrolled_stream(connection, label, row_of(connection, stream_id))
    return None if found is None else packed_draws(read_until(connection, *found, end.charge), known.open_blocks)


def _removed(connection: Connection, stream_id: int) -> tuple[int, int]:
    query = sa.select(sa.func.max(compactions.c.removed_charges), sa.func.max(compactions.c.removed_steps))
    found = connection.execute(query.where(compactions.c.stream_id == stream_id)).one()
    return found[0] or 0, found[1] or 0


def _delete(connection: Connection, stream_id: int, end: Mark, *, keep_releases: bool) -> None:
    def drop(table: Table, *conditions: sa.ColumnElement[bool]) -> None:
        connection.execute(sa.delete(table).where(table.c.stream_id == stream_id, *conditions))

    drop(charges, charges.c.id <= end.charge)
    drop(
        failures, failures.c.id <= end.failure, failures.c.id < sa.select(sa.func.max(failures.c.id)).scalar_subquery()
    )
    drop(chain, chain.c.number < end.number)
    drop(snapshots, snapshots.c.entry < end.number)
    drop(compactions, compactions.c.entry <= end.number)
    if not keep_releases:
        drop(steps, steps.c.seq <= end.seq)
        drop(revisions, revisions.c.entry <= end.number)
    used = sa.union(
        *[
            sa.select(column).where(column.table.c.stream_id == stream_id, column.is_not(None))
            for column, _number, _last in ARRAY_COLUMNS
        ]
    )
    with _indexed(connection):
        drop(arrays, arrays.c.id.not_in(used))


@contextmanager
def _indexed(connection: Connection) -> Generator[None]:
    """Let the database find who names an array: it asks for each one that goes, and would read whole tables for it."""
    columns = [(column.table.name, column.name) for column, _number, _last in ARRAY_COLUMNS]
    for table, column in columns:
        made = f"CREATE INDEX compacting_{table}_{column} ON {table} ({column}) WHERE {column} IS NOT NULL"
        connection.exec_driver_sql(made)
    yield
    for table, column in columns:
        connection.exec_driver_sql(f"DROP INDEX compacting_{table}_{column}")


def digest_of_kept(connection: Connection, stream_id: int, end: Mark) -> str:
    """The digest of the releases, revisions and losses from before a summary that are still in the ledger."""
    found = sha256()
    with closing(Rows(connection, stream_id, Mark(charge=end.charge, failure=end.failure))) as rows:
        for kept in rows.published_until(end):
            found.update(json.dumps(kept).encode())
    query = sa.select(losses).where(losses.c.stream_id == stream_id, losses.c.entry <= end.number)
    for row in connection.execute(query.order_by(losses.c.entry), execution_options=IN_PAGES).mappings():
        found.update(json.dumps(record("loss", LOSS, row)).encode())
    return found.hexdigest()


def check_kept(connection: Connection, label: str, stream_id: int) -> None:
    """Refuse releases from before a summary that were altered."""
    base = base_of(connection, stream_id)
    if not base.number:
        return
    query = sa.select(compactions.c.kept).where(compactions.c.stream_id == stream_id)
    kept = connection.execute(query.order_by(compactions.c.entry.desc()).limit(1)).scalar_one()
    if kept != digest_of_kept(connection, stream_id, base):
        raise broken(label, row_of(connection, stream_id)["name"], "releases from before its summary were altered")


ARRAY_COLUMNS: Final = (
    (charges.c.bins_array, charges.c.id, "charge"),
    (charges.c.starts_array, charges.c.id, "charge"),
    (steps.c.values_array, steps.c.seq, "seq"),
    (steps.c.std_array, steps.c.seq, "seq"),
    (steps.c.corners_array, steps.c.seq, "seq"),
    (revisions.c.values_array, revisions.c.entry, "number"),
    (revisions.c.std_array, revisions.c.entry, "number"),
)
"""Columns that name arrays, the number of their rows, and what of a mark is the last such number."""
