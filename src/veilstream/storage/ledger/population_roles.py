"""Who may do what on PostgreSQL, by grants of the server: read what is public, release, or register streams too.

SQLite has no roles: who may write the file may do everything.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from sqlalchemy import Connection

from veilstream.errors import InvalidInputError, LedgerError
from veilstream.storage.ledger.readers import grant_reader
from veilstream.storage.ledger.schema import PUBLIC

May: TypeAlias = Literal["read", "release", "register"]
ROLES: Final = get_args(May)
WRITTEN: Final = ("arrays", "steps", "charges", "blocks", "failures", "chain", "snapshots", "decisions")
"""What a step writes and never changes."""
SECRET: Final = ("secret_states", "secret_arrays")


def grant(connection: Connection, role: str, may: May, label: str) -> list[str]:
    """Grant ``role`` what it ``may`` do and take back everything else; the statements that did it.

    Who may ``release`` takes the next step of streams that are registered, and can neither define a population nor
    register a stream, so that nobody who publishes can give themselves another budget. Who may ``register`` can.
    """
    if may not in ROLES:
        raise InvalidInputError(
            name="may", value=may, limit=f"choose from {', '.join(ROLES)}", outcome="nothing was granted"
        )
    if may == "read" or connection.dialect.name != "postgresql":
        return grant_reader(connection, role, label)
    quote = connection.dialect.identifier_preparer.quote_identifier
    schema, name = str(connection.exec_driver_sql("SELECT current_schema()").scalar_one()), quote(role)
    done = grant_reader(connection, role, label)

    def tables(names: tuple[str, ...]) -> str:
        return ", ".join(f"{quote(schema)}.{table}" for table in names)

    known = {table.name for table in PUBLIC}
    if not known >= {*WRITTEN, "streams", "populations", "counter"}:
        raise LedgerError(name="ledger", value=label, limit="tables are missing", outcome="nothing was granted")
    statements = [
        f"GRANT INSERT ON {tables(WRITTEN)} TO {name}",
        f"GRANT UPDATE ON {tables(('counter',))} TO {name}",
        f"GRANT UPDATE (body) ON {tables(('snapshots',))} TO {name}",
        # To lock a row one must be allowed to change something of it; its digest shows if anybody did.
        f"GRANT UPDATE (recorded) ON {tables(('streams', 'populations'))} TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables(SECRET)} TO {name}",
        f"GRANT SELECT ON {tables(('secret_keys',))} TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {quote(schema)} TO {name}",
    ]
    if may == "register":
        statements.append(f"GRANT INSERT, UPDATE ON {tables(('streams', 'populations'))} TO {name}")
    for statement in statements:
        connection.exec_driver_sql(statement)
    connection.commit()
    return [*done, *statements]
