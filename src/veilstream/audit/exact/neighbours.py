"""People who may be placed in a window: all that one unit can add to or take from a tiny stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from veilstream.audit.exact.dice import Dice
from veilstream.audit.exact.reads import Integers
from veilstream.privacy.guarantee import Guarantee

MOST, MOST_FAR = 400, 6
"""Beyond so many patterns in one set of timestamps, as many are drawn; of long programs fewer."""
MOST_SETS = 12
"""So many sets of timestamps of a long program are tried, those that promise most."""
Zone: TypeAlias = tuple[int, int, int]
"""So many (the third) of the timestamps from the first to the second."""


def moves(bins: int, max_contribution: int) -> Integers:
    """What one unit can do to the counts of one timestamp: every whole vector of an L1 norm up to the contribution.

    >>> len(moves(2, 1)), len(moves(2, 2)), len(moves(3, 2))
    (5, 13, 25)
    """
    reach = range(-max_contribution, max_contribution + 1)
    every: Integers = np.array(list(product(reach, repeat=bins)), dtype=np.int64)
    return np.asarray(every[np.abs(every).sum(axis=1) <= max_contribution])


def fractional_moves(bins: int, max_contribution: int, grid: int) -> Integers:
    """The same in multiples of 2^-grid: whole and half counts, and as near to them as the grid allows.

    >>> len(fractional_moves(1, 1, 9))
    13
    """
    one = 1 << grid
    sizes = {0, 1} | {k * one // 2 + d for k in range(1, 2 * max_contribution + 1) for d in (-1, 0, 1)}
    reach = [sign * size for size in sorted(sizes) for sign in (1, -1)]
    every: Integers = np.unique(np.array(list(product(reach, repeat=bins)), dtype=np.int64), axis=0)
    return np.asarray(every[np.abs(every).sum(axis=1) <= max_contribution * one])


def reachable(guarantee: Guarantee, steps: int) -> list[tuple[int, ...]]:
    """The largest sets of timestamps in which neighbours of a stream of so many steps may differ.

    >>> reachable(Guarantee(1, w=2), 3), reachable(Guarantee(1, w=None, presence=2), 3)
    ([(0, 1), (1, 2)], [(0, 1), (0, 2), (1, 2)])
    """
    found: set[tuple[int, ...]] = set()
    for zones in _placements(guarantee, steps):
        parts = [list(combinations(range(first, last + 1), count)) for first, last, count in zones]
        found |= {tuple(t for part in chosen for t in part) for chosen in product(*parts)}
    return sorted(found - {()})


def dearest(guarantee: Guarantee, steps: int, prices: Sequence[float]) -> list[tuple[int, ...]]:
    """Of the sets of timestamps in which neighbours may differ some for which a unit pays most, a price for each.

    >>> dearest(Guarantee(1, w=None, presence=2), 4, [1, 5, 2, 4])
    [(1, 3)]
    """
    found: set[tuple[int, ...]] = set()
    for zones in _placements(guarantee, steps):
        chosen: set[int] = set()
        for first, last, count in zones:
            inside = sorted(range(first, last + 1), key=lambda t: prices[t], reverse=True)
            chosen.update(inside[:count])
        found.add(tuple(sorted(chosen)))
    return sorted(found - {()}, key=lambda times: sum(prices[t] for t in times), reverse=True)[:MOST_SETS]


def _placements(guarantee: Guarantee, steps: int) -> Iterator[list[Zone]]:
    """Every way in which one unit may lie in a stream of so many steps: a window, or what the rule of presence says."""
    rule = guarantee.rule
    if rule is None:
        width = steps if guarantee.w is None else min(guarantee.w, steps)
        yield from ([(first, first + width - 1, width)] for first in range(steps - width + 1))
        return
    for zones in rule.placements(0, steps - 1):
        inside = [(max(first, 0), min(last, steps - 1), count) for first, last, count in zones]
        yield [(first, last, min(count, max(0, last - first + 1))) for first, last, count in inside]


def neighbours(
    sets: Sequence[tuple[int, ...]],
    steps: int,
    bins: int,
    max_contribution: int,
    dice: Dice,
    grid: int = 0,
    *,
    far: bool = False,
) -> Integers:
    """Changes (patterns, timestamps, bins) within any of ``sets``: all of them, or of each set a sample and extremes.

    One unit comes or goes at every timestamp of the set as it likes: counts may rise at one and fall at another.
    """
    each = fractional_moves(bins, max_contribution, grid) if grid else moves(bins, max_contribution)
    found: list[Integers] = []
    most = MOST_FAR if far else MOST
    for times in sets:
        if len(each) ** len(times) <= most:
            chosen = np.array(list(product(range(len(each)), repeat=len(times))))
        else:
            chosen = np.array([[dice.below(len(each)) for _ in times] for _ in range(most)])
        patterns = np.zeros((len(chosen), steps, bins), dtype=np.int64)
        patterns[:, list(times)] = each[chosen]
        found += [patterns, _extremes(times, steps, bins, max_contribution << grid, 1 if far else 3)]
    return np.unique(np.concatenate(found), axis=0)


def _extremes(times: Sequence[int], steps: int, bins: int, max_contribution: int, period: int) -> Integers:
    """All of the contribution in one bin, the same or the other way round at every timestamp or at some of them."""
    patterns: list[Integers] = []
    for b in range(bins):
        for ways in product((1, 0, -1), repeat=min(len(times), period)):
            pattern = np.zeros((steps, bins), dtype=np.int64)
            for index, t in enumerate(times):
                pattern[t, b] = max_contribution * ways[index % len(ways)]
            patterns.append(pattern)
    return np.stack(patterns)
