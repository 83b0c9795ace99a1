"""Revisions in the ledger: all new values that one commit publishes for earlier steps are one row, a vintage."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError
from veilstream.storage.ledger.arrays import Named, Remembered, fetch_public, store_public
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import LARGEST_NUMBER, REVISION, record
from veilstream.storage.ledger.rows import LAWS, rows_of
from veilstream.storage.ledger.schema import revisions
from veilstream.values.revision import Revision
from veilstream.values.values import Values


def write_vintage(
    connection: Connection,
    stream_id: int,
    entry: int,
    made: Sequence[Revision],
    remembered: Remembered,
    recorded: str,
) -> list[list[Any]]:
    """Write what the commit of an entry publishes for earlier steps; its records in the chain, none without any."""
    if not made:
        return []
    steps, published = [each.step for each in made], {each.made for each in made}
    laws = {each.values.law for each in made}
    if steps != sorted(set(steps)) or len(published) != 1 or len(laws) != 1 or min(each.version for each in made) < 1:
        raise InvalidInputError(
            name="revisions",
            value=steps,
            limit="each of some earlier steps once, oldest first, made at one step and with noise of one law",
        )
    numbers = np.stack([np.asarray(each.values.numbers, dtype=np.float64) for each in made])
    spread = np.stack([np.broadcast_to(np.asarray(each.values.std, np.float64), numbers.shape[1:]) for each in made])
    named = [Named(array, remembered) for array in (numbers, spread)]
    values_array, std_array = store_public(connection, stream_id, named)
    row: dict[str, Any] = {
        "entry": entry,
        "t": published.pop(),
        "first": steps[0],
        "last": steps[-1],
        "steps": json.dumps(steps),
        "law": laws.pop().value,
        "recorded": recorded,
    }
    INSERT.changed(connection, {"stream_id": stream_id, "values_array": values_array, "std_array": std_array, **row})
    return [record("revision", REVISION, row, *[one.digest for one in named])]


def read_vintages(
    connection: Connection, stream_id: int, label: str, *, first: int | None, last: int | None, after: int, size: int
) -> tuple[list[Revision], int | None]:
    """New values for steps ``first`` to ``last`` of ``size`` vintages after an entry, and the entry to go on after."""
    ends = {"first": -LARGEST_NUMBER if first is None else first, "last": LARGEST_NUMBER if last is None else last}
    rows = VINTAGES.rows(connection, {"stream": stream_id, "after": after, "size": size, **ends})
    with rows_of(label):
        arrays = fetch_public(connection, {number for row in rows for number in row[4:]}, label)
        found = [
            revision
            for _entry, t, steps, law, values, std in rows
            for revision in _revisions(t, read_json(steps), law, arrays[values], arrays[std])
            if ends["first"] <= revision.step <= ends["last"]
        ]
    return found, rows[-1][0] if len(rows) == size else None


def _revisions(t: int, steps: list[int], law: str, values: NDArray[Any], std: NDArray[Any]) -> Iterator[Revision]:
    for step, numbers, spread in zip(steps, values, std, strict=True):
        yield Revision(step, t - step, Values(numbers, spread, LAWS[law]))


INSERT: Final = Prepared(sa.insert(revisions))
VINTAGES: Final = Prepared(
    sa.select(
        revisions.c.entry,
        revisions.c.t,
        revisions.c.steps,
        revisions.c.law,
        revisions.c.values_array,
        revisions.c.std_array,
    )
    .where(
        revisions.c.stream_id == sa.bindparam("stream"),
        revisions.c.entry > sa.bindparam("after"),
        revisions.c.last >= sa.bindparam("first"),
        revisions.c.first <= sa.bindparam("last"),
    )
    .order_by(revisions.c.entry)
    .limit(sa.bindparam("size"))
)
