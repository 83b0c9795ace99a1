"""A ledger checked from its rows alone: the database, the chain, the states, and every window by its definition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError, VeilstreamError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee, gaussian_budget
from veilstream.privacy.presence_windows import fullest
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.arrays import fetch_public, fetch_secret
from veilstream.storage.ledger.chain import base_of, check_state, check_stream, find_key, verified
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.rows import DAMAGED, charges_between
from veilstream.storage.ledger.schema import arrays, blocks, charges, counter, secret_arrays, steps, streams
from veilstream.storage.ledger.snapshots import numbered, packed, resumed, summary_of


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a ledger, and with which of its streams (None: with all of it)."""

    stream: str | None
    problem: str


def verify(ledger: Ledger) -> list[Finding]:
    """All that is wrong with a ledger; an empty list if everything fits.

    Time grows with the square of the charges within a window, since costs are recomputed by definition and not by the
    accountant. A ledger that was put back as a whole from an old copy is consistent in itself: only a mark that was
    seen later tells (``docs/reliability.md``).

    >>> verify(Ledger.open(None))
    []
    """
    found = list(_checked(ledger, None, _database))
    if found:
        return found
    with ledger.reading() as connection:
        names = {row.id: row.name for row in connection.execute(sa.select(streams.c.id, streams.c.name))}
    for stream_id, name in names.items():
        for check in (_stream_row, _chain, _state, _arrays, _blocks, _snapshots):
            found += _checked(ledger, name, partial(check, stream_id=stream_id))
        if not any(finding.stream == name for finding in found):
            found += _checked(ledger, name, partial(_windows, ledger, name))
    return found


def _checked(ledger: Ledger, stream: str | None, check: Callable[[Connection, str], None]) -> Iterator[Finding]:
    try:
        with ledger.reading() as connection:
            check(connection, ledger.label)
    except VeilstreamError as error:
        yield Finding(stream, str(error))
    except DAMAGED as error:
        yield Finding(stream, f"a row is damaged ({type(error).__name__})")


def _database(connection: Connection, label: str) -> None:
    if connection.dialect.name == "sqlite":
        report = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        if list(report) != ["ok"]:
            raise LedgerError(name="ledger", value=label, limit=f"the file is damaged: {report[0]}")
        if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            raise LedgerError(name="ledger", value=label, limit="a row refers to one that is missing")
    find_key(connection, label)
    last = connection.execute(sa.select(sa.func.max(steps.c.seq))).scalar_one() or 0
    count = connection.execute(sa.select(sa.func.count()).select_from(steps)).scalar_one()
    given = list(connection.execute(sa.select(counter.c.seq)).scalars())
    if given != [last] or count != last:
        raise LedgerError(
            name="ledger", value=label, limit=f"it counts {given} commits, the last step is {last} of {count}"
        )


def _stream_row(connection: Connection, label: str, stream_id: int) -> None:
    row = connection.execute(sa.select(streams).where(streams.c.id == stream_id)).mappings().one()
    check_stream(find_key(connection, label), row, label)


def _chain(connection: Connection, label: str, stream_id: int) -> None:
    verified(connection, find_key(connection, label), stream_id, _name(connection, stream_id), label, Mark())


def _state(connection: Connection, label: str, stream_id: int) -> None:
    check_state(connection, find_key(connection, label), stream_id, _name(connection, stream_id), label)
    slots = sa.select(secret_arrays.c.slot).where(secret_arrays.c.stream_id == stream_id)
    fetch_secret(connection, stream_id, list(connection.execute(slots).scalars()), label)


def _arrays(connection: Connection, label: str, stream_id: int) -> None:
    """Every public array matches its digest, and something refers to it."""
    ids = set(connection.execute(sa.select(arrays.c.id).where(arrays.c.stream_id == stream_id)).scalars())
    fetch_public(connection, ids, label)
    used: set[int | None] = set()
    for column in (
        charges.c.bins_array,
        charges.c.starts_array,
        steps.c.values_array,
        steps.c.std_array,
        steps.c.corners_array,
    ):
        used |= set(connection.execute(sa.select(column).where(column.table.c.stream_id == stream_id)).scalars())
    if not ids >= used - {None} or ids - used:
        raise LedgerError(name="stream", value=_name(connection, stream_id), limit="arrays were added or taken away")


