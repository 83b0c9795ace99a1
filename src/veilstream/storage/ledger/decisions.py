"""What the holder decided about a ledger as a whole: a fresh start, where its streams stand, that it is
an archive, which server holds it."""

from __future__ import annotations

import hmac
import json
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.errors import LedgerError
from veilstream.storage.ledger.chain import find_key
from veilstream.storage.ledger.records import moment
from veilstream.storage.ledger.schema import decisions

ARCHIVE: Final = "archive"
RESET: Final = "reset"
RESTORED: Final = "restored"
SERVER: Final = "server"


def record_decision(connection: Connection, label: str, kind: str, stream: str | None, facts: dict[str, Any]) -> None:
    """Write down a decision, with a keyed digest; the caller commits."""
    row = {"kind": kind, "stream": stream, "facts": json.dumps(facts, sort_keys=True), "recorded": moment()}
    connection.execute(sa.insert(decisions), {**row, "mac": _mac(find_key(connection, label), row)})


def last_decision(connection: Connection, label: str, kind: str, stream: str | None) -> dict[str, Any] | None:
    """The facts of the latest decision of a kind, for a stream or for the ledger."""
    same = decisions.c.stream.is_(None) if stream is None else decisions.c.stream == stream
    query = sa.select(decisions).where(decisions.c.kind == kind, same).order_by(decisions.c.id.desc()).limit(1)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    _check(connection, label, row)
    facts: dict[str, Any] = read_json(row["facts"])
    return facts


def check_decisions(connection: Connection, label: str) -> None:
    """Refuse decisions that were altered."""
    for row in connection.execute(sa.select(decisions)).mappings():
        _check(connection, label, row)


def _check(connection: Connection, label: str, row: sa.RowMapping) -> None:
    if not hmac.compare_digest(row["mac"], _mac(find_key(connection, label), dict(row))):
        raise LedgerError(name="ledger", value=label, limit=f"a decision of kind {row['kind']!r} was altered")


def _mac(key: bytes, row: dict[str, Any]) -> str:
    text = json.dumps(["decision", row["kind"], row["stream"], row["facts"], row["recorded"]])
    return hmac.digest(key, text.encode(), "sha256").hex()
