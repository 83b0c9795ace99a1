"""What streams of a population have drawn: read from their charges, and from the summaries of those taken away."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.documents import read_json
from veilstream.privacy.charge import Span
from veilstream.privacy.population import Cost, Population
from veilstream.privacy.population_pool import Drawn, StreamDraws
from veilstream.privacy.population_profile import Profile
from veilstream.storage.ledger.chain import LAST_COMPACTION
from veilstream.storage.ledger.population import Enrolled
from veilstream.storage.ledger.prepared import Prepared
from veilstream.storage.ledger.schema import charges, streams


def read_draws(
    connection: Connection, population: Population, members: Iterable[Enrolled], cells: Span | None
) -> list[StreamDraws]:
    """What each of ``members`` has drawn, at least all that touches ``cells`` (None: all), with whole blocks."""
    return [_of_member(connection, population, member, cells) for member in members]


def _of_member(connection: Connection, population: Population, member: Enrolled, cells: Span | None) -> StreamDraws:
    summed = summed_draws(connection, population, member)
    steps = None if cells is None else member.steps_in(population, cells)
    if summed.member.cells_at is None:
        summed.count(_timeless(connection, member.id))
    elif steps is None:
        summed.count(map(_drawn, connection.execute(DRAWN.where(charges.c.stream_id == member.id))))
    else:
        near = charges.c.last >= steps.first, charges.c.first <= steps.last
        found = [_drawn(row) for row in connection.execute(DRAWN.where(charges.c.stream_id == member.id, *near))]
        summed.count(whole_blocks(connection, member.id, summed, found))
    return summed


def summed_draws(connection: Connection, population: Population, member: Enrolled) -> StreamDraws:
    """What the charges came to that were taken out of the ledger."""
    row = connection.execute(LAST_COMPACTION, {"stream": member.id}).mappings().one_or_none()
    seen, w = member.member(population), population.guarantee.w
    if row is None or row["pool"] is None:
        return StreamDraws(seen, Profile([], w))
    return StreamDraws.from_fields(read_json(zlib.decompress(bytes(row["pool"]))), seen, w)


def packed_draws(draws: StreamDraws, open_blocks: Iterable[int]) -> bytes:
    """What a summary of charges keeps for the population of their stream."""
    return zlib.compress(json.dumps(draws.to_fields(open_blocks), separators=(",", ":")).encode("ascii"))


def read_until(connection: Connection, population: Population, member: Enrolled, last: int) -> StreamDraws:
    """What a stream had drawn by its charge of number ``last``."""
    draws = summed_draws(connection, population, member)
    draws.count(map(_drawn, connection.execute(DRAWN.where(charges.c.stream_id == member.id, charges.c.id <= last))))
    return draws


def last_charge(connection: Connection, members: Collection[int]) -> int:
    """The number of the last charge of some streams."""
    return connection.execute(LAST, {"streams": list(members)}).scalar_one() or 0


def drawn_since(connection: Connection, members: Collection[int], last: int) -> tuple[int, dict[int, list[Drawn]]]:
    """The number of the last charge of some streams, and by stream those behind the one of number ``last``."""
    found: defaultdict[int, list[Drawn]] = defaultdict(list)
    for number, stream_id, outcome, epsilon, mu_squared, first, until, block in SINCE.rows(connection, {"last": last}):
        last = number
        if outcome != LOST and stream_id in members:
            found[stream_id].append(Drawn(first, until, _cost(epsilon, mu_squared), block))
    return last, found


def whole_blocks(
    connection: Connection, stream_id: int, known: StreamDraws, found: Sequence[Drawn], blocks: Collection[int] = ()
) -> list[Drawn]:
    """Charges with all others of blocks that are not ``known``: a window that touches any pays the largest of all."""
    new = sorted({block for one in found if (block := one.block) is not None} | set(blocks))
    unknown = [block for block in new if block not in known.blocks]
    if not unknown:
        return list(found)
    whole = connection.execute(DRAWN.where(charges.c.stream_id == stream_id, charges.c.block.in_(unknown)))
    return [one for one in found if one.block not in unknown] + [_drawn(row) for row in whole]


def _timeless(connection: Connection, stream_id: int) -> list[Drawn]:
    """Charges that count in every window, equal ones added up by the database."""
    grouped = [
        Drawn(0, row.steps - 1, _times(_cost(row.epsilon, row.mu_squared), row.number))
        for row in connection.execute(TIMELESS, {"stream": stream_id})
    ]
    blocks = connection.execute(DRAWN.where(charges.c.stream_id == stream_id, charges.c.block.is_not(None)))
    return grouped + [_drawn(row) for row in blocks]


def _times(cost: Cost, number: int) -> Cost:
    return Cost(number * cost.pure, number * cost.mu_squared)


def _drawn(row: Any) -> Drawn:
    return Drawn(row.first, row.last, _cost(row.epsilon, row.mu_squared), row.block)


@lru_cache(maxsize=1024)
def _cost(epsilon: str, mu_squared: str) -> Cost:
    return Cost(Fraction(epsilon), Fraction(mu_squared))


LOST: Final = "lost"
_columns: Final = (charges.c.epsilon, charges.c.mu_squared, charges.c.first, charges.c.last, charges.c.block)
_streams: sa.BindParameter[Sequence[int]] = sa.bindparam("streams", expanding=True)
DRAWN: Final = sa.select(*_columns).where(charges.c.outcome != LOST)
SINCE: Final = Prepared(
    sa.select(charges.c.id, charges.c.stream_id, charges.c.outcome, *_columns)
    .where(
        charges.c.id > sa.bindparam("last"),
        charges.c.stream_id.in_(sa.select(streams.c.id).where(streams.c.membership.is_not(None))),
    )
    .order_by(charges.c.id)
)
LAST: Final = sa.select(sa.func.max(charges.c.id)).where(charges.c.stream_id.in_(_streams))
_steps: Final = charges.c.last - charges.c.first + 1
TIMELESS: Final = (
    sa.select(_steps.label("steps"), charges.c.epsilon, charges.c.mu_squared, sa.func.count().label("number"))
    .where(charges.c.stream_id == sa.bindparam("stream"), charges.c.outcome != LOST, charges.c.block.is_(None))
    .group_by(_steps, charges.c.epsilon, charges.c.mu_squared)
)
