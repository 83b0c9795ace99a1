"""Populations checked from their rows: what they promise, who draws on them, and every window."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.privacy.population import Membership
from veilstream.storage.ledger.population_book import account_of
from veilstream.storage.ledger.schema import populations, streams


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
