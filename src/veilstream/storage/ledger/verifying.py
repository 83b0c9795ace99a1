"""A ledger checked from its rows alone: the database, the chain, the states, and every window by its definition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.errors import LedgerError, VeilstreamError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.arrays import fetch_public, fetch_secret
from veilstream.storage.ledger.chain import base_of, check_state, check_stream, find_key, last_mark, verified
from veilstream.storage.ledger.compacting import ARRAY_COLUMNS, check_kept
from veilstream.storage.ledger.decisions import ARCHIVE, check_decisions, last_decision
from veilstream.storage.ledger.marks import Marks, check_mark, unmarked
from veilstream.storage.ledger.population_losses import gone_streams
from veilstream.storage.ledger.population_verifying import check_population, names_of_populations
from veilstream.storage.ledger.recomputing import check_snapshots, check_windows
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.rows import DAMAGED
from veilstream.storage.ledger.schema import (
    arrays,
    blocks,
    charges,
    compactions,
    counter,
    secret_arrays,
    snapshots,
    steps,
    streams,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a ledger, and with which of its streams (None: with all of it)."""

    stream: str | None
    problem: str


def verify(ledger: Ledger, *, marks: bool = True) -> list[Finding]:
    """All that is wrong with a ledger; an empty list if everything fits.

    Costs are worked out from all charges at once, and not by the accountant. A ledger that was put back as a whole from
    an old copy is consistent in itself: only a mark that was seen later tells (``docs/reliability.md``). Without
    ``marks`` the rows alone are looked at.

    >>> verify(Ledger.open(None))
    []
    """
    seen = ledger.all_marks() if marks else {}
    found = [*_checked(ledger, None, partial(_gone, seen=seen)), *_checked(ledger, None, _database)]
    if found:
        return found
    with ledger.reading() as connection:
        names = {row.id: row.name for row in connection.execute(sa.select(streams.c.id, streams.c.name))}
        published = last_decision(connection, ledger.label, ARCHIVE, None) is None
    for stream_id, name in names.items():
        if marks and published and ledger.marks.known:
            found += _checked(ledger, name, partial(_mark, marks=ledger.marks, stream_id=stream_id, name=name))
        for check in (_stream_row, _chain, _state, _arrays, _blocks, check_kept, check_snapshots):
            found += _checked(ledger, name, partial(check, stream_id=stream_id))
        if not any(finding.stream == name for finding in found):
            found += _checked(ledger, name, partial(check_windows, stream_id=stream_id))
    if not found:
        with ledger.reading() as connection:
            named = names_of_populations(connection)
        for name in named:
            found += _checked(ledger, None, partial(check_population, name=name))
    return found


def _checked(ledger: Ledger, stream: str | None, check: Callable[[Connection, str], None]) -> Iterator[Finding]:
    try:
        with ledger.reading() as connection:
            check(connection, ledger.label)
    except VeilstreamError as error:
        yield Finding(stream, str(error))
    except DAMAGED as error:
        yield Finding(stream, f"a row is damaged ({type(error).__name__})")


def _gone(connection: Connection, label: str, seen: Collection[str]) -> None:
    gone = gone_streams(connection, seen, label)
    if gone:
        raise LedgerError(
            name="ledger", value=label, limit=f"streams that were seen are not in it: {', '.join(map(repr, gone))}"
        )


def _mark(connection: Connection, label: str, marks: Marks, stream_id: int, name: str) -> None:
    """A step that another process makes meanwhile is in the ledger before it is in the mark: that is read first."""
    seen = marks.seen(name)
    end = last_mark(connection, stream_id)
    if seen is not None:
        check_mark(connection, stream_id, name, label, end, seen)
    elif end.number:
        raise unmarked(name, label, end)


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
    check_decisions(connection, label)
    if last_decision(connection, label, ARCHIVE, None) is not None:
        return
    removed = connection.execute(REMOVED_STEPS).scalar_one() or 0
    if given != [last] or count != last - removed:
        raise LedgerError(
            name="ledger", value=label, limit=f"it counts {given} commits, the last step is {last} of {count}"
        )


def _stream_row(connection: Connection, label: str, stream_id: int) -> None:
    row = connection.execute(sa.select(streams).where(streams.c.id == stream_id)).mappings().one()
    check_stream(find_key(connection, label), row, label)


def _chain(connection: Connection, label: str, stream_id: int) -> None:
    verified(connection, find_key(connection, label), stream_id, _name(connection, stream_id), label, Mark())


def _state(connection: Connection, label: str, stream_id: int) -> None:
    if last_decision(connection, label, ARCHIVE, None) is not None:
        return
    check_state(connection, find_key(connection, label), stream_id, _name(connection, stream_id), label)
    slots = sa.select(secret_arrays.c.slot).where(secret_arrays.c.stream_id == stream_id)
    fetch_secret(connection, stream_id, list(connection.execute(slots).scalars()), label)


def _arrays(connection: Connection, label: str, stream_id: int) -> None:
    """Every public array matches its digest, and something refers to it."""
    ids = set(connection.execute(sa.select(arrays.c.id).where(arrays.c.stream_id == stream_id)).scalars())
    fetch_public(connection, ids, label)
    used: set[int | None] = set()
    for column, _number, _last in ARRAY_COLUMNS:
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
    known: dict[int, int] = dict(map(tuple, connection.execute(opened)))
    first: dict[int, int] = dict(map(tuple, connection.execute(charged)))
    base = base_of(connection, stream_id)
    if base.number:
        # What was opened before the summary may have been charged before it alone.
        since = connection.execute(SUMMARY_STEP, {"stream": stream_id, "entry": base.number}).scalar_one()
        known = {block: t for block, t in known.items() if t > since or block in first}
        first = {block: min(t, known.get(block, t)) for block, t in first.items()}
    if known != first:
        raise LedgerError(name="stream", value=_name(connection, stream_id), limit="its list of blocks was altered")


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
    """The ends of streams in an export, or in what `publish --json` said."""
    try:
        text = path.read_text(encoding="utf-8")
        for row in _documents(text):
            if "mark" in row:
                mark: dict[str, Any] = row["mark"]
                yield row["stream"], Mark(int(mark["number"]), str(mark["digest"]), t=mark.get("t"))
    except (OSError, *DAMAGED):
        raise LedgerError(
            name="export", value=path, limit="it cannot be read", outcome="nothing was compared"
        ) from None


def _documents(text: str) -> list[Any]:
    """The objects of a file: one, an array of them, or one a line."""
    try:
        whole: Any = read_json(text)
    except ValueError:
        return [read_json(line) for line in text.splitlines()]
    rows: list[Any] = whole if text.lstrip().startswith("[") else [whole]
    return rows


REMOVED_STEPS: Final = sa.select(sa.func.sum(compactions.c.removed_steps))
SUMMARY_STEP: Final = sa.select(snapshots.c.t).where(
    snapshots.c.stream_id == sa.bindparam("stream"), snapshots.c.entry == sa.bindparam("entry")
)
