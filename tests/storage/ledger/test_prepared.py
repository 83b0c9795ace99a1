"""Prepared statements behave as SQLAlchemy's own: same rows, same errors, same transaction."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, NoResultFound, OperationalError

from veilstream.storage.ledger.prepared import Prepared

metadata = sa.MetaData()
people = sa.Table(
    "people", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text, unique=True)
)
INSERT = Prepared(sa.insert(people).returning(people.c.id))
FIRST = Prepared(sa.select(people.c.name).order_by(people.c.id).limit(1))
RENAME = Prepared(sa.update(people).where(people.c.id == sa.bindparam("who")).values(name=sa.bindparam("new")))


@pytest.fixture
def connection() -> sa.Connection:
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine)
    return engine.connect()


def test_values_come_back_and_rows_are_counted(connection: sa.Connection) -> None:
    assert [INSERT.value(connection, {"name": name}) for name in "ab"] == [1, 2]
    assert RENAME.changed(connection, {"who": 1, "new": "c"}) == 1
    assert RENAME.changed(connection, {"who": 9, "new": "d"}) == 0
    assert FIRST.rows(connection, {}) == [("c",)]


def test_it_is_part_of_the_transaction_of_its_connection(connection: sa.Connection) -> None:
    INSERT.value(connection, {"name": "a"})
    assert connection.in_transaction()
    connection.rollback()
    assert FIRST.rows(connection, {}) == []


def test_what_the_driver_raises_is_told_as_sqlalchemy_does(connection: sa.Connection) -> None:
    INSERT.value(connection, {"name": "a"})
    with pytest.raises(IntegrityError) as twice:
        INSERT.value(connection, {"name": "a"})
    assert twice.value.params is None
    with pytest.raises(NoResultFound):
        Prepared(sa.select(people.c.id).where(people.c.name == sa.bindparam("name"))).value(connection, {"name": "b"})
    with pytest.raises(OperationalError):
        Prepared(sa.select(sa.column("x", sa.Integer)).select_from(sa.table("nowhere"))).rows(connection, {})
