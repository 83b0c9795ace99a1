"""Which rows of a person count: at most k bins and l1 counts per step.

The choice is a function of one person's own rows and the key alone. So adding or removing a person changes
nothing about anybody else, and the counts of a step move by at most l1 in total and in at most k bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.keyed import KeyedHash, Words
from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError

MOST_ROWS: Final = 1_000_000_000
"""Of one person in a step."""

Integers = NDArray[np.int64]


class Rows(Private):
    """Encoded events: the two integers of the person's identity, and the cell, which is step · bins + bin.

    ``values`` has a column of whole numbers for each value that is measured (``veilstream.data.measures``).
    """

    __slots__ = ("cell", "high", "low", "values")

    def __init__(
        self, low: Integers, high: NDArray[np.uint64] | None, cell: Integers, values: tuple[NDArray[np.int32], ...] = ()
    ) -> None:
        self.low, self.high, self.cell, self.values = low, high, cell, values

    def __len__(self) -> int:
        return len(self.cell)

    def where(self, chosen: NDArray[np.bool_] | Integers | slice) -> Rows:
        """Some of the rows."""
        high = None if self.high is None else self.high[chosen]
        return Rows(self.low[chosen], high, self.cell[chosen], tuple(column[chosen] for column in self.values))


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``bins_per_user`` distinct bins and ``counts_per_user`` counts per person and step."""

    bins_per_user: int = 1
    counts_per_user: int = 1

    def __post_init__(self) -> None:
        for name in ("bins_per_user", "counts_per_user"):
            value: object = getattr(self, name)
            if type(value) is not int or not 1 <= value <= MOST_ROWS:
                raise InvalidInputError(
                    name=name,
                    value=value,
                    limit=f"a whole number from 1 to {MOST_ROWS:,} is needed",
                    outcome="nothing was read",
                )


def choose(rows: Rows, bins: int, limit: Limit, key: KeyedHash) -> Integers:
    """The cells that count, one entry per count.

    Of a person's bins at a step those k with the smallest H(person, cell, 0) are selected; of the copies j =
    1..min(m, l1) of a selected bin with m rows, those l1 with the smallest H(person, cell, j), over all selected
    bins.

    >>> rows = Rows(np.array([5, 5, 6]), None, np.array([0, 1, 1]))
    >>> len(choose(rows, 2, Limit(), KeyedHash(bytes(16))))
    2
    """
    if not len(rows.cell):
        return rows.cell
    ranked = rank_rows(rows)
    packed, person, cell = ranked.packed, ranked.person(), ranked.cell()
    fresh = np.empty(len(packed), dtype=np.bool_)
    fresh[0] = True
    np.not_equal(person[1:], person[:-1], out=fresh[1:])
    if int(cell.max()) // bins > int(cell.min()) // bins:
        step = cell // bins
        fresh[1:] |= step[1:] != step[:-1]
    starts = np.flatnonzero(fresh)
    sizes = np.diff(starts, append=len(packed))
    within = sizes <= min(limit.bins_per_user, limit.counts_per_user)
    if within.all():
        return cell
    rows_within = np.repeat(within, sizes)
    excess = np.flatnonzero(~rows_within)
    group = np.repeat(np.arange(np.count_nonzero(~within)), sizes[~within])
    chosen = _choose_among(ranked, excess, group, limit, key)
    return np.concatenate([cell[rows_within], chosen])


def prune(rows: Rows, bins: int, limit: Limit, key: KeyedHash) -> Rows:
    """The rows that can still count when more rows of the same people come.

    Of each person and step the k bins with the smallest H(person, cell, 0) stay, with at most l1 copies each. A bin
    that is among the first k of all rows is so among any part of them that holds it, so that choosing from pruned
    parts together gives what choosing from all rows gives.

    >>> len(prune(Rows(np.full(100, 5), None, np.arange(100) % 2), 2, Limit(), KeyedHash(bytes(16))))
    1
    """
    if not len(rows.cell):
        return rows
    ranked = rank_rows(rows)
    firsts, copies = _distinct(ranked.packed, limit.counts_per_user)
    person, cell = ranked.person()[firsts], ranked.cell()[firsts]
    step = cell // bins
    fresh = np.ones(len(firsts), dtype=np.bool_)
    fresh[1:] = (person[1:] != person[:-1]) | (step[1:] != step[:-1])
    low, high = ranked.identity(person)
    selected = smallest(np.cumsum(fresh) - 1, key.hash(low, high, cell, 0), limit.bins_per_user)
    remaining = np.repeat(selected, copies[selected])
    return Rows(low[remaining], None if isinstance(high, int) else high[remaining], cell[remaining])


