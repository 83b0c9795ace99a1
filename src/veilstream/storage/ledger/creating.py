"""The present tables in an empty database, made at once."""

from __future__ import annotations

import os
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection, Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from veilstream.storage.ledger.schema import SCHEMA, VERSION_TABLE, counter, metadata, secret_keys

HISTORY: Final = """
CREATE VIEW history AS
SELECT s.name AS stream, c.t AS t, c.id AS charge, c.first AS span_first, c.last AS span_last,
       c.purpose AS purpose, c.epsilon AS epsilon, c.epsilon_decimal AS epsilon_decimal,
       c.block AS block,
       c.outcome AS outcome, p.seq AS seq, p.fresh AS fresh, p.spent AS spent, p."left" AS "left"
FROM charges c
JOIN streams s ON s.id = c.stream_id
LEFT JOIN steps p ON p.stream_id = c.stream_id AND p.t = c.t
"""
"""A view for people: a charge with its stream's name and its step."""

version = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def create(connection: Connection) -> None:
    """Make all tables in the open transaction, with a key of the chain of its own; the caller holds the lock."""
    for statement in _statements(connection.dialect):
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(counter), {"seq": 0})
    connection.execute(sa.insert(secret_keys), {"purpose": "chain", "key": os.urandom(32)})
    connection.execute(sa.insert(version), {"version_num": SCHEMA})


_compiled: Final[dict[str, tuple[str, ...]]] = {}


def _statements(dialect: Dialect) -> tuple[str, ...]:
    """What makes the tables on a kind of database, compiled once."""
    known = _compiled.get(dialect.name)
    if known is None:
        tables = [version, *metadata.sorted_tables]
        made: list[CreateTable | CreateIndex] = [CreateTable(table) for table in tables]
        made += [
            CreateIndex(index) for table in tables for index in sorted(table.indexes, key=lambda one: str(one.name))
        ]
        known = _compiled[dialect.name] = (*(str(one.compile(dialect=dialect)) for one in made), HISTORY)
    return known
