"""Sets of attributes, a few, that hold every pair: where attributes are small, their tables say all of all pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from veilstream.synthesis.junction import Scope

DOUBLINGS: Final = 8
"""Sizes of tables that are tried: the largest pair's, twice that, and so on."""


def covering(sizes: Sequence[int], most: int) -> list[Scope]:
    """Sets of attributes with at most ``most`` cells (or two attributes) that hold every pair, found greedily.

    >>> covering([2, 2, 2, 2], 8)
    [(0, 1, 2), (0, 1, 3), (2, 3)]
    """
    count = len(sizes)
    of_pairs = np.outer(sizes, sizes)
    missing = ~np.eye(count, dtype=bool)
    widths = np.asarray(sizes, dtype=np.int64)
    views: list[Scope] = []
    while missing.any():
        # The largest pair that is missing, the first of several.
        first, second = divmod(int(np.argmax(np.where(missing, of_pairs, 0))), count)
        view, cells = [first, second], int(of_pairs[first, second])
        gains = missing[first].astype(np.int64) + missing[second]
        while True:
            gains[view] = 0
            allowed = np.where(cells * widths <= most, gains, 0)
            best = int(np.argmax(allowed))
            if allowed[best] == 0:
                break
            view.append(best)
            cells *= sizes[best]
            gains += missing[best]
        views.append(tuple(sorted(view)))
        missing[np.ix_(view, view)] = False
    return views


def spread_of(sizes: Sequence[int], views: Sequence[Scope]) -> float:
    """What one unit of noise in every count of these tables adds to the table of a pair, as total variation in rows.

    The table of a pair sums cells of the smallest view that holds it, whose noises add up by their squares; the mean
    over all pairs.

    >>> spread_of([2, 2, 2], [(0, 1, 2)]), spread_of([2, 2], [(0, 1)])
    (2.8284271247461903, 2.0)
    """
    pairs = np.triu_indices(len(sizes), 1)
    held = np.full((len(sizes), len(sizes)), np.inf)
    for view in views:
        inside = np.ix_(view, view)
        held[inside] = np.minimum(held[inside], math.prod(sizes[axis] for axis in view))
    return float(np.sqrt(np.outer(sizes, sizes)[pairs] * held[pairs]).mean()) / 2


@lru_cache(maxsize=256)
def coverings(sizes: tuple[int, ...]) -> tuple[tuple[tuple[Scope, ...], float], ...]:
    """Coverings by tables of several sizes, with the spread of each."""
    largest = math.prod(sorted(sizes)[-2:])
    found = {tuple(covering(sizes, largest << doubling)) for doubling in range(DOUBLINGS)}
    return tuple((views, spread_of(sizes, views)) for views in sorted(found, key=len))


def best_covering(sizes: Sequence[int], noise: Callable[[int], float]) -> tuple[list[Scope], float]:
    """The covering under which the noise of a pair's table is least, and the mean total variation it adds, in rows.

    ``noise`` gives the mean absolute noise of one count when so many tables share the budget.
    """
    options = [(spread * noise(len(views)), views) for views, spread in coverings(tuple(sizes))]
    least = min(options, key=lambda each: each[0])
    return list(least[1]), least[0]


def holds_every_pair(scopes: Sequence[Scope], attributes: int) -> bool:
    """Whether every two of so many attributes are in one of the sets together.

    >>> holds_every_pair([(0, 1), (1, 2)], 3), holds_every_pair([(0, 1, 2)], 3)
    (False, True)
    """
    held = {pair for scope in scopes for pair in itertools.combinations(scope, 2)}
    return attributes > 1 and len(held) == math.comb(attributes, 2)