def first_of_each(low: Integers, high: Words, order: Words, count: int) -> Integers:
    """Positions of the ``count`` rows of every person that come first in a keyed order of their content."""
    ranked = np.lexsort((order, high, low))
    new = np.ones(low.size, dtype=np.bool_)
    new[1:] = (low[ranked[1:]] != low[ranked[:-1]]) | (high[ranked[1:]] != high[ranked[:-1]])
    position = np.arange(low.size)
    number = position - np.maximum.accumulate(np.where(new, position, 0))
    return np.sort(ranked[number < count])


class _Ranked(Private):
    """Rows sorted by person and cell, each packed in one integer so that sorting is one pass over integers."""

    __slots__ = ("first_cell", "high", "low", "packed", "width")

    def __init__(
        self, packed: Integers, width: int, first_cell: int, low: Integers | int, high: NDArray[np.uint64] | None
    ) -> None:
        self.packed, self.width, self.first_cell = packed, width, first_cell
        self.low, self.high = low, high

    def person(self) -> Integers:
        return self.packed >> self.width

    def cell(self) -> Integers:
        return (self.packed & ((1 << self.width) - 1)) + self.first_cell

    def identity(self, person: Integers) -> tuple[Integers, NDArray[np.uint64] | int]:
        """The identities of the people at these ranks."""
        low = person + self.low if isinstance(self.low, int) else self.low[person]
        return low, 0 if self.high is None else self.high[person]


def rank_rows(rows: Rows) -> _Ranked:
    """The rows in the order of people and cells."""
    first_cell = int(rows.cell.min())
    width = (int(rows.cell.max()) - first_cell).bit_length()
    lowest = int(rows.low.min())
    if rows.high is None and (int(rows.low.max()) - lowest).bit_length() + width <= 63:
        person = rows.low - lowest
        low: Integers | int = lowest
        high = None
    else:
        person, low, high = dense_rank(rows)
    packed = person << width
    packed |= rows.cell - first_cell
    packed.sort()
    return _Ranked(packed, width, first_cell, low, high)


def dense_rank(rows: Rows) -> tuple[Integers, Integers, NDArray[np.uint64] | None]:
    """The rank of every row's person among the people, and their identities by rank."""
    if rows.high is None:
        low, person = np.unique(rows.low, return_inverse=True)
        return person.astype(np.int64), low, None
    order = np.lexsort((rows.low, rows.high))
    low, high = rows.low[order], rows.high[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    person = np.empty(len(order), dtype=np.int64)
    person[order] = np.cumsum(fresh) - 1
    return person, low[fresh], high[fresh]


def _choose_among(ranked: _Ranked, excess: Integers, group: Integers, limit: Limit, key: KeyedHash) -> Integers:
    """The cells that count of those who have more rows at a step than may count."""
    packed = ranked.packed[excess]
    firsts, copies = _distinct(packed, limit.counts_per_user)
    cell, group = ranked.cell()[excess[firsts]], group[firsts]
    low, high = ranked.identity(packed[firsts] >> ranked.width)
    selected = smallest(group, key.hash(low, high, cell, 0), limit.bins_per_user)
    copies = copies[selected]
    if limit.bins_per_user == 1:
        return np.repeat(cell[selected], copies)
    expanded = np.repeat(selected, copies)
    ends = np.cumsum(copies)
    copy = np.arange(1, len(expanded) + 1) - np.repeat(ends - copies, copies)
    high = high if isinstance(high, int) else high[expanded]
    priority = key.hash(low[expanded], high, cell[expanded], copy)
    return cell[expanded[smallest(group[expanded], priority, limit.counts_per_user)]]


def _distinct(packed: Integers, most: int) -> tuple[Integers, Integers]:
    """Where each distinct entry of a sorted array begins, and how often it comes, ``most`` at most."""
    fresh = np.ones(len(packed), dtype=np.bool_)
    fresh[1:] = packed[1:] != packed[:-1]
    firsts = np.flatnonzero(fresh)
    return firsts, np.minimum(np.diff(firsts, append=len(packed)), most)


def smallest(group: Integers, priority: NDArray[np.uint64], count: int) -> Integers:
    """The positions of the ``count`` smallest priorities of each group, grouped; groups come together."""
    if count == 1:
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        least = np.minimum.reduceat(priority, starts)
        ties = np.flatnonzero(priority == np.repeat(least, np.diff(starts, append=len(group))))
        firsts: Integers = ties[np.diff(group[ties], prepend=-1) != 0]
        return firsts
    order = np.lexsort((priority, group))
    ordered = group[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered, side="left")
    return order[rank < count]
