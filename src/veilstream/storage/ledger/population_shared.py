"""The pool of a population as a stream draws on it, inside the transaction of its step.

The population stays locked from the first charge to the commit. What a charge may cost is decided before anything is
drawn; PROOF.md, "Populations", says why a comparison at the commit would tell secrets.

What the streams have drawn is remembered from step to step, and only charges that came since are read: numbers of
charges grow in the order of the commits, because they are given while the population is locked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlalchemy import Connection

from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.population import Cost, Membership, Population
from veilstream.privacy.population_limit import Pool, PoolDraws, covers
from veilstream.storage.ledger.marks import Marks
from veilstream.storage.ledger.population import Checked, Enrolled, date_of, enrolled, known_population, reserved
from veilstream.storage.ledger.population_draws import drawn_since, last_charge, read_draws, whole_blocks
from veilstream.storage.ledger.population_losses import full_until, refuse_rolled_back

AHEAD: Final = 16
"""So many windows after the one that is asked for are read with it, so that steps to come need no more."""


Joined: TypeAlias = tuple[Population, tuple[Enrolled, ...]]
"""A population and its streams as they were when a limit was worked out."""


@dataclass(slots=True)
class _Known:
    """What was read of a pool: all that touches ``cells`` (None: all), up to the charge of number ``last``."""

    draws: PoolDraws
    cells: Span | None
    last: int


@dataclass(slots=True)
class PoolMemory:
    """What a process knows of the populations of a ledger from its last steps.

    ``marks`` say how far each stream was seen.
    """

    marks: Marks
    rows: Checked = field(default_factory=dict[int, tuple[tuple[object, ...], Enrolled]])
    pools: dict[str, _Known] = field(default_factory=dict[str, _Known])
    limits: dict[str, tuple[Joined, Cost]] = field(default_factory=dict[str, tuple[Joined, Cost]])

    def forget(self) -> None:
        """Read everything anew: what was read may not have been committed."""
        self.pools.clear()

    def limit(self, population: Population, members: Sequence[Enrolled]) -> Cost:
        """What the streams that share have together."""
        known = self.limits.get(population.name)
        if known is None or known[0] != (population, tuple(members)):
            share = population.cap - reserved(population, members)
            known = self.limits[population.name] = (population, tuple(members)), share
        return known[1]


class SharedPool:
    """The pool on which one stream draws; it is locked and read when the first charge is asked for."""

    def __init__(
        self,
        connection: Connection,
        key: bytes,
        stream_id: int,
        membership: Membership,
        label: str,
        memory: PoolMemory,
    ) -> None:
        self._connection = connection
        self._key = key
        self._stream_id = stream_id
        self._population = membership.population
        self._label = label
        self._memory = memory
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
            connection, memory = self._connection, self._memory
            population = known_population(connection, self._key, self._population, self._label, lock=True)
            members = enrolled(connection, self._key, population.name, self._label, memory.rows)
            own = next(member for member in members if member.id == self._stream_id)
            sharing = [member for member in members if member.membership.draw == "shared"]
            if population.name not in memory.pools:
                refuse_rolled_back(connection, memory.marks, sharing, population.name, self._label)
            reading = _Reading(connection, population, sharing, own, memory)
            self._locked = Pool(
                population.name,
                memory.limit(population, members),
                population.guarantee.w,
                own.member(population),
                reading.fetch,
                lambda cell: date_of(population.grid, cell),
                full_until(connection, population, sharing, self._label),
            )
        return self._locked


class _Reading:
    """Reads what was drawn on a pool that is locked."""

    def __init__(
        self,
        connection: Connection,
        population: Population,
        sharing: Sequence[Enrolled],
        own: Enrolled,
        memory: PoolMemory,
    ) -> None:
        self._connection = connection
        self._population = population
        self._sharing = {member.id: member for member in sharing}
        self._own = own
        self._memory = memory

    def fetch(self, cells: Span | None, blocks: Collection[int]) -> PoolDraws:
        """What touches ``cells`` (None: all that there is), with some blocks of the stream that asks."""
        try:
            draws = self._fetched(cells)
            own = draws.streams[self._own.name]
            draws.count(self._own.name, whole_blocks(self._connection, self._own.id, own, (), blocks))
        except BaseException:
            self._memory.forget()
            raise
        return draws

    def _fetched(self, cells: Span | None) -> PoolDraws:
        name = self._population.name
        known = self._memory.pools.get(name)
        if known is not None and covers(known.cells, cells):
            return self._brought_up_to_date(known)
        if known is not None and known.cells is not None and cells is not None and cells.last < known.cells.first:
            # Data of long ago: what is known of the present stays.
            return self._read(cells)
        wanted = cells
        if cells is not None:
            ahead = AHEAD * (self._population.guarantee.w or 1)
            wanted = Span(
                cells.first, max(cells.last + ahead, 0 if known is None or known.cells is None else known.cells.last)
            )
        last = last_charge(self._connection, self._sharing)
        draws = self._read(wanted)
        self._memory.pools[name] = _Known(draws, wanted, last)
        return draws

    def _read(self, cells: Span | None) -> PoolDraws:
        read = read_draws(self._connection, self._population, self._sharing.values(), cells)
        return PoolDraws.of(read, self._population.guarantee.w)

    def _brought_up_to_date(self, known: _Known) -> PoolDraws:
        for member in self._sharing.values():
            known.draws.include(member.member(self._population))
        last, found = drawn_since(self._connection, self._sharing, known.last)
        for stream_id, drawn in found.items():
            stream = self._sharing[stream_id].name
            whole = whole_blocks(self._connection, stream_id, known.draws.streams[stream], drawn)
            known.draws.count(stream, whole)
        known.last = last
        return known.draws


def shared_pool(
    connection: Connection, key: bytes, stream_id: int, membership: str | None, label: str, memory: PoolMemory
) -> SharedPool | None:
    """The pool of a stream that shares one."""
    joined = None if membership is None else Membership.from_json(membership)
    if joined is None or joined.draw != "shared":
        return None
    return SharedPool(connection, key, stream_id, joined, label, memory)
