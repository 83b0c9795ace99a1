"""Bounding in parts: rows are dealt to buckets of people, and every bucket is bounded by itself.

A person's rows all go to the same bucket, and which of them count depends on them and the key alone. So the counts of
all buckets together are those of bounding everything at once, however the rows were cut into parts before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Integers, Limit, Rows, choose, prune
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.packing import pack, unpack
from veilstream.data.bounding.presence_rows import PresenceLimit, rows_that_count
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, SPREAD, Runs, join, shard_of

MAX_BUCKETS: Final = 1 << 16
SLOTS_BITS: Final = 16
"""People are hashed to this many bits to find those with very many rows."""
HEAVY_TIMES, HEAVY_ROWS = 16, 64
"""A slot is heavy if it holds more rows than this many times the mean and this many on top."""


def pack_rows(rows: Rows) -> bytes:
    """Rows as bytes."""
    return pack([rows.low, rows.cell] if rows.high is None else [rows.low, rows.cell, rows.high])


def unpack_rows(packed: bytes | memoryview) -> Rows:
    """The rows that ``pack_rows`` packed."""
    low, cell, *high = unpack(packed)
    return Rows(low, high[0].view(np.uint64) if high else None, cell)


def deal(rows: Rows, buckets: int) -> Iterator[tuple[int, Rows]]:
    """The rows of every bucket that has any.

    >>> [(bucket, len(part)) for bucket, part in deal(Rows(np.array([1, 2, 1]), None, np.arange(3)), 1)]
    [(0, 3)]
    """
    order, slices = by_bucket(rows.low, rows.high, buckets)
    ordered = rows.where(order)
    for number, mine in slices:
        high = None if ordered.high is None else ordered.high[mine]
        yield number, Rows(ordered.low[mine], high, ordered.cell[mine])


def by_bucket(
    low: Integers, high: NDArray[np.uint64] | None, buckets: int
) -> tuple[Integers, Iterator[tuple[int, slice]]]:
    """An order of the rows by bucket, and where in that order each bucket that has rows lies."""
    bucket = shard_of(low, high, buckets).astype(np.uint16)
    ends = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=buckets))]).tolist()
    filled = ((number, slice(first, last)) for number, (first, last) in enumerate(pairwise(ends)) if last > first)
    return np.argsort(bucket, kind="stable"), filled


def lighten(rows: Rows, bins: int, limit: Limit, key: KeyedHash) -> Rows:
    """The rows without those that cannot count, of people who have very many.

    One person with a hundred million rows would otherwise fill one bucket. People are counted by a short hash, so that
    rows of ordinary data pass at the cost of a histogram; whoever shares a slot with a heavy person is pruned as
    well, which changes no count.
    """
    words = rows.low.view(np.uint64) if rows.high is None else rows.low.view(np.uint64) ^ rows.high
    slot = ((words * SPREAD) >> np.uint64(64 - SLOTS_BITS)).astype(np.int64)
    sizes = np.bincount(slot, minlength=1 << SLOTS_BITS)
    heavy = sizes > HEAVY_ROWS + HEAVY_TIMES * len(rows) // (1 << SLOTS_BITS)
    if not heavy.any():
        return rows
    mine = heavy[slot]
    return join([rows.where(~mine), prune(rows.where(mine), bins, limit, key)])


def bounded_cells(
    pieces: Iterable[Rows],
    steps: int,
    bins: int,
    limit: Limit,
    key: KeyedHash,
    memory_bytes: int,
    presence: PresenceLimit | None = None,
) -> Iterator[Integers]:
    """The cells that count of one bucket, one entry per count, in parts: of steps, or of people with ``presence``.

    A bucket that outgrows ``MAX_ROWS_AT_ONCE`` is sorted by step, beyond ``memory_bytes`` in a temporary file.
    """
    waiting: list[Rows] = []
    runs: Runs | None = None
    for piece in pieces:
        waiting.append(piece)
        if runs is None and sum(map(len, waiting)) > MAX_ROWS_AT_ONCE:
            runs = Runs(steps, bins, memory_bytes)
        if runs is not None:
            for rows in waiting:
                runs.add(rows)
            waiting = []
    if runs is None:
        if waiting:
            rows = join(waiting)
            yield choose(rows if presence is None else rows_that_count(rows, bins, presence), bins, limit, key)
        return
    runs.finish()
    try:
        if presence is not None:
            yield from _chosen_of_people(runs, limit, key, presence)
            return
        for part in range(runs.parts):
            yield chosen_of_part(runs, part, limit, key)
    finally:
        runs.close()


def _chosen_of_people(runs: Runs, limit: Limit, key: KeyedHash, presence: PresenceLimit) -> Iterator[Integers]:
    """The cells that count, some people at a time with all of their steps."""
    shards = -(-sum(runs.rows(part) for part in range(runs.parts)) // MAX_ROWS_AT_ONCE) or 1
    for shard in range(shards):
        rows = join([runs.load(part, shard, shards) for part in range(runs.parts)])
        yield choose(rows_that_count(rows, runs.bins, presence), runs.bins, limit, key)


def chosen_of_part(runs: Runs, part: int, limit: Limit, key: KeyedHash) -> Integers:
    """The cells that count of one part of the runs, one entry per count."""
    shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE) or 1
    chosen = [choose(runs.load(part, shard, shards), runs.bins, limit, key) for shard in range(shards)]
    return chosen[0] if shards == 1 else np.concatenate(chosen)


def counted(cells: Integers) -> tuple[Integers, Integers]:
    """The distinct cells in order, and how often each comes.

    >>> counted(np.array([7, 9, 7]))
    (array([7, 9]), array([2, 1]))
    """
    if not len(cells):
        return cells, cells
    first = int(cells.min())
    if int(cells.max()) - first < 2 * len(cells):
        counts = np.bincount(cells - first)
        filled = np.flatnonzero(counts)
        return filled + first, counts[filled]
    ranked = np.sort(cells)
    return _summed(ranked, np.ones(len(ranked), dtype=np.int64))


def merged(runs: Iterable[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Several runs of distinct cells, in order, and their counts as one run.

    >>> merged([(np.array([1, 4]), np.array([2, 1])), (np.array([4]), np.array([5]))])
    (array([1, 4]), array([2, 6]))
    """
    pairs = [pair for pair in runs if len(pair[0])]
    if not pairs:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = min(int(cells[0]) for cells, _ in pairs)
    width = max(int(cells[-1]) for cells, _ in pairs) - first + 1
    if width <= 2 * sum(len(cells) for cells, _ in pairs):
        dense = np.zeros(width, dtype=np.int64)
        for cells, counts in pairs:
            dense[cells - first] += counts
        filled = np.flatnonzero(dense)
        return filled + first, dense[filled]
    cells = np.concatenate([cells for cells, _ in pairs])
    order = np.argsort(cells, kind="stable")
    return _summed(cells[order], np.concatenate([counts for _, counts in pairs])[order])


def _summed(ranked: Integers, counts: Integers) -> tuple[Integers, Integers]:
    fresh: NDArray[np.bool_] = np.ones(len(ranked), dtype=np.bool_)
    fresh[1:] = ranked[1:] != ranked[:-1]
    firsts = np.flatnonzero(fresh)
    return ranked[firsts], np.add.reduceat(counts, firsts) if len(firsts) else counts
