"""A role that sees what is public, and nothing of the secret tables."""

from __future__ import annotations

from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.storage.ledger.schema import PUBLIC, VERSION_TABLE


def grant_reader(connection: Connection, role: str, label: str) -> list[str]:
    """Grant ``role`` to read the public tables of a ledger on PostgreSQL; the statements that did it.

    With them a reader can list releases and charges and export them. Grants on other tables, if anybody gave any, are
    taken back.
    """
    if connection.dialect.name != "postgresql":
        raise LedgerError(
            name="ledger",
            value=label,
            limit="SQLite has no roles, who reads the file reads its secrets; give readers an export",
            outcome="nothing was granted",
        )
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema = quote(str(connection.exec_driver_sql("SELECT current_schema()").scalar_one()))
    tables = ", ".join(f"{schema}.{name}" for name in (*[table.name for table in PUBLIC], "history", VERSION_TABLE))
    statements = [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {quote(role)}",
        f"GRANT USAGE ON SCHEMA {schema} TO {quote(role)}",
        f"GRANT SELECT ON {tables} TO {quote(role)}",
    ]
    for statement in statements:
        connection.exec_driver_sql(statement)
    connection.commit()
    return statements
