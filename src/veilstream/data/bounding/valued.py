"""Which rows with values count, and the sums of what they are divided into.

As with counts, what counts of a person is a function of their own rows and the key alone: of their bins at a step the
k with the smallest keyed hash, and of the rows in these bins the r with the smallest keyed hash of person, cell, values
and number among equal rows. Where a person may add at most C to a sum, the values of their rows are shrunk by a common
factor, rounded towards zero, so that their sizes add up to C at most. Sums are sums of whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Integers, Limit, Rows, dense_rank, smallest
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, Runs
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import MISSING_VALUE, Places


def choose_valued(
    rows: Rows, bins: int, limit: Limit, key: KeyedHash, most: Sequence[int] | None = None
) -> tuple[Integers, tuple[Places, ...]]:
    """The cells and values of the rows that count.

    >>> rows = Rows(np.array([5, 5, 6]), None, np.array([0, 0, 1]), (np.array([9, 9, 4], dtype=np.int32),))
    >>> cells, values = choose_valued(rows, 2, Limit(), KeyedHash(bytes(16)))
    >>> cells.tolist(), values[0].tolist()
    ([0, 1], [9, 4])
    """
    if not len(rows):
        return rows.cell, rows.values
    person, low, high = dense_rank(rows)
    keys: list[NDArray[Any]] = [*rows.values, rows.cell, person]
    order = np.lexsort(keys)
    person, ordered = person[order], rows.where(order)
    cell = ordered.cell
    new_step = _changes(person, cell // bins)
    new_cell = new_step | _changes(cell)
    group, cell_number = np.cumsum(new_step) - 1, np.cumsum(new_cell) - 1
    firsts = np.flatnonzero(new_cell)
    who = person[firsts]
    ranks = key.hash(low[who], 0 if high is None else high[who], cell[firsts], 0)
    in_bins = np.zeros(len(firsts), dtype=np.bool_)
    in_bins[smallest(group[firsts], ranks, limit.bins_per_user)] = True
    left = np.flatnonzero(in_bins[cell_number])
    ordered, group, who = ordered.where(left), group[left], person[left]
    same = ~_changes(cell_number[left], *ordered.values)
    position = np.arange(len(left))
    copy = position - np.maximum.accumulate(np.where(same, 0, position)) + 1
    words = [column.astype(np.int64) for column in ordered.values]
    order_of_rows = key.hash(low[who], 0 if high is None else high[who], ordered.cell, *words, copy)
    chosen = np.sort(smallest(group, order_of_rows, limit.counts_per_user))
    counted = ordered.where(chosen)
    if most is None:
        return counted.cell, counted.values
    values = zip(counted.values, most, strict=True)
    return counted.cell, tuple(_shrunk(places, group[chosen], bound) for places, bound in values)


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
