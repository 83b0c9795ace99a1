"""The pool of a population as a stream draws on it, inside the transaction of its step.

The population stays locked from the first charge to the commit. What a charge may cost is decided before anything is
drawn; PROOF.md, "Populations", says why a comparison at the commit would tell secrets.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.population import Membership
from veilstream.privacy.population_limit import Pool, Spent
from veilstream.storage.ledger.population import (
    date_of,
    drawn,
    enrolled,
    known_population,
    lost_through,
    reserved,
    usages,
)


class SharedPool:
    """The pool on which one stream draws; it is locked and read when the first charge is asked for."""

    def __init__(self, connection: Connection, key: bytes, stream_id: int, membership: Membership, label: str) -> None:
        self._connection = connection
        self._key = key
        self._stream_id = stream_id
        self._population = membership.population
        self._label = label
        self._locked: Pool | None = None

    def check(self, charges: Sequence[Charge]) -> None:
        self._pool().check(charges)

    def count(self, charges: Sequence[Charge]) -> None:
        self._pool().count(charges)

    def confirm(self, charges: Sequence[Charge]) -> None:
        """Refuse to record what was not asked for before."""
        self._pool().confirm(charges)

    def _pool(self) -> Pool:
        if self._locked is None:
            connection = self._connection
            population = known_population(connection, self._key, self._population, self._label, lock=True)
            members = enrolled(connection, self._key, population.name, self._label)
            own = next(member for member in members if member.id == self._stream_id)
            sharing = [member for member in members if member.membership.draw == "shared"]
            others = [member for member in sharing if member.id != own.id]

            def fetch(cells: Span | None) -> Spent:
                made = drawn(connection, population, sharing, cells)
                lost = lost_through(connection, population, sharing)
                return Spent(usages(population, others, made), made[own.name], lost)

            self._locked = Pool(
                population.name,
                population.cap - reserved(population, members),
                population.guarantee.w,
                own.member(population),
                fetch,
                lambda cell: date_of(population.grid, cell),
            )
        return self._locked


def shared_pool(
    connection: Connection, key: bytes, stream_id: int, membership: str | None, label: str
) -> SharedPool | None:
    """The pool of a stream that shares one."""
    joined = None if membership is None else Membership.from_json(membership)
    if joined is None or joined.draw != "shared":
        return None
    return SharedPool(connection, key, stream_id, joined, label)
