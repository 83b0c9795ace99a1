"""How many rows people have in a step, as a sealed histogram: what a limit on contributions is chosen by.

A person and a step with r rows count in level ⌈log₂ r⌉. Of each person at most ``steps_per_user`` steps count, those of
the smallest keyed hashes: a function of the person's own steps and the key. If some of a person's rows go, in a window,
say, each of these steps may change its level or give way to another step of the same person: the histogram moves by at
most twice ``steps_per_user`` in L1 (PROOF.md, "Rows of a step").
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from veilstream.data.bounding.bounded import MEMORY_BYTES, read_rows
from veilstream.data.bounding.choice import Integers, Rows, dense_rank, rank_rows, smallest
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.private import cleared_on_error
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, Runs
from veilstream.data.calendar import Calendar
from veilstream.data.domain import Domain
from veilstream.data.encoding import Dropped, Encoder, Policy
from veilstream.data.events import Events
from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed, seal

LEVELS: Final = 21
"""1, 2, 3 to 4, 5 to 8, …; the last one holds whatever is more than 2¹⁹."""


def level_names() -> list[str]:
    """What the levels are called.

    >>> level_names()[:4], level_names()[-1]
    (['1', '2', '3 to 4', '5 to 8'], 'more than 524288')
    """
    ranges = [f"{2 ** (level - 1) + 1} to {2**level}" for level in range(2, LEVELS - 1)]
    return ["1", "2", *ranges, f"more than {2 ** (LEVELS - 2)}"]


def moved_by(steps_per_user: int) -> int:
    """How far one person moves the histogram if any of their rows go."""
    return 2 * steps_per_user


def rows_per_step(
    events: Events,
    calendar: Calendar,
    *,
    steps_per_user: int = 1,
    unknown: Policy = "error",
    missing_time: Policy = "error",
    dropped: Dropped | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> Sealed:
    """The sealed histogram over ``LEVELS`` levels of how many rows a person has in a step.

    >>> from veilstream.data import read_events
    >>> rows = {"id": [1, 1, 1, 2], "t": [0, 0, 0, 1]}
    >>> histogram = rows_per_step(read_events(rows, user="id", time="t"), Calendar(0, 2, 1))
    >>> int(histogram.l1)
    2
    """
    if type(steps_per_user) is not int or steps_per_user < 1:
        raise InvalidInputError(
            name="steps_per_user", value=steps_per_user, limit="at least 1 is needed", outcome="nothing was read"
        )
    key = Key(os.urandom(32))
    encoder = Encoder(Domain({}), calendar, events.time, unknown, missing_time, dropped or Dropped())
    runs = Runs(calendar.steps, 1, memory_bytes, None)
    try:
        with cleared_on_error():
            read_rows(events, encoder, runs, key)
            counts = _histogram(runs, steps_per_user, key)
    finally:
        runs.close()
    return seal(counts, 0, moved_by(steps_per_user))


def _histogram(runs: Runs, steps_per_user: int, key: Key) -> Integers:
    parts: list[tuple[Rows, Integers]] = []
    for part in range(runs.parts):
        shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE) or 1
        parts.extend(_pairs(runs.load(part, shard, shards)) for shard in range(shards))
    found = [(rows, sizes) for rows, sizes in parts if len(sizes)]
    if not found:
        return np.zeros(LEVELS, dtype=np.int64)
    textual = any(rows.high is not None for rows, _ in found)
    highs = [np.zeros(len(rows), dtype=np.uint64) if rows.high is None else rows.high for rows, _ in found]
    pairs = Rows(
        np.concatenate([rows.low for rows, _ in found]),
        np.concatenate(highs) if textual else None,
        np.concatenate([rows.cell for rows, _ in found]),
    )
    sizes = np.concatenate([sizes for _, sizes in found])
    person = dense_rank(pairs)[0]
    together = np.argsort(person, kind="stable")
    pairs, sizes = pairs.where(together), sizes[together]
    priority = key.hash(pairs.low, 0 if pairs.high is None else pairs.high, pairs.cell, 0)
    chosen = sizes[smallest(person[together], priority, steps_per_user)]
    levels = np.minimum(np.ceil(np.log2(chosen)).astype(np.int64), LEVELS - 1)
    return np.bincount(levels, minlength=LEVELS).astype(np.int64)


def _pairs(rows: Rows) -> tuple[Rows, Integers]:
    """Each person and step once, with how many rows they have."""
    if not len(rows):
        return rows, np.zeros(0, dtype=np.int64)
    ranked = rank_rows(rows)
    fresh = np.ones(len(ranked.packed), dtype=np.bool_)
    np.not_equal(ranked.packed[1:], ranked.packed[:-1], out=fresh[1:])
    firsts = np.flatnonzero(fresh)
    low, high = ranked.identity(ranked.person()[firsts])
    identity_high = None if isinstance(high, int) else high
    return Rows(low, identity_high, ranked.cell()[firsts]), np.diff(firsts, append=len(ranked.packed))
