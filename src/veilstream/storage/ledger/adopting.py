"""The chain of a ledger that had none: one entry covers all that a stream holds."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.storage.ledger.chain import (
    MEMBERSHIP,
    SLOT_DIGESTS,
    STATE,
    append,
    digest_of_state,
    digest_of_stream,
    find_key,
)
from veilstream.storage.ledger.records import Mark, Rows
from veilstream.storage.ledger.schema import charges, failures, secret_states, steps, streams


def adopt(connection: Connection) -> None:
    """Begin the chain of every stream."""
    key = find_key(connection, "")
    known = [column for column in streams.c if column.key != MEMBERSHIP]
    for row in connection.execute(sa.select(*known)).mappings().all():
        stream_id: int = row["id"]
        mac = digest_of_stream(key, row)
        connection.execute(sa.update(streams).where(streams.c.id == stream_id).values(mac=mac))
        last = [
            connection.execute(sa.select(sa.func.max(column)).where(table.c.stream_id == stream_id)).scalar_one() or 0
            for table, column in ((charges, charges.c.id), (steps, steps.c.seq), (failures, failures.c.id))
        ]
        end = Mark(0, "", *last)
        mark = append(connection, key, stream_id, end, _all_rows(connection, stream_id, end))
        _adopt_state(connection, key, stream_id, mark)


def _all_rows(connection: Connection, stream_id: int, end: Mark) -> list[list[Any]]:
    with closing(Rows(connection, stream_id, Mark(), revised=False)) as rows:
        return rows.until(end)


def _adopt_state(connection: Connection, key: bytes, stream_id: int, mark: Mark) -> None:
    row = connection.execute(STATE, {"stream": stream_id}).mappings().one_or_none()
    if row is None:
        return
    digests = {row.slot: row.digest for row in connection.execute(SLOT_DIGESTS, {"stream": stream_id})}
    named = [digests[slot] for slot in read_json(row["slots"])]
    mac = digest_of_state(key, mark.digest, row["t"], bytes(row["header"]), named)
    state = sa.update(secret_states).where(secret_states.c.stream_id == stream_id)
    connection.execute(state.values(entry=mark.number, mac=mac))
