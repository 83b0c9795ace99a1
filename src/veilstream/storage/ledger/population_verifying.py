"""Populations checked from their rows: what they promise, who draws on them, and every window."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.privacy.population import Membership
from veilstream.privacy.population_limit import ALL_OF_TIME
from veilstream.storage.ledger.population_book import Account, account_of
from veilstream.storage.ledger.schema import chain, charges, losses, populations, streams


def names_of_populations(connection: Connection) -> list[str]:
    """Every population that is defined, and every one that a stream says it draws on."""
    drawn = connection.execute(sa.select(streams.c.membership).where(streams.c.membership.is_not(None))).scalars()
    defined = connection.execute(sa.select(populations.c.name)).scalars()
    return sorted({*defined, *[Membership.from_json(text).population for text in drawn]})


def check_population(connection: Connection, label: str, name: str) -> None:
    """Refuse a population that was altered or is missing, or of which a window passes what it promises."""
    account = account_of(connection, name, label)
    if not account.within:
        raise LedgerError(
            name="population",
            value=name,
            limit=f"a window costs {account.profile().peak()} beside {account.reserved} that is reserved; promised is "
            f"{account.population.cap}",
        )
    _check_losses(connection, account)


def _check_losses(connection: Connection, account: Account) -> None:
    """After steps of a pool were lost, nothing draws on windows that hold any of their cells."""
    w, sharing = account.population.guarantee.w, {member.id: member for member in account.sharing}
    for stream_id, last, charge in connection.execute(LOST_AT, {"streams": list(sharing)}):
        cells = sharing[stream_id].member(account.population).cells_at
        until = ALL_OF_TIME if cells is None or w is None else cells(last)[1] + w
        for later in connection.execute(LATER, {"streams": list(sharing), "charge": charge}):
            member = sharing[later.stream_id].member(account.population)
            if member.cells_at is None or member.cells_at(later.first)[0] < until:
                raise LedgerError(
                    name="population",
                    value=account.population.name,
                    limit=f"stream {member.name!r} drew on windows of which steps are lost",
                )


_streams: sa.BindParameter[list[int]] = sa.bindparam("streams", expanding=True)
LOST_AT: Final = (
    sa.select(losses.c.stream_id, losses.c.last, chain.c.charge)
    .join(chain, (chain.c.stream_id == losses.c.stream_id) & (chain.c.number == losses.c.entry))
    .where(losses.c.stream_id.in_(_streams))
)
LATER: Final = (
    sa.select(charges.c.stream_id, sa.func.min(charges.c.first).label("first"))
    .where(
        charges.c.stream_id.in_(_streams),
        charges.c.id > sa.bindparam("charge"),
        charges.c.outcome != "lost",
        sa.or_(charges.c.epsilon != "0", charges.c.mu_squared != "0"),
    )
    .group_by(charges.c.stream_id)
)
