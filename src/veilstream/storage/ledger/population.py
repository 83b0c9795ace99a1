"""Populations in a ledger: their rows, the streams that belong to them, and what those have drawn.

A population is locked after its streams' own locks and before the counter of commits, always, so that nobody waits in a
circle. What was drawn is read from the charges: nothing else says it.
"""

from __future__ import annotations

import hmac
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, LedgerError
from veilstream.privacy.charge import Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import EVER, Cost, Membership, Population
from veilstream.privacy.population_pool import Member
from veilstream.privacy.population_time import EPOCH, TimeGrid
from veilstream.storage.ledger.chain import check_stream, find_key
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.records import Fields
from veilstream.storage.ledger.schema import populations, streams
from veilstream.storage.ledger.spec import UNRECORDED


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A stream of a population as the ledger has it."""

    id: int
    name: str
    membership: Membership
    guarantee: Guarantee
    calendar: TimeGrid | None

    def cost(self, population: Population) -> Cost:
        """What it has reserved; nothing if it shares."""
        if self.membership.draw == "shared":
            return Cost()
        # Any step may hold data of any window where the membership says what time they are from.
        calendar = self.calendar if self.membership.data is None else None
        return population.reserved_cost(self.guarantee, calendar)

    def member(self, population: Population) -> Member:
        """Which cells of the population its steps cover."""
        grid, calendar, data = population.grid, self.calendar, self.membership
        if grid is None:
            return Member(self.name, self.guarantee.w, None)
        if data.data not in (None, EVER):
            first, last = data_cells(grid, data.data)
            return Member(self.name, self.guarantee.w, lambda _t: (first, last))
        if data.data == EVER or calendar is None or calendar.whole_numbers != grid.whole_numbers:
            return Member(self.name, self.guarantee.w, None)
        return Member(
            self.name,
            self.guarantee.w,
            lambda t: (grid.cell_of(calendar.border(t)), grid.cell_of(calendar.border(t + 1) - 1)),
        )

    def steps_in(self, population: Population, cells: Span) -> Span | None:
        """The steps that may touch some cells; None if all may."""
        grid = population.grid
        if grid is None or self.member(population).cells_at is None or self.membership.data is not None:
            return None
        assert self.calendar is not None
        begin, end = grid.border(cells.first), grid.border(cells.last + 1)
        return Span(self.calendar.cell_of(begin), self.calendar.cell_of(end - 1))


def data_cells(grid: TimeGrid, data: tuple[str, str]) -> tuple[int, int]:
    """The cells of data from one time up to another."""
    first, after = [TimeGrid(moment, grid.every, grid.zone).first for moment in data]
    if after <= first:
        raise InvalidInputError(name="data", value=data, limit="the end must lie after the beginning")
    return grid.cell_of(first), grid.cell_of(after - 1)


def date_of(grid: TimeGrid | None, cell: int) -> str:
    """When a cell begins, for people."""
    if grid is None or grid.whole_numbers:
        return str(cell if grid is None else grid.border(cell))
    moment = EPOCH + timedelta(microseconds=grid.border(cell))
    text = moment.astimezone(ZoneInfo(grid.zone)).isoformat(sep=" ", timespec="minutes")
    return text.removesuffix("+00:00") if grid.zone == "UTC" else text


def digest_of_population(key: bytes, row: Fields) -> str:
    """The digest of a population's row."""
    fields = [[name, row[name]] for name in ("id", "name", "promise", "recorded")]
    return hmac.digest(key, json.dumps(["population", fields]).encode(), "sha256").hex()


def readable_key(connection: Connection, label: str) -> bytes | None:
    """The key of the chain, None for a reader of the public tables, who cannot check digests."""
    allowed = "SELECT has_table_privilege('secret_keys', 'SELECT')"
    if connection.dialect.name == "postgresql" and not connection.exec_driver_sql(allowed).scalar_one():
        return None
    return find_key(connection, label)


def find_population(
    connection: Connection, key: bytes | None, name: str, label: str, *, lock: bool = False
) -> Population | None:
    """A population, None if there is none of that name. With ``lock`` nobody else draws on it until the commit."""
    query = sa.select(populations).where(populations.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    return None if row is None else checked(key, row, label)


def checked(key: bytes | None, row: Fields, label: str) -> Population:
    """The population of a row, which must be as it was written."""
    if key is not None and not hmac.compare_digest(row["mac"], digest_of_population(key, row)):
        raise LedgerError(
            name="population",
            value=row["name"],
            limit=f"in ledger {label} what it promises was altered outside veilstream; restore the ledger",
        )
    return Population.from_json(row["name"], row["promise"])


def known_population(
    connection: Connection, key: bytes | None, name: str, label: str, *, lock: bool = False
) -> Population:
    """A population, which must be there."""
    found = find_population(connection, key, name, label, lock=lock)
    if found is None:
        raise no_such_population(name, label, connection.execute(sa.select(populations.c.name)).scalars())
    return found


def no_such_population(name: str, label: str, known: Iterable[str] = ()) -> LedgerError:
    """What is said where a ledger has other populations than the one that is asked for."""
    return LedgerError(
        name="population",
        value=name,
        limit=f"ledger {label} has no such population; it has: {', '.join(known) or 'none'}",
        next_step="define it first: veilstream population define LEDGER NAME --epsilon ... --window ...",
    )


Checked: TypeAlias = dict[int, tuple[tuple[Any, ...], Enrolled]]
"""Rows of streams as they were when they were checked, and what they say."""


def enrolled(
    connection: Connection, key: bytes | None, population: str, label: str, known: Checked | None = None
) -> list[Enrolled]:
    """The streams of a population, each as it was registered; those that are ``known`` are not checked again."""
    checked_rows: Checked = {} if known is None else known
    raw = RAW_MEMBERS.rows(connection, {})
    if any(row[0] not in checked_rows or checked_rows[row[0]][0] != row for row in raw):
        rows = {row["id"]: row for row in connection.execute(MEMBERS).mappings()}
        for values in raw:
            row = rows[values[0]]
            if key is not None:
                check_stream(key, row, label)
            checked_rows[row["id"]] = values, of_row(row, Membership.from_json(row["membership"]))
    found = [checked_rows[row[0]][1] for row in raw]
    return [member for member in found if member.membership.population == population]


def of_row(row: Fields, membership: Membership) -> Enrolled:
    """A stream's row as its population sees it."""
    text = row["calendar"]
    anchor: dict[str, Any] | None = None if text in (None, UNRECORDED) else read_json(text)
    calendar = None if anchor is None else TimeGrid(**anchor)
    return Enrolled(row["id"], row["name"], membership, Guarantee.from_json(row["guarantee"]), calendar)


def reserved(population: Population, members: Iterable[Enrolled]) -> Cost:
    """What the streams that reserve have reserved together; of those about different people the largest counts."""
    apart: defaultdict[str, Cost] = defaultdict(Cost)
    for member in members:
        group, cost = member.membership.apart, member.cost(population)
        key = f"stream {member.name}" if group is None else f"apart {group}"
        apart[key] = Cost(max(apart[key].pure, cost.pure), max(apart[key].mu_squared, cost.mu_squared))
    return sum(apart.values(), Cost())


MEMBERS: Final = sa.select(streams).where(streams.c.membership.is_not(None)).order_by(streams.c.id)
RAW_MEMBERS: Final = Prepared(MEMBERS)
