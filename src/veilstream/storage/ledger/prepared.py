"""Statements that every step makes, compiled once for each kind of database.

SQLAlchemy looks a statement up, binds its parameters and wraps its result anew at each call, which takes several times
as long as SQLite needs for a row. A prepared statement goes straight to the driver; what the driver raises is what
SQLAlchemy would have raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, NoResultFound

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """A statement as a driver takes it: ``constants`` it has of its own, ``order`` where parameters go by place."""

    text: str
    constants: dict[str, Any]
    order: list[str] | None

    def bound(self, parameters: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
        given = {**self.constants, **parameters}
        return given if self.order is None else [given[name] for name in self.order]


class Prepared:
    """A statement whose parameters are given by name, always the same ones and of types that drivers take as they are.

    >>> engine, answer = sa.create_engine("sqlite://"), Prepared(sa.select(sa.bindparam("n", type_=sa.Integer) + 1))
    >>> with engine.connect() as connection:
    ...     answer.rows(connection, {"n": 41})
    [(42,)]
    """

    def __init__(self, statement: sa.ClauseElement) -> None:
        self._statement: Final = statement
        self._compiled: dict[str, _Text] = {}

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> list[Row]:
        """Run it, and fetch all rows that it returns."""
        cursor = self._run(connection, parameters)
        try:
            found: list[Row] = cursor.fetchall()
        except connection.dialect.loaded_dbapi.Error as error:
            raise self._explained(connection, cursor, error) from None
        cursor.close()
        return found

    def value(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        """Run it, and give the one value that it returns."""
        rows = self.rows(connection, parameters)
        if len(rows) != 1:
            raise NoResultFound(f"{len(rows)} rows where there is one")
        return rows[0][0]

    def changed(self, connection: Connection, parameters: Mapping[str, Any]) -> int:
        """Run it, and say how many rows it wrote."""
        cursor = self._run(connection, parameters)
        count: int = cursor.rowcount
        cursor.close()
        return count

    def _run(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        dialect = connection.dialect
        known = self._compiled.get(dialect.name)
        if known is None:
            known = self._compiled[dialect.name] = self._compile(connection, parameters)
        if not connection.in_transaction():
            connection.begin()
        cursor: Any = connection.connection.cursor()
        try:
            cursor.execute(known.text, known.bound(parameters))
        except dialect.loaded_dbapi.Error as error:
            raise self._explained(connection, cursor, error) from None
        return cursor

    def _explained(self, connection: Connection, cursor: Any, error: Exception) -> BaseException:
        """What a driver raised, as SQLAlchemy would raise it."""
        dialect = connection.dialect
        driver: Any = dialect.loaded_dbapi.Error
        known: Any = error
        make: Any = DBAPIError.instance
        explained: BaseException = make(
            self._compiled[dialect.name].text,
            None,
            known,
            driver,
            hide_parameters=True,
            connection_invalidated=dialect.is_disconnect(known, connection.connection.driver_connection, cursor),
            dialect=dialect,
        )
        return explained

    def _compile(self, connection: Connection, parameters: Mapping[str, Any]) -> _Text:
        compiled: Any = self._statement.compile(dialect=connection.dialect, column_keys=list(parameters))
        constants = {name: value for name, value in compiled.params.items() if name not in parameters}
        return _Text(str(compiled), constants, compiled.positiontup)
