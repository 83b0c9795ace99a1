"""Grants of PostgreSQL: who releases can neither define a population nor register a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sa

from veilstream.errors import InvalidInputError, LedgerError
from veilstream.privacy.population import Population
from veilstream.release.budget import BudgetStatement
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.population_roles import May, grant

from .population_support import RESIDENTS, publisher
from .test_readers import engine_of

NewLedger = Callable[[], str]
COUNTS = np.array([5, 7, 1])


@contextmanager
def role_of(url: str, may: May) -> Iterator[str]:
    """The URL of a ledger for somebody who may do just that."""
    name = f"{may}er"
    with engine_of(url).begin() as connection:
        connection.execute(sa.text(f"DROP ROLE IF EXISTS {name}"))
        connection.execute(sa.text(f"CREATE ROLE {name} LOGIN"))
    try:
        with Ledger.open(url) as ledger, ledger.writing() as connection:
            assert grant(connection, name, may, ledger.label)
        yield sa.make_url(url).set(username=name).render_as_string(hide_password=False)
    finally:
        with engine_of(url).begin() as connection:
            connection.execute(sa.text(f"DROP OWNED BY {name}"))
            connection.execute(sa.text(f"DROP ROLE {name}"))


@pytest.mark.xdist_group("postgres")
def test_who_may_do_what(new_postgres: NewLedger) -> None:
    url = new_postgres()
    for which in (0, 1):
        with publisher(url, which) as p:
            p.feed(COUNTS)
    with role_of(url, "read") as reader:
        with Ledger.open(reader) as ledger:
            assert BudgetStatement.of(ledger, RESIDENTS.name).spent > 0
        with pytest.raises(LedgerError, match="42501"):
            publisher(reader, 0)
    with role_of(url, "release") as releaser:
        with publisher(releaser, 0) as p:
            for _ in range(3):
                p.feed(COUNTS)
        with pytest.raises(LedgerError, match="42501"):
            publisher(releaser, 2)
        with Ledger.open(releaser) as ledger, pytest.raises(LedgerError, match="42501"):
            ledger.populations.define(Population("another", 9, None))
    with role_of(url, "register") as registrar:
        with publisher(registrar, 2) as p:
            p.feed(COUNTS)
        with Ledger.open(registrar) as ledger:
            ledger.populations.define(Population("another", 9, None))


def test_a_file_has_no_roles(new_sqlite: NewLedger) -> None:
    with Ledger.open(new_sqlite()) as ledger, ledger.writing() as connection:
        with pytest.raises(LedgerError, match="SQLite has no roles"):
            grant(connection, "anybody", "release", ledger.label)
        with pytest.raises(InvalidInputError):
            grant(connection, "anybody", "steal", ledger.label)  # type: ignore[arg-type]