def _blocks(connection: Connection, _label: str, stream_id: int) -> None:
    """Every block that was charged was opened once, when it was first charged."""
    charged = (
        sa.select(charges.c.block, sa.func.min(charges.c.t))
        .where(charges.c.stream_id == stream_id, charges.c.block.is_not(None))
        .group_by(charges.c.block)
    )
    opened = sa.select(blocks.c.block, blocks.c.t).where(blocks.c.stream_id == stream_id)
    known = {tuple(row) for row in connection.execute(opened)}
    if known != {tuple(row) for row in connection.execute(charged)}:
        raise LedgerError(name="stream", value=_name(connection, stream_id), limit="its list of blocks was altered")


def _snapshots(connection: Connection, label: str, stream_id: int) -> None:
    """Every snapshot is what an accountant knows that counts the charges from the first one on."""
    row = connection.execute(sa.select(streams).where(streams.c.id == stream_id)).mappings().one()
    known = Accountant(Guarantee.from_json(row["guarantee"]), row["bins"], per_timestamp=row["per_timestamp"])
    resumed(connection, find_key(connection, label), stream_id, row["name"], label)
    after, base = 0, base_of(connection, stream_id)
    for snapshot in numbered(connection, stream_id):
        if snapshot["entry"] < base.number:
            continue
        if snapshot["entry"] == base.number:
            known.restore(summary_of(connection, stream_id, row["name"], label))
            after = base.charge
        for charged in charges_between(connection, stream_id, after, snapshot["charge"], label):
            known.replay_at(charged.t, charged.charge)
        after = snapshot["charge"]
        if known.now is None or snapshot["t"] > known.now:
            known.advance(snapshot["t"])
        if packed(known.snapshot())[0] != snapshot["digest"]:
            limit = f"its snapshot of entry {snapshot['entry']} is not what its charges add up to"
            raise LedgerError(name="stream", value=row["name"], limit=limit)


def _windows(ledger: Ledger, stream: str, _connection: Connection, _label: str) -> None:
    """No window costs more than was promised, recomputed from the charges by definition."""
    spec = ledger.spec(stream)
    guarantee = Guarantee.from_json(spec.guarantee)
    recorded = [row.charge for row in ledger.charges(stream)]
    pure, squared = fullest(recorded, guarantee, spec.bins, per_timestamp=spec.per_timestamp)
    # However the budget was divided between pure and Gaussian charges, this is the most that is left for the latter.
    limit = gaussian_budget(guarantee.epsilon - pure, guarantee.delta) if pure < guarantee.epsilon else Fraction(0)
    if pure > guarantee.epsilon or squared > limit:
        raise LedgerError(
            name="stream", value=stream, limit=f"a window costs {pure} (and μ² {squared}) under {guarantee}"
        )


def _name(connection: Connection, stream_id: int) -> str:
    name: str = connection.execute(sa.select(streams.c.name).where(streams.c.id == stream_id)).scalar_one()
    return name


def check_export(ledger: Ledger, path: Path) -> list[Finding]:
    """What an earlier export shows that the ledger no longer has."""
    found: list[Finding] = []
    for name, seen in _marks_of(path):
        try:
            ledger.check_seen(name, seen)
        except VeilstreamError as error:
            found.append(Finding(name, str(error)))
    return found


def _marks_of(path: Path) -> Iterator[tuple[str, Mark]]:
    """The ends of streams in an export, as lines or as one array."""
    try:
        text = path.read_text(encoding="utf-8")
        rows: list[Any] = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
        for row in rows:
            if row["kind"] == "stream":
                yield row["stream"], Mark(int(row["mark"]["number"]), str(row["mark"]["digest"]))
    except (OSError, *DAMAGED):
        raise LedgerError(
            name="export", value=path, limit="it cannot be read", outcome="nothing was compared"
        ) from None
