"""What a pool does not know of itself, after an old copy of its ledger was put back.

Of steps that are lost nobody knows what they drew, only that all of it fitted. So windows that hold a cell up to the
last of them count as full, and draws go on with data from behind them: PROOF.md, "Rollbacks of a pool". A stream that
is not in the copy at all may have drawn on any population at any time: pools of such a ledger have ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.privacy.population import Population
from veilstream.privacy.population_limit import ALL_OF_TIME
from veilstream.storage.ledger.decisions import last_decision, record_decision
from veilstream.storage.ledger.marks import RESTORE, Marks
from veilstream.storage.ledger.population import Enrolled
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.schema import decisions, losses, populations, streams

GONE: Final = "gone streams"


def full_until(connection: Connection, population: Population, sharing: Sequence[Enrolled], label: str) -> int | None:
    """The last cell up to which nobody knows what was drawn on a pool; None if all is known."""
    if KNOWN_GONE.rows(connection, {"kind": GONE}):
        decided = last_decision(connection, label, GONE, None)
        if decided is not None and population.name in decided["populations"]:
            return ALL_OF_TIME
    lost: dict[int, int] = dict(LOST_STEPS.rows(connection, {}))
    members = [(member.member(population).cells_at, lost[member.id]) for member in sharing if member.id in lost]
    return max([ALL_OF_TIME if cells_at is None else cells_at(last)[1] for cells_at, last in members], default=None)


def record_gone(connection: Connection, label: str, gone: Iterable[str]) -> None:
    """Write down that streams are not in the ledger any more, which ends the pools of its populations."""
    names = list(connection.execute(sa.select(populations.c.name)).scalars())
    record_decision(connection, label, GONE, None, {"streams": sorted(gone), "populations": names})


def refuse_rolled_back(
    connection: Connection, marks: Marks, members: Sequence[Enrolled], population: str, label: str
) -> None:
    """Refuse to draw on a pool if a stream that shares it, or any that is not here, was seen further than it is."""
    for member in members:
        marks.check_other(connection, member.id, member.name, label)
    unknown = gone_streams(connection, marks.all(), label)
    if unknown:
        raise LedgerError(
            name="population",
            value=population,
            limit=f"streams that were seen are not in ledger {label} ({', '.join(map(repr, unknown))}), which may have "
            "drawn on it",
            outcome="nothing was released",
            next_step=RESTORE,
        )


def gone_streams(connection: Connection, seen: Collection[str], label: str) -> list[str]:
    """Streams that were seen and are not in the ledger, unless it is on record that they are gone."""
    gone = sorted(set(seen) - set(connection.execute(sa.select(streams.c.name)).scalars())) if seen else []
    decided = last_decision(connection, label, GONE, None) if gone else None
    return [name for name in gone if decided is None or name not in decided["streams"]]


LOST_STEPS: Final = Prepared(sa.select(losses.c.stream_id, sa.func.max(losses.c.last)).group_by(losses.c.stream_id))
KNOWN_GONE: Final = Prepared(sa.select(decisions.c.id).where(decisions.c.kind == sa.bindparam("kind")).limit(1))
