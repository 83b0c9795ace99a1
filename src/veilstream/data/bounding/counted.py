"""Runs of numbers: distinct cells in order, and a number for each, as they travel from the engines that count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Integers

Run: TypeAlias = tuple[Integers, Integers]
"""Cells in order, and their numbers."""


def counted(cells: Integers) -> Run:
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


def merged(runs: Iterable[Run]) -> Run:
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


def _summed(ranked: Integers, counts: Integers) -> Run:
    fresh: NDArray[np.bool_] = np.ones(len(ranked), dtype=np.bool_)
    fresh[1:] = ranked[1:] != ranked[:-1]
    firsts = np.flatnonzero(fresh)
    return ranked[firsts], np.add.reduceat(counts, firsts) if len(firsts) else counts
