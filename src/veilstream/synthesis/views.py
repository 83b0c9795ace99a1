"""Sets of attributes, a few, that hold every pair: where attributes are small, their tables say all of all pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

from veilstream.synthesis.junction import Scope

DOUBLINGS: Final = 8
"""Sizes of tables that are tried: the largest pair's, twice that, and so on."""


def covering(sizes: Sequence[int], most: int) -> list[Scope]:
    """Sets of attributes with at most ``most`` cells (or two attributes) that hold every pair, found greedily.

    >>> covering([2, 2, 2, 2], 8)
    [(0, 1, 2), (0, 1, 3), (2, 3)]
    """
    missing: set[Scope] = set(itertools.combinations(range(len(sizes)), 2))
    views: list[Scope] = []
    while missing:
        view: list[int] = list(min(missing, key=lambda pair: (-math.prod(sizes[axis] for axis in pair), pair)))
        while True:
            cells = math.prod(sizes[axis] for axis in view)
            gains = {
                axis: sum(tuple(sorted((axis, other))) in missing for other in view)
                for axis in range(len(sizes))
                if axis not in view and cells * sizes[axis] <= most
            }
            best = max(gains, key=lambda axis: (gains[axis], -axis), default=None)
            if best is None or gains[best] == 0:
                break
            view.append(best)
        views.append(tuple(sorted(view)))
        missing -= set(itertools.combinations(views[-1], 2))
    return views


def best_covering(sizes: Sequence[int], noise: Callable[[int], float]) -> tuple[list[Scope], float]:
    """The covering under which the noise of a pair's table is least, and the mean total variation it adds, in rows.

    ``noise`` gives the mean absolute noise of one count when so many tables share the budget. The table of a pair sums
    cells of its view, whose noises add up by their squares.
    """
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    cells = {pair: sizes[pair[0]] * sizes[pair[1]] for pair in pairs}
    found: list[tuple[float, list[Scope]]] = []
    for doubling in range(DOUBLINGS):
        views = covering(sizes, max(cells.values()) << doubling)
        holding = {
            pair: min(math.prod(sizes[axis] for axis in view) for view in views if set(pair) <= set(view))
            for pair in pairs
        }
        total = sum(math.sqrt(cells[pair] * holding[pair]) for pair in pairs) / 2 * noise(len(views))
        found.append((total / len(pairs), views))
    least = min(found, key=lambda each: each[0])
    return least[1], least[0]
