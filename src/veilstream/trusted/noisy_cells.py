"""The filled and the empty cells of a sparse domain whose noisy counts reach a level."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.opening import open_records
from veilstream.trusted.records import SealedRecords, cell_keys, sorted_runs
from veilstream.values.boxes import cells_of

Integers = NDArray[np.int64]

LISTED_OUTRIGHT = 1 << 16
"""Domains up to this size get noise cell by cell."""


@runtime_checkable
class TailNoise(Protocol):
    """What drawing for the cells of a large domain needs of a sampler."""

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> Integers: ...
    def reaching(self, scale: Fraction, level: int, trials: int) -> int: ...
    def below(self, bound: int, count: int) -> Integers: ...


def noisy_cells(records: SealedRecords, level: int, scale: Fraction, noise: TailNoise) -> tuple[Integers, Integers]:
    """All cells of the domain whose count plus discrete Laplace noise of ``scale`` is at least ``level`` ≥ 1, in order.

    This is to be the law of: add independent noise to the count of *every* cell, empty ones included, and list the
    cells that reach the level. Being a function of the noisy histogram it costs what the histogram does: one unit
    moves the counts by l1, so that scale = l1/ε gives ε.

    * Filled cells get their noise one by one.
    * Suppose every cell of the domain, filled or not, also gets a second, independent noise Z, and call the cells
      with Z ≥ level the marked ones. Dropping the filled cells among them leaves each empty cell marked independently
      with P(Z ≥ level), as wanted. The number of marked cells is binomial over the public number of cells, given
      the number they are a uniform set of that size (drawn cell by cell, repeats dropped), and given that Z reaches
      the level its excess is geometric, P(Z − level = y) ∝ e^{−y/scale}: the law of X if X ≥ 0, else of −1 − X, for a
      discrete Laplace X.
    * The list is put in the order of the cells; in the order of making, filled cells would come first.

    Every draw is exact, so nothing is lost against adding noise to the whole histogram. The time taken depends on the
    number of filled cells, as with any method that reads the records.
    """
    cells, counts = open_records(records)
    size = cells_of(records.shape)
    if size <= LISTED_OUTRIGHT:
        values = noise.laplace(scale, size)
        values[np.ravel_multi_index(tuple(cells.T), records.shape)] += counts
        reached = np.flatnonzero(values >= level)
        return np.stack(np.unravel_index(reached, records.shape), axis=1).astype(np.int64), values[reached]
    noisy = counts + noise.laplace(scale, counts.size)
    kept = noisy >= level
    marked = _distinct_cells(noise.reaching(scale, level, size), records.shape, noise)
    empty = _not_among(marked, cells, records.shape)
    excess = noise.laplace(scale, len(empty))
    listed = np.concatenate([cells[kept], empty])
    values = np.concatenate([noisy[kept], level + (excess ^ (excess >> 63))])
    order, _ = sorted_runs(cell_keys(listed, records.shape))
    return listed[order], values[order]


def _distinct_cells(count: int, shape: tuple[int, ...], noise: TailNoise) -> Integers:
    """A uniform set of ``count`` cells."""
    found = np.empty((0, len(shape)), dtype=np.int64)
    while len(found) < count:
        drawn = np.stack([noise.below(length, count - len(found)) for length in shape], axis=1)
        together = np.concatenate([found, drawn])
        order, new = sorted_runs(cell_keys(together, shape))
        found = together[np.sort(order[new])]
    return found


def _not_among(cells: Integers, others: Integers, shape: tuple[int, ...]) -> Integers:
    """Those of the distinct ``cells`` that are not in ``others``."""
    order, new = sorted_runs(cell_keys(np.concatenate([others, cells]), shape))
    first = np.sort(order[new])
    return cells[first[first >= len(others)] - len(others)]
