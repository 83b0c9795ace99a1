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
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, SPREAD, Runs, join, shard_of
from veilstream.data.bounding.valued import fold, with_copies

MAX_BUCKETS: Final = 1 << 16
SLOTS_BITS: Final = 16
"""People are hashed to this many bits to find those with very many rows."""
HEAVY_TIMES, HEAVY_ROWS = 16, 64
"""A slot is heavy if it holds more rows than this many times the mean and this many on top."""


def pack_rows(rows: Rows) -> bytes:
    """Rows as bytes."""
    values = [column.astype(np.int64) for column in rows.values]
    return pack([rows.low, rows.cell, *values, *([] if rows.high is None else [rows.high])])


def unpack_rows(packed: bytes | memoryview, values: int = 0) -> Rows:
    """The rows that ``pack_rows`` packed, with so many columns of values."""
    low, cell, *others = unpack(packed)
    columns = tuple(column.astype(np.int32) for column in others[:values])
    return Rows(low, others[values].view(np.uint64) if len(others) > values else None, cell, columns)


def deal(rows: Rows, buckets: int) -> Iterator[tuple[int, Rows]]:
    """The rows of every bucket that has any.

    >>> [(bucket, len(part)) for bucket, part in deal(Rows(np.array([1, 2, 1]), None, np.arange(3)), 1)]
    [(0, 3)]
    """
    order, slices = by_bucket(rows.low, rows.high, buckets)
    ordered = rows.where(order)
    for number, mine in slices:
        yield number, ordered.where(mine)


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
    well, which changes no count. Rows with values get the column of ``fold``, and rows of heavy people are folded.
    """
    words = rows.low.view(np.uint64) if rows.high is None else rows.low.view(np.uint64) ^ rows.high
    slot = ((words * SPREAD) >> np.uint64(64 - SLOTS_BITS)).astype(np.int64)
    sizes = np.bincount(slot, minlength=1 << SLOTS_BITS)
    heavy = sizes > HEAVY_ROWS + HEAVY_TIMES * len(rows) // (1 << SLOTS_BITS)
    plain, lighter = (with_copies, fold) if rows.values else (_as_they_are, prune)
    if not heavy.any():
        return plain(rows)
    mine = heavy[slot]
    return join([plain(rows.where(~mine)), lighter(rows.where(mine), bins, limit, key)])


def _as_they_are(rows: Rows) -> Rows:
    return rows


def parts_of_bucket(
    pieces: Iterable[Rows], steps: int, bins: int, memory_bytes: int, *, by_person: bool
) -> Iterator[Rows]:
    """The rows of one bucket in parts, in which all rows of a person and step lie together; ``by_person`` of a person.

    A bucket that outgrows ``MAX_ROWS_AT_ONCE`` is sorted by step, beyond ``memory_bytes`` in an encrypted file: the
    cluster encrypts its own files and not those of others.
    """
    waiting: list[Rows] = []
    runs: Runs | None = None
    for piece in pieces:
        waiting.append(piece)
        if runs is None and sum(map(len, waiting)) > MAX_ROWS_AT_ONCE:
            runs = Runs(steps, bins, memory_bytes, encrypted=True)
        if runs is not None:
            for rows in waiting:
                runs.add(rows)
            waiting = []
    if runs is None:
        if waiting:
            yield join(waiting)
        return
    runs.finish()
    try:
        yield from _parts_by_person(runs) if by_person else _parts_by_step(runs)
    finally:
        runs.close()


def _parts_by_person(runs: Runs) -> Iterator[Rows]:
    shards = -(-sum(runs.rows(part) for part in range(runs.parts)) // MAX_ROWS_AT_ONCE) or 1
    for shard in range(shards):
        yield join([runs.load(part, shard, shards) for part in range(runs.parts)])


def _parts_by_step(runs: Runs) -> Iterator[Rows]:
    for part in range(runs.parts):
        shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE)
        for shard in range(shards):
            yield runs.load(part, shard, shards)


def chosen_of_part(runs: Runs, part: int, limit: Limit, key: KeyedHash) -> Integers:
    """The cells that count of one part of the runs, one entry per count."""
    shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE) or 1
    chosen = [choose(runs.load(part, shard, shards), runs.bins, limit, key) for shard in range(shards)]
    return chosen[0] if shards == 1 else np.concatenate(chosen)
