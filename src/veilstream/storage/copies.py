"""Copies of a database as of one moment, while others write to it: SQLite page by page, PostgreSQL row by row.

A copy is an SQLite file, whatever it was taken of, and can be put into either kind of database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, Table
from sqlalchemy.engine import URL

from veilstream.storage.ledger.surroundings import create_private

PAGE: Final = 2000
Write = Callable[[Path], None]
"""Writes a copy to a file that does not exist yet."""


@contextmanager
def one_moment(engine: Engine, tables: Sequence[Table], make: Callable[[Connection], None]) -> Generator[Write]:
    """Holds the present moment of a database; what it gives writes a copy of that moment, however late it is called.

    ``make`` makes ``tables`` empty in the file, where rows are copied.
    """
    if engine.dialect.name == "sqlite":
        with closing(sqlite3.connect(str(engine.url.database), isolation_level=None)) as source:
            source.execute("BEGIN")
            # The moment is that of the first read.
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            yield partial(_pages, source)
        return
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.exec_driver_sql("SELECT 1")
        yield partial(_rows, connection, tables, make)


def _pages(source: sqlite3.Connection, copy: Path) -> None:
    create_private(copy)
    with closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        # One file, without a log beside it.
        target.execute("PRAGMA journal_mode = DELETE")


def _rows(source: Connection, tables: Sequence[Table], make: Callable[[Connection], None], copy: Path) -> None:
    create_private(copy)
    engine = sa.create_engine(URL.create("sqlite", database=str(copy)), hide_parameters=True)
    with engine.begin() as target:
        make(target)
        copy_rows(source, target, tables)
    engine.dispose()


def put_rows(copy: Path, target: Connection, tables: Sequence[Table]) -> None:
    """Put the rows of a copy into empty tables of PostgreSQL; the caller commits."""
    engine = sa.create_engine(URL.create("sqlite", database=str(copy)), hide_parameters=True)
    with engine.connect() as source:
        copy_rows(source, target, tables)
    engine.dispose()
    for table in tables:
        for column in table.primary_key:
            if column.autoincrement and not column.foreign_keys and isinstance(column.type, sa.Integer):
                _count_on(target, table, column.name)


def _count_on(target: Connection, table: Table, column: str) -> None:
    """Numbers that the database gives go on behind those that were copied."""
    sequence = target.execute(sa.select(sa.func.pg_get_serial_sequence(table.name, column))).scalar_one()
    last = target.execute(sa.select(sa.func.max(table.c[column]))).scalar_one()
    if sequence is not None and last is not None:
        target.execute(sa.select(sa.func.setval(sequence, last)))


def copy_rows(source: Connection, target: Connection, tables: Sequence[Table]) -> None:
    """Copy all rows of tables that are there."""
    there = set(sa.inspect(source).get_table_names())
    for table in tables:
        if table.name not in there:
            continue
        found = source.execute(sa.select(table), execution_options={"yield_per": PAGE})
        for page in found.mappings().partitions(PAGE):
            target.execute(sa.insert(table), [_by_key(table, row) for row in page])


def _by_key(table: Table, row: sa.RowMapping) -> dict[str, Any]:
    return {column.key: row[column.key] for column in table.c}
