"""Which rows with values count, and the sums of what they are divided into.

As with counts, what counts of a person is a function of their own rows and the key alone: of their bins at a step the
k with the smallest keyed hash, and of the rows in these bins the r with the smallest keyed hash of person, cell, values
and number among equal rows. Where a person may add at most C to a sum, the values of their rows are shrunk by a common
factor, rounded towards zero, so that their sizes add up to C at most. Sums are sums of whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Integers, Limit, Rows, dense_rank, smallest
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, Runs
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import MISSING_VALUE, Places

COPIES_AT_ONCE: Final = 1 << 22
"""Rows whose order is found together: of a person with very many equal ones no more are in memory."""
SUMS_AT_ONCE: Final = 1 << 22
"""Sums that are in memory together where they are taken as runs."""


def choose_valued(
    rows: Rows,
    bins: int,
    limit: Limit,
    key: KeyedHash,
    most: Sequence[int] | None = None,
    *,
    folded: bool = False,
) -> tuple[Integers, tuple[Places, ...]]:
    """The cells and values of the rows that count; of ``folded`` rows the last column says how often each comes.

    >>> rows = Rows(np.array([5, 5, 6]), None, np.array([0, 0, 1]), (np.array([9, 9, 4], dtype=np.int32),))
    >>> cells, values = choose_valued(rows, 2, Limit(), KeyedHash(bytes(16)))
    >>> cells.tolist(), values[0].tolist()
    ([0, 1], [9, 4])
    """
    if not len(rows):
        return rows.cell, rows.values[:-1] if folded else rows.values
    distinct, times, group = _in_chosen_bins(rows, bins, limit, key, folded=folded)
    chosen = _chosen_copies(distinct, times, group, limit.counts_per_user, key)
    counted = distinct.where(chosen)
    if most is None:
        return counted.cell, counted.values
    values = zip(counted.values, most, strict=True)
    return counted.cell, tuple(_shrunk(places, group[chosen], bound) for places, bound in values)


def fold(rows: Rows, bins: int, limit: Limit, key: KeyedHash) -> Rows:
    """The rows in bins that can still count when more rows of the same people come, equal ones folded into one.

    A further column says how often each comes. Choosing from folded parts together gives what choosing from all
    rows gives: a bin that is among the first k of all rows is so among any part of them that holds it.

    >>> many = Rows(np.full(100, 5), None, np.arange(100) % 2, (np.full(100, 9, dtype=np.int32),))
    >>> folded = fold(many, 2, Limit(), KeyedHash(bytes(16)))
    >>> len(folded), folded.values[-1].tolist()
    (1, [50])
    """
    if not len(rows):
        return with_copies(rows)
    distinct, times, _ = _in_chosen_bins(rows, bins, limit, key, folded=False)
    return Rows(distinct.low, distinct.high, distinct.cell, (*distinct.values, times.astype(np.int32)))


def with_copies(rows: Rows) -> Rows:
    """The rows, each of which comes once, with the column that ``fold`` adds."""
    return Rows(rows.low, rows.high, rows.cell, (*rows.values, np.ones(len(rows), dtype=np.int32)))


def _in_chosen_bins(
    rows: Rows, bins: int, limit: Limit, key: KeyedHash, *, folded: bool
) -> tuple[Rows, Integers, Integers]:
    """The distinct rows in the k bins that count of each person and step, in order of person, cell and values; how
    often each comes; and the number of its person and step."""
    person, low, high = dense_rank(rows)
    columns = rows.values[:-1] if folded else rows.values
    keys: list[NDArray[Any]] = [*columns, rows.cell, person]
    order = np.lexsort(keys)
    person, cell, values = person[order], rows.cell[order], tuple(column[order] for column in columns)
    new_step = _changes(person, cell // bins)
    new_cell = new_step | _changes(cell)
    firsts = np.flatnonzero(new_cell | _changes(cell, *values))
    if folded:
        times = np.add.reduceat(rows.values[-1][order].astype(np.int64), firsts)
    else:
        times = np.diff(firsts, append=len(cell))
    person, cell, values = person[firsts], cell[firsts], tuple(column[firsts] for column in values)
    group, new_cell = (np.cumsum(new_step) - 1)[firsts], new_cell[firsts]
    cells = np.flatnonzero(new_cell)
    who = person[cells]
    ranks = key.hash(low[who], 0 if high is None else high[who], cell[cells], 0)
    in_bins = np.zeros(len(cells), dtype=np.bool_)
    in_bins[smallest(group[cells], ranks, limit.bins_per_user)] = True
    left = np.flatnonzero(in_bins[np.cumsum(new_cell) - 1])
    who = person[left]
    distinct = Rows(low[who], None if high is None else high[who], cell[left], tuple(column[left] for column in values))
    return distinct, times[left], group[left]


def _chosen_copies(distinct: Rows, times: Integers, group: Integers, most: int, key: KeyedHash) -> Integers:
    """Which rows count, ``most`` of each group: a row as often as it is named."""
    ends = np.cumsum(times)
    found: list[Integers] = []
    hashes: list[NDArray[np.uint64]] = []
    for first in range(0, int(ends[-1]), COPIES_AT_ONCE):
        before, after = (np.clip(edge, first, first + COPIES_AT_ONCE) for edge in (ends - times, ends))
        row = np.repeat(np.arange(len(times)), after - before)
        copy = np.arange(first + 1, first + 1 + len(row)) - (ends - times)[row]
        words = [column[row].astype(np.int64) for column in distinct.values]
        high = 0 if distinct.high is None else distinct.high[row]
        ranks = key.hash(distinct.low[row], high, distinct.cell[row], *words, copy)
        best = smallest(group[row], ranks, most)
        found.append(row[best])
        hashes.append(ranks[best])
    if len(found) == 1:
        return np.sort(found[0])
    row = np.concatenate(found)
    return np.sort(row[smallest(group[row], np.concatenate(hashes), most)])


def _changes(*columns: NDArray[np.int64] | Places) -> NDArray[np.bool_]:
    """Where a row differs from the one before it in any of the columns."""
    changed = np.ones(len(columns[0]), dtype=np.bool_)
    changed[1:] = False
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return changed


def _shrunk(places: Places, group: Integers, most: int) -> Places:
    """The values of each group with sizes that add up to ``most`` at most."""
    sizes = np.where(places == MISSING_VALUE, 0, np.abs(places.astype(np.int64)))
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    totals = np.add.reduceat(sizes, starts) if len(starts) else sizes
    total = np.repeat(totals, np.diff(starts, append=len(group)))
    # Sizes are at most 2¹⁶ and the bound at most 2¹⁶ times a group's rows: products stay far below 2⁶³.
    shrunk = np.where(total > most, sizes * most // np.maximum(total, 1), sizes)
    return np.where(places == MISSING_VALUE, places, np.sign(places) * shrunk).astype(np.int32)


def sums_of_part(
    runs: Runs, part: int, limit: Limit, key: KeyedHash, measures: ValueMeasures, most: Fraction | None
) -> Iterator[tuple[int, Integers, int]]:
    """For each step of a part its vector of sums (bins × parts, flat) and the number of rows that counted."""
    shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE) or 1
    bound = None if most is None else measures.most_steps(most)
    steps, bins, width = runs.steps_of(part), runs.bins, measures.parts
    sums = np.zeros((len(steps), bins, width), dtype=np.int64)
    counted = np.zeros(len(steps), dtype=np.int64)
    for shard in range(shards):
        cells, values = choose_valued(runs.load(part, shard, shards), bins, limit, key, bound)
        if not len(cells):
            continue
        sums += sums_of_values(cells - steps.start * bins, values, measures, len(steps) * bins).reshape(sums.shape)
        counted += np.bincount(cells // bins - steps.start, minlength=len(steps))
    for index, step in enumerate(steps):
        yield step, sums[index].reshape(-1), int(counted[index])


def sums_of_values(cells: Integers, values: Sequence[Places], measures: ValueMeasures, size: int) -> Integers:
    """The sums of what rows are divided into, for each of ``size`` cells (cells × parts)."""
    each = zip(measures.columns, values, strict=True)
    return np.concatenate([column.sums(cells, places, size) for column, places in each], axis=1)


def run_of_sums(
    cells: Integers, values: Sequence[Places], measures: ValueMeasures
) -> Iterator[tuple[Integers, Integers]]:
    """The sums as runs of numbers that are not zero: places (cell · parts + part) in order, and their sums."""
    order = np.argsort(cells, kind="stable")
    cells, values = cells[order], [column[order] for column in values]
    starts = np.flatnonzero(_changes(cells))
    ends = np.append(starts, len(cells))
    parts = np.arange(measures.parts)
    at_once = max(1, SUMS_AT_ONCE // measures.parts)
    for first in range(0, len(starts), at_once):
        filled = starts[first : first + at_once]
        rows = slice(int(filled[0]), int(ends[min(first + at_once, len(starts))]))
        place = np.searchsorted(filled, np.arange(rows.start, rows.stop), side="right") - 1
        sums = sums_of_values(place, [column[rows] for column in values], measures, len(filled)).reshape(-1)
        present = np.flatnonzero(sums)
        yield (cells[filled][:, None] * measures.parts + parts).reshape(-1)[present], sums[present]
