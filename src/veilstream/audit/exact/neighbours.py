"""People who may be placed in a window: all that one unit can add to or take from a tiny stream."""

from __future__ import annotations

from itertools import product

import numpy as np

from veilstream.audit.exact.dice import Dice
from veilstream.audit.exact.reads import Integers

MOST = 400
"""Beyond so many patterns in one window, as many are drawn."""


def moves(bins: int, max_contribution: int) -> Integers:
    """What one unit can do to the counts of one timestamp: every whole vector of an L1 norm up to the contribution.

    >>> len(moves(2, 1)), len(moves(2, 2)), len(moves(3, 2))
    (5, 13, 25)
    """
    reach = range(-max_contribution, max_contribution + 1)
    every: Integers = np.array(list(product(reach, repeat=bins)), dtype=np.int64)
    return np.asarray(every[np.abs(every).sum(axis=1) <= max_contribution])


def neighbours(steps: int, bins: int, w: int | None, max_contribution: int, dice: Dice) -> Integers:
    """Changes (patterns, timestamps, bins) within any window: all of them, or of each window a sample and extremes.

    One unit comes or goes at every timestamp of the window as it likes: counts may rise at one and fall at another.
    """
    each = moves(bins, max_contribution)
    width = steps if w is None else min(w, steps)
    found: list[Integers] = []
    for first in range(steps - width + 1):
        if len(each) ** width <= MOST:
            chosen = np.array(list(product(range(len(each)), repeat=width)))
        else:
            chosen = np.array([[dice.below(len(each)) for _ in range(width)] for _ in range(MOST)])
        patterns = np.zeros((len(chosen), steps, bins), dtype=np.int64)
        patterns[:, first : first + width] = each[chosen]
        found += [patterns, _extremes(first, width, steps, bins, max_contribution)]
    return np.unique(np.concatenate(found), axis=0)


def _extremes(first: int, width: int, steps: int, bins: int, max_contribution: int) -> Integers:
    """All of the contribution in one bin, the same or the other way round at every timestamp or at one of them."""
    patterns: list[Integers] = []
    for b, sign in product(range(bins), (1, -1)):
        for ways in product((1, 0, -1), repeat=min(width, 3)):
            pattern = np.zeros((steps, bins), dtype=np.int64)
            for offset in range(width):
                pattern[first + offset, b] = sign * max_contribution * ways[offset % len(ways)]
            patterns.append(pattern)
    return np.stack(patterns)
