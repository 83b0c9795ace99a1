"""From rows to releases and charges."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection, RowMapping

from veilstream.documents import read_json
from veilstream.errors import LedgerError, LedgerVersionError
from veilstream.privacy.charge import Charge, Span
from veilstream.storage.ledger.arrays import fetch_public
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import refuse_other_types
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
    outcome: Literal["released", "failed", "lost"]

    def __post_init__(self) -> None:
        refuse_other_types(int, (self.id, self.t))
        refuse_other_types(str, (self.outcome,))


PAGE: Final = 4096
LAWS: Final = {law.value: law for law in NoiseLaw}
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


def read_releases(connection: Connection, query: Prepared, chosen: dict[str, int], label: str) -> list[Release]:
    """The releases that one of the queries below finds, in the order of their commits."""
    rows = query.rows(connection, chosen)
    if not rows:
        return []
    # There may be a million of them: whole columns, and places in a row, are much quicker than names.
    columns = list(zip(*rows, strict=True))
    names, payloads = _streams(connection, set(columns[-1]))
    with rows_of(label):
        newest = max(columns[1])
        if newest > STEP_FORMAT:
            raise LedgerVersionError(
                name="ledger",
                value=label,
                limit=f"step {columns[0][columns[1].index(newest)]} has format {newest}, this version reads up to "
                f"{STEP_FORMAT}; written by a newer veilstream",
                outcome="nothing was read",
            )
        for numbers in (columns[0], columns[8]):
            refuse_other_types(int, numbers)
        named: set[int | None] = {*columns[2], *columns[3], *columns[4]}
        arrays = fetch_public(connection, {number for number in named if number is not None}, label)
    found: list[Release] = []
    made: dict[tuple[Any, ...], Values] = {}
    with rows_of(label):
        # Small streams release the same values again and again.
        for seq, _, values, stds, corners, std, law, fresh, t, spent, left, stream in rows:
            released: Payload | None = made.get((values, stds, std, law, fresh)) if corners is None else None
            if released is None:
                noise = (math.nan if std is None else std) if stds is None else arrays[stds]
                if corners is None:
                    released = made[values, stds, std, law, fresh] = Values(
                        arrays[values], noise, LAWS[law], bool(fresh)
                    )
                else:
                    released = _boxes(payloads[stream], arrays[corners], arrays[values], noise)
            found.append(Release(names[stream], seq, t, released, _fraction(spent), _fraction(left)))
    return found


def _streams(connection: Connection, ids: set[int]) -> tuple[dict[int, str], dict[int, str]]:
    """Names of streams, and what their payloads are, by their number."""
    chosen = sa.select(streams.c.id, streams.c.name, streams.c.payload).where(streams.c.id.in_(sorted(ids)))
    rows = connection.execute(chosen).all()
    return {row.id: row.name for row in rows}, {row.id: row.payload for row in rows}


def _boxes(payload: str, corners: NDArray[Any], values: NDArray[Any], std: float | NDArray[Any]) -> Boxes:
    return Boxes(tuple(read_json(payload)["shape"]), corners[:, 0], corners[:, 1], values, std)


def read_charges(connection: Connection, stream_id: int, after: int, limit: int | None, label: str) -> list[ChargeRow]:
    query = CHARGES if limit is None else CHARGES.limit(limit)
    rows = connection.execute(query, {"stream": stream_id, "after": after}).mappings().all()
    with rows_of(label):
        arrays = fetch_public(connection, _present(rows, "bins_array", "starts_array"), label)
        return [
            ChargeRow(
                row["id"],
                row["t"],
                Charge(
                    epsilon=_fraction(row["epsilon"]),
                    span=Span(row["first"], row["last"]),
                    purpose=row["purpose"],
                    mu_squared=_fraction(row["mu_squared"]),
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


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    """An exact number from a row; most steps have one that many others have."""
    return Fraction(text)


def _present(rows: Sequence[RowMapping], *columns: str) -> set[int]:
    found = {row[column] for row in rows for column in columns}
    return {number for number in found if number is not None}


# SQLite keeps NaN as NULL.
_COLUMNS: Final[Sequence[sa.Column[Any]]] = (
    steps.c.seq,
    steps.c.format,
    steps.c.values_array,
    steps.c.std_array,
    steps.c.corners_array,
    steps.c.std,
    steps.c.law,
    steps.c.fresh,
    steps.c.t,
    steps.c.spent,
    steps.c.left,
    steps.c.stream_id,
)
_RELEASE: Final = sa.select(*_COLUMNS)
_LATER: Final = _RELEASE.where(steps.c.seq > sa.bindparam("after")).order_by(steps.c.seq).limit(sa.bindparam("size"))
RELEASES: Final = Prepared(_LATER)
RELEASES_OF_STREAM: Final = Prepared(_LATER.where(steps.c.stream_id == sa.bindparam("stream")))
RELEASE_AT: Final = Prepared(
    _RELEASE.where(steps.c.stream_id == sa.bindparam("stream"), steps.c.t == sa.bindparam("time"))
)
CHARGES: Final = (
    sa.select(charges)
    .where(charges.c.stream_id == sa.bindparam("stream"), charges.c.id > sa.bindparam("after"))
    .order_by(charges.c.id)
)
