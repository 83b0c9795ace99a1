"""Which rows count where people count in few steps, decided from all rows of some people at once.

The same rule as ``PresenceHistory``, for engines that hold a person's rows of all steps together and no history.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilstream.data.bounding.choice import Rows


@dataclass(frozen=True, slots=True)
class PresenceLimit:
    """A person counts at a step iff they came in fewer than ``most`` steps from ``since`` that step on, before it."""

    most: int
    since: tuple[int, ...]
    """For each step the first one that the rule looks back at."""


def rows_that_count(rows: Rows, bins: int, limit: PresenceLimit) -> Rows:
    """The rows of people who count at their step; ``rows`` are all that those people have.

    >>> rows = Rows(np.array([7, 7, 7]), None, np.array([0, 1, 4]))
    >>> rows_that_count(rows, 1, PresenceLimit(1, tuple(step - 2 for step in range(5)))).cell
    array([0, 4])
    """
    if not len(rows):
        return rows
    step = (rows.cell // bins).astype(np.int64)
    high = np.zeros(len(rows), dtype=np.uint64) if rows.high is None else rows.high
    order = np.lexsort((step, high, rows.low))
    low, high, step = rows.low[order], high[order], step[order]
    new_person = np.ones(len(order), dtype=np.bool_)
    new_person[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    new_visit = new_person.copy()
    new_visit[1:] |= step[1:] != step[:-1]
    # Visits, one for each person and step, in order.
    visit = np.cumsum(new_visit) - 1
    visit_step, starts = step[new_visit], new_person[new_visit]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(starts)), 0))
    earlier = np.arange(len(starts)) - limit.most
    since = np.asarray(limit.since, dtype=np.int64)[visit_step]
    counts = (earlier < first) | (visit_step[np.maximum(earlier, 0)] < since)
    kept = np.zeros(len(order), dtype=np.bool_)
    kept[order] = counts[visit]
    return rows.where(kept)
