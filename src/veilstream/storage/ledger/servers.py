"""Which PostgreSQL server holds a ledger: another one, or one recovered to an earlier time, may have forgotten.

Every cluster has a system identifier, and every recovery to a point in time and every promotion of a standby begins a
new timeline. Both are recorded with the first step and compared whenever a stream is opened for writing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from veilstream.errors import LedgerError
from veilstream.storage.ledger.decisions import SERVER, last_decision, record_decision


@dataclass(frozen=True, slots=True)
class Server:
    """A cluster of PostgreSQL on one timeline of its history."""

    system: str
    timeline: int


def present_server(connection: Connection) -> Server | None:
    """The server of a connection; None for SQLite, and for a server that does not tell.

    A connection that is lost meanwhile is an error: it says nothing about the server.
    """
    if connection.dialect.name != "postgresql":
        return None
    query = "SELECT (pg_control_system()).system_identifier, (pg_control_checkpoint()).timeline_id"
    try:
        with connection.begin_nested():
            system, timeline = connection.exec_driver_sql(query).one()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        # A service may keep these functions from its users; marks and exports are compared all the same.
        return None
    return Server(str(system), int(timeline))


def check_server(connection: Connection, label: str) -> bool:
    """Refuse a server other than the recorded one; whether the present one is not recorded yet."""
    present = present_server(connection)
    if present is None:
        return False
    known = last_decision(connection, label, SERVER, None)
    if known is None:
        return True
    if known != asdict(present):
        what = "another server" if known["system"] != present.system else "another timeline of its server"
        raise LedgerError(
            name="ledger",
            value=label,
            limit=f"it was last written on {what}: after a recovery to an earlier time steps would be charged and "
            "drawn a second time",
            next_step="compare it with an export (veilstream ledger verify --seen), then say where it stands "
            "(veilstream restore)",
        )
    return False


def record_server(connection: Connection, label: str) -> None:
    """Record that the present server holds the ledger; the caller commits."""
    present = present_server(connection)
    if present is not None:
        record_decision(connection, label, SERVER, None, asdict(present))
