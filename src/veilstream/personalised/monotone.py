"""The cheapest ways to cut a line into runs, when longer runs cost more in a monotone way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.int64]
Costs: TypeAlias = NDArray[np.float64]
RunCost: TypeAlias = Callable[[Places, Places], Costs]
"""(starts, ends) -> cost of the runs start..end−1; it takes arrays."""


def cheapest_cuts(cost: RunCost, sizes: Places, most: int, minimum: int) -> list[list[int]]:
    """For k = 1, 2, ... up to ``most``: the cuts [0, ..., len] of the cheapest k runs of total size at least
    ``minimum`` each. The list ends early where no k runs are large enough.

    ``cost`` must obey the quadrangle inequality; then the best last cut for the prefix ``end`` never moves left as
    ``end`` grows. The prefixes are solved middle first: each halving of the ends looks at every candidate about
    once, all of one depth in a single vectorised sweep, O(g log g) per k.

    >>> line = np.array([1.0, 2.0, 10.0, 11.0])
    >>> cheapest_cuts(lambda a, b: line[b - 1] - line[a], np.ones(4, dtype=np.int64), 3, 1)
    [[0, 4], [0, 2, 4], [0, 1, 2, 4]]
    """
    g = sizes.size
    below = np.concatenate([[0], np.cumsum(sizes)])
    # The last index at which a run that ends at ``end`` may begin.
    latest = np.searchsorted(below, below - minimum, side="right") - 1
    ends = np.arange(g + 1, dtype=np.int64)
    row = np.full(g + 1, np.inf)
    reachable = np.flatnonzero(latest >= 0)
    row[reachable] = cost(np.zeros_like(reachable), reachable)
    first = int(reachable[0])
    choices: list[Places] = [np.zeros(g + 1, dtype=np.int64)]
    partitions = [[0, g]]
    for _ in range(1, most):
        possible = ends[(latest >= first) & (ends > first)]
        if possible.size == 0:
            break
        row, choice = _next_row(cost, row, first, latest, possible)
        first = int(possible[0])
        choices.append(choice)
        partitions.append(_walk_back(choices, g))
    return partitions


def _next_row(cost: RunCost, row: Costs, first: int, latest: Places, possible: Places) -> tuple[Costs, Places]:
    """Cheapest cost with one more run for every possible end, and where that run begins."""
    best = np.full(row.size, np.inf)
    choice = np.zeros(row.size, dtype=np.int64)
    left, right = np.array([0]), np.array([possible.size])
    low, high = np.array([first]), np.array([row.size - 1])
    while left.size:
        middle = (left + right) // 2
        end = possible[middle]
        top = np.minimum(high, latest[end])
        lengths = top - low + 1
        offsets = np.cumsum(lengths) - lengths
        start = np.arange(int(lengths.sum())) + np.repeat(low - offsets, lengths)
        total = row[start] + cost(start, np.repeat(end, lengths))
        smallest = np.minimum.reduceat(total, offsets)
        hit = np.flatnonzero(total == np.repeat(smallest, lengths))
        owner = np.searchsorted(offsets, hit, side="right") - 1
        chosen = start[hit[np.searchsorted(owner, np.arange(middle.size))]]
        best[end], choice[end] = smallest, chosen
        left, right, low, high = (
            np.concatenate([left, middle + 1]),
            np.concatenate([middle, right]),
            np.concatenate([low, chosen]),
            np.concatenate([chosen, high]),
        )
        unfinished = left < right
        left, right, low, high = left[unfinished], right[unfinished], low[unfinished], high[unfinished]
    return best, choice


def _walk_back(choices: list[Places], g: int) -> list[int]:
    cuts = [g]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return cuts[::-1]
