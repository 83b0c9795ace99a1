"""From rows to releases and charges."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, RowMapping

from veilstream.errors import LedgerError, LedgerVersionError
from veilstream.privacy.charge import Charge, Span
from veilstream.storage.ledger.arrays import fetch_public
from veilstream.storage.ledger.schema import STEP_FORMAT, charges, steps, streams
from veilstream.values.boxes import Boxes
from veilstream.values.release import Payload, Release
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """A charge as recorded: ``id`` grows with every charge of a stream, ``t`` is the step that made it."""

    id: int
    t: int
    charge: Charge
    outcome: Literal["released", "failed"]


PAGE: Final = 4096
DAMAGED: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, AssertionError)
"""What reading a row raises that somebody has altered."""


@contextmanager
def rows_of(label: str) -> Generator[None]:
    """Turns what a damaged row raises into an error of the ledger."""
    try:
        yield
    except LedgerError:
        raise
    except DAMAGED as error:
        raise LedgerError(
            name="ledger",
            value=label,
            limit=f"a row is damaged ({type(error).__name__}); `veilstream ledger verify` says more",
            outcome="nothing was read",
        ) from None


def read_releases(connection: Connection, query: sa.Select[Any], chosen: dict[str, int], label: str) -> list[Release]:
    """The releases that one of the queries below finds, in the order of their commits."""
    rows = connection.execute(query, chosen).mappings().all()
    for row in rows:
        if row["format"] > STEP_FORMAT:
            raise LedgerVersionError(
                name="ledger",
                value=label,
                limit=f"step {row['seq']} has format {row['format']}, this version reads up to {STEP_FORMAT}; "
                "written by a newer veilstream",
                outcome="nothing was read",
            )
    arrays = fetch_public(connection, _present(rows, "values_array", "std_array", "corners_array"), label)
    with rows_of(label):
        return [
            Release(
                stream=row["name"],
                seq=row["seq"],
                t=row["t"],
                payload=_payload(row, arrays),
                spent=Fraction(row["spent"]),
                left=Fraction(row["left"]),
            )
            for row in rows
        ]


def _payload(row: RowMapping, arrays: dict[int, NDArray[Any]]) -> Payload:
    numbers = arrays[row["values_array"]]
    std = _std(row) if row["std_array"] is None else arrays[row["std_array"]]
    if row["corners_array"] is None:
        return Values(numbers, std, NoiseLaw(row["law"]), row["fresh"])
    corners = arrays[row["corners_array"]]
    return Boxes(tuple(json.loads(row["payload"])["shape"]), corners[:, 0], corners[:, 1], numbers, std)


def read_charges(connection: Connection, stream_id: int, after: int, limit: int | None, label: str) -> list[ChargeRow]:
    query = CHARGES if limit is None else CHARGES.limit(limit)
    rows = connection.execute(query, {"stream": stream_id, "after": after}).mappings().all()
    arrays = fetch_public(connection, _present(rows, "bins_array", "starts_array"), label)
    with rows_of(label):
        return [
            ChargeRow(
                row["id"],
                row["t"],
                Charge(
                    epsilon=Fraction(row["epsilon"]),
                    span=Span(row["first"], row["last"]),
                    purpose=row["purpose"],
                    mu_squared=Fraction(row["mu_squared"]),
                    block=row["block"],
                    bins=arrays.get(row["bins_array"]),
                    starts=arrays.get(row["starts_array"]),
                ),
                row["outcome"],
            )
            for row in rows
        ]


def charges_between(connection: Connection, stream_id: int, after: int, last: int, label: str) -> Iterator[ChargeRow]:
    """Charges of a stream with an id above ``after`` and up to ``last``, oldest first, page by page."""
    while after < last:
        page = read_charges(connection, stream_id, after, PAGE, label)
        yield from (row for row in page if row.id <= last)
        if len(page) < PAGE:
            return
        after = page[-1].id


def _std(row: RowMapping) -> float:
    # SQLite keeps NaN as NULL.
    return math.nan if row["std"] is None else row["std"]


def _present(rows: Sequence[RowMapping], *columns: str) -> set[int]:
    found = {row[column] for row in rows for column in columns}
    return {number for number in found if number is not None}


RELEASES: Final = (
    sa.select(steps, streams.c.name, streams.c.payload)
    .join(streams, streams.c.id == steps.c.stream_id)
    .where(steps.c.seq > sa.bindparam("after"))
    .order_by(steps.c.seq)
    .limit(sa.bindparam("size"))
)
RELEASES_OF_STREAM: Final = RELEASES.where(steps.c.stream_id == sa.bindparam("stream"))
RELEASE_AT: Final = (
    sa.select(steps, streams.c.name, streams.c.payload)
    .join(streams, streams.c.id == steps.c.stream_id)
    .where(steps.c.stream_id == sa.bindparam("stream"), steps.c.t == sa.bindparam("time"))
)
CHARGES: Final = (
    sa.select(charges)
    .where(charges.c.stream_id == sa.bindparam("stream"), charges.c.id > sa.bindparam("after"))
    .order_by(charges.c.id)
)
