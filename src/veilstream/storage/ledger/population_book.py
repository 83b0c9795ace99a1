"""How streams join a population, and what a ledger says of its populations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerError, LedgerMismatchError
from veilstream.privacy.draws import Draw
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import EVER, Cost, Membership, Population
from veilstream.privacy.population_limit import ALL_OF_TIME, PoolDraws
from veilstream.privacy.population_pool import StreamDraws
from veilstream.privacy.population_profile import Profile
from veilstream.privacy.population_time import TimeGrid
from veilstream.storage.ledger.chain import find_key
from veilstream.storage.ledger.population import (
    Enrolled,
    checked,
    data_cells,
    digest_of_population,
    enrolled,
    find_population,
    known_population,
    of_row,
    readable_key,
    reserved,
)
from veilstream.storage.ledger.population_draws import read_draws
from veilstream.storage.ledger.population_losses import full_until
from veilstream.storage.ledger.records import Fields, moment
from veilstream.storage.ledger.schema import populations
from veilstream.storage.ledger.spec import StreamSpec


@dataclass(frozen=True, slots=True)
class Account:
    """A population with its streams and all that they have drawn, as of one moment."""

    population: Population
    members: Sequence[Enrolled]
    draws: dict[str, StreamDraws]

    @property
    def reserved(self) -> Cost:
        """What streams have reserved together."""
        return reserved(self.population, self.members)

    @property
    def pool(self) -> Cost:
        """What the streams that share have together."""
        return self.population.cap - self.reserved

    @property
    def sharing(self) -> list[Enrolled]:
        return [member for member in self.members if member.membership.draw == "shared"]

    def profile(self, members: Sequence[Enrolled] | None = None) -> Profile:
        """What windows cost by the charges of some streams, by default of those that share the pool."""
        chosen = self.sharing if members is None else members
        return PoolDraws.of([self.draws[member.name] for member in chosen], self.population.guarantee.w).together

    def room(self, w: int | None, every: str) -> Fraction:
        """The largest epsilon that a stream with windows of ``w`` such steps could reserve now.

        Its steps are taken to begin where the population's cells do.
        """
        grid = self.population.grid
        calendar = None if grid is None else TimeGrid(grid.start, every, grid.zone)
        left = self.population.cap - self.reserved - self.profile().peak()
        return max(Fraction(0), left.pure) / self.population.reserved_cost(Guarantee(1, w), calendar).pure

    @property
    def within(self) -> bool:
        """Whether every window keeps the promise: what is reserved and the fullest window of the pool fit together."""
        return (self.reserved + self.profile().peak()).fits(self.population.cap)


class Populations:
    """The populations of a ledger."""

    def __init__(
        self,
        read: Callable[[], AbstractContextManager[Connection]],
        write: Callable[[], AbstractContextManager[Connection]],
        label: str,
    ) -> None:
        self._read = read
        self._write = write
        self._label = label

    def define(self, population: Population) -> Population:
        """Record a population if it is new, else check that it promises the same."""
        with self._read() as connection:
            known = find_population(connection, find_key(connection, self._label), population.name, self._label)
        if known is None:
            with self._write() as connection:
                known = self._insert(connection, population)
        if known != population:
            raise LedgerMismatchError(
                name="population",
                value=population.name,
                limit=f"in ledger {self._label} it is recorded as {known}; given {population}",
                outcome="nothing was changed",
                next_step="give the promise on record, or define another population",
            )
        return known

    def _insert(self, connection: Connection, population: Population) -> Population:
        key = find_key(connection, self._label)
        known = find_population(connection, key, population.name, self._label)
        if known is not None:
            return known
        if enrolled(connection, key, population.name, self._label):
            raise LedgerError(
                name="population",
                value=population.name,
                limit=f"streams of ledger {self._label} draw on it and what it promises is gone; restore the ledger",
            )
        row = {"name": population.name, "promise": population.to_json(), "recorded": moment(), "mac": ""}
        try:
            number = connection.execute(sa.insert(populations).returning(populations.c.id), row).scalar_one()
            mac = digest_of_population(key, {"id": number, **row})
            connection.execute(sa.update(populations).where(populations.c.id == number).values(mac=mac))
            connection.commit()
        except IntegrityError:
            connection.rollback()
        return known_population(connection, key, population.name, self._label)

    def get(self, name: str) -> Population:
        with self._read() as connection:
            return known_population(connection, readable_key(connection, self._label), name, self._label)

    def list(self) -> list[Population]:
        """Every population, in the order in which they were defined."""
        with self._read() as connection:
            key = readable_key(connection, self._label)
            rows = connection.execute(sa.select(populations).order_by(populations.c.id)).mappings().all()
            return [checked(key, row, self._label) for row in rows]

    def account(self, name: str) -> Account:
        """A population with all that was ever charged to its streams."""
        with self._read() as connection:
            return account_of(connection, name, self._label)

    def membership(
        self, population: str | Population | Membership | None, draw: Draw = "shared", unit: str = "people"
    ) -> str | None:
        """What a stream records about the population on which it draws; one that is given whole is defined."""
        match population:
            case None:
                return None
            case Membership():
                return population.to_json()
            case Population():
                return Membership(self.define(population).name, draw, unit).to_json()
            case _:
                return Membership(population, draw, unit).to_json()


def account_of(connection: Connection, name: str, label: str) -> Account:
    """A population with its streams and all that was ever charged to them."""
    key = readable_key(connection, label)
    population = known_population(connection, key, name, label)
    members = enrolled(connection, key, name, label)
    read = read_draws(connection, population, members, None)
    return Account(population, members, {draws.member.name: draws for draws in read})


def enrolled_stream(connection: Connection, label: str, row: Fields) -> tuple[Population, Enrolled] | None:
    """The population to which the stream of a row belongs, and the stream as that sees it; None if to none."""
    if row["membership"] is None:
        return None
    membership = Membership.from_json(row["membership"])
    return known_population(connection, find_key(connection, label), membership.population, label), of_row(
        row, membership
    )


def admit_member(connection: Connection, spec: StreamSpec, label: str) -> None:
    """Refuse a stream that its population cannot take; the population is locked until the stream is recorded."""
    if spec.membership is None:
        return
    key = find_key(connection, label)
    membership = Membership.from_json(spec.membership)
    population = known_population(connection, key, membership.population, label, lock=True)
    fields = {"id": 0, "name": spec.name, "calendar": spec.calendar, "guarantee": spec.guarantee}
    candidate = of_row(fields, membership)
    _check_unit(population, membership)
    _check_time(population, candidate)
    if membership.draw == "shared":
        _check_shareable(candidate, spec)
    members = enrolled(connection, key, population.name, label)
    share, others = candidate.cost(population), reserved(population, members)
    together = reserved(population, [*members, candidate])
    sharing = [member for member in members if member.membership.draw == "shared"]
    _check_losses(population, membership, full_until(connection, population, sharing, label))
    spent = read_draws(connection, population, sharing, None) if membership.draw == "reserved" else []
    full = PoolDraws.of(spent, population.guarantee.w).together.peak()
    if not (together + full).fits(population.cap):
        raise BudgetExceededError(
            f"stream {spec.name!r} would reserve {share} of population {population.name!r}: {others} of "
            f"{population.cap} is reserved and its fullest shared window has drawn {full}",
            name="draw",
            value=share.pure,
            limit=str(population.cap - others - full),
            outcome="nothing was registered",
            next_step="reserve less (a smaller epsilon, or a window of the stream as long as the population's), or "
            "draw 'shared'",
        )


def _check_losses(population: Population, membership: Membership, unknown: int | None) -> None:
    """Refuse shares of what nobody knows to be left."""
    if unknown is None or (unknown != ALL_OF_TIME and membership.draw == "shared"):
        return
    raise BudgetExceededError(
        name="draw",
        value=membership.draw,
        limit=f"of population {population.name!r} steps are lost, and nobody knows what they drew",
        outcome="nothing was registered",
        next_step="define another population" if unknown == ALL_OF_TIME else "draw 'shared', with data from later on",
    )


def _check_unit(population: Population, membership: Membership) -> None:
    if membership.unit != population.unit:
        raise InvalidInputError(
            name="unit",
            value=membership.unit,
            limit=f"population {population.name!r} protects {population.unit}; what bounds {membership.unit} says "
            "nothing about them, since one may have many of the other",
            next_step=f"bound the data by {population.unit} and declare it (--unit {population.unit})",
        )


def _check_time(population: Population, candidate: Enrolled) -> None:
    """Refuse times that cannot be placed among the population's cells."""
    data = candidate.membership
    if population.grid is None:
        return
    if candidate.calendar is not None and candidate.calendar.whole_numbers != population.grid.whole_numbers:
        raise InvalidInputError(
            name="every",
            value=candidate.calendar.every,
            limit=f"population {population.name!r} has cells of {population.grid.every}: both have dates or none has",
        )
    if data.data not in (None, EVER):
        data_cells(population.grid, data.data)


def _check_shareable(candidate: Enrolled, spec: StreamSpec) -> None:
    """Refuse to share what is not counted charge by charge in windows of time."""
    reason = None
    if spec.per_timestamp:
        reason = "its mechanism pays for every bin and timestamp by itself"
    elif candidate.guarantee.presence is not None:
        reason = "its people count in few steps"
    elif '"personal-accounts"' in spec.mechanism:
        reason = "every level of its roster has a budget of its own"
    if reason is not None:
        raise InvalidInputError(
            name="draw",
            value="shared",
            limit=f"stream {spec.name!r} cannot share a pool, because {reason}",
            next_step="draw 'reserved'",
        )
