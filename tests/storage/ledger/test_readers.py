"""What a reader of the public tables can see: releases and charges, and nothing that follows the secret state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from veilstream.errors import LedgerError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import export
from veilstream.storage.ledger.schema import PUBLIC, metadata

from .support import SPEC, publish, state, values

NewLedger = Callable[[], str]
SECRET = [table.name for table in metadata.tables.values() if table not in PUBLIC]


UNLIKE = {"recorded", "mac", "chain.digest"}
"""What differs between any two ledgers: the moment, and digests under a key of each one's own."""


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)


@pytest.mark.xdist_group("postgres")
def test_a_second_user_reads_public_tables_alone(new_postgres: NewLedger) -> None:
    url = new_postgres()
    with Ledger.open(url) as ledger:
        ledger.register(SPEC)
        made = publish(ledger, 0, state(np.array([424_242_424_242])))
    role = 'reader "of" releases'
    with engine_of(url).begin() as connection:
        connection.execute(sa.text('DROP ROLE IF EXISTS "reader ""of"" releases"'))
        connection.execute(sa.text('CREATE ROLE "reader ""of"" releases" LOGIN'))
    try:
        with Ledger.open(url) as ledger:
            assert len(ledger.grant_reader(role)) == 3
        reader = sa.make_url(url).set(username=role).render_as_string(hide_password=False)
        with Ledger.open(reader) as ledger:
            assert [release.values.tolist() for release in ledger.releases()] == [made.values.tolist()]
            assert "424242424242" not in repr(export(ledger, "visits"))
            with pytest.raises(LedgerError, match="42501"), ledger.transaction("visits"):
                pass
        assert len(SECRET) >= 2
        for table in SECRET:
            with engine_of(reader).connect() as connection, pytest.raises(sa.exc.ProgrammingError, match="permission"):
                connection.execute(sa.text(f"SELECT * FROM {table}"))
    finally:
        with engine_of(url).begin() as connection:
            connection.execute(sa.text('DROP OWNED BY "reader ""of"" releases"'))
            connection.execute(sa.text('DROP ROLE "reader ""of"" releases"'))


def test_a_file_has_no_roles(new_sqlite: NewLedger) -> None:
    with Ledger.open(new_sqlite()) as ledger, pytest.raises(LedgerError, match="SQLite has no roles"):
        ledger.grant_reader("anybody")


def public_rows(url: str) -> dict[str, list[Any]]:
    """All that a reader sees, but when it was recorded."""
    seen: dict[str, list[Any]] = {}
    with engine_of(url).connect() as connection:
        for table in PUBLIC:
            columns = [column for column in table.c if not {column.name, str(column)} & UNLIKE]
            seen[table.name] = [tuple(row) for row in connection.execute(sa.select(*columns))]
    return seen


def test_public_rows_are_the_same_whether_or_not_a_secret_changes(new_ledger: NewLedger) -> None:
    """Also where a state holds what was released: nothing tells which of its arrays are new."""
    urls = new_ledger(), new_ledger()
    for url, moves in zip(urls, (False, True), strict=True):
        with Ledger.open(url) as ledger:
            ledger.register(SPEC)
            for t in range(4):
                kept = np.full(4, t) if moves else np.zeros(4, np.int64)
                publish(ledger, t, state(kept, values(1).numbers, np.arange(t if moves else 2)), values(t))
    assert public_rows(urls[0]) == public_rows(urls[1])
