"""DPCube: a partition into even boxes found on noisy cells, whose counts are then measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._trees import coordinates_of, sums_by
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.boxes import require_dense
from veilstream.values.values import Values

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_HEIGHT = 64
KURTOSIS_EXCESS = 5.0
"""E X⁴/σ⁴ − 1 of the Laplace law: the variance of a squared noise is 5σ⁴."""
SIGMAS = 4.0
"""An even box is cut further by mistake with the probability of a deviation of so many standard deviations."""


@dataclass(frozen=True, slots=True)
class DPCube:
    """Adds noise to all cells, divides the domain where the noisy cells are uneven, and measures the boxes anew.

    *First phase*, ``cell_share`` of ε: every cell with noise of variance σ₁². *Partition*, from the noisy cells alone
    and so at no cost: a box of m cells is cut where this lowers the squared deviations from the means most, as long as
    it looks uneven, i.e. its variance passes σ₁²(1 + 4√(5/m)) or the best cut lowers the squares by more than
    2σ₁² ln(number of cells). *Second phase*, the rest of ε: the boxes' counts, one vector which a unit moves by l1. A
    box's count is the average of both phases with weights inverse to the variances, m·σ₁² and σ₂², and is spread
    evenly over an even box; in a box that is still uneven at ``height`` each cell keeps its own noisy count, shifted so
    that the sum is right.

    O(height · cells) in time, memory for a few copies of the histogram; it has to list the cells, so ``PSD`` and
    ``FilterPriority`` are for domains that cannot be listed.

    >>> import numpy as np, veilstream as vs
    >>> counts = np.repeat([[0, 500, 20, 0]], 256, axis=1)
    >>> y = vs.simulate(vs.STREAMS["sample"](DPCube()), vs.Guarantee("0.1", w=1), counts, seed=1)
    >>> bool(abs(y[0] - counts[0]).mean() < 3)
    True

    Xiao, Xiong, Fan, Goryczka, Li: DPCube: differentially private histogram release through multidimensional
    partitioning, Transactions on Data Privacy 7, 2014; read in its abstract (noisy cells, then a kd-tree on them for a
    histogram of least variance, then the boxes) and in two re-implementations by others, not in full: DPBench's, and
    that of the workshop version of 2010 by the authors of PSD.

    Checked: the published cost ε₁ + ε₂ is right, because the partition is made from the first phase's output. This
    package's own: where to cut, when to stop and the average. Of the re-implementations one cuts at medians of the
    noisy counts until the cells deviate from their mean by less than a number that the user must find, the other at the
    best place as long as that gains 1/ε₂; both publish the second phase alone. Here the best cut is taken and the
    limits follow from the law of the noise, which is public. Cutting at medians of noisy counts in a sparse table
    cuts in the middle, since the noise of the empty cells outweighs the data.
    """

    cell_share: Fraction = Fraction(1, 2)
    height: int = 16
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.cell_share < 1:
            raise InvalidInputError(name="cell_share", value=self.cell_share, limit="strictly between 0 and 1")
        if type(self.height) is not int or not 0 <= self.height <= MAX_HEIGHT:
            raise InvalidInputError(name="height", value=self.height, limit=f"a whole number from 0 to {MAX_HEIGHT}")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        require_dense(x.shape)
        first = meter.laplace(x, epsilon * self.cell_share, "cells")
        cells, spread = first.numbers.astype(np.float64), float(np.max(first.std)) ** 2
        labels, evenness = meter.branch(_boxes_of_cells(cells, x.shape, spread, self.height))
        even = np.zeros(1 + int(labels.max()), dtype=np.bool_)
        even[labels] = evenness
        second = meter.laplace(x.sums(labels, even.size), epsilon - epsilon * self.cell_share, "boxes")
        sizes = np.bincount(labels, minlength=even.size).astype(np.float64)
        known = sums_by(labels, cells, even.size)
        by_cells, by_box = sizes * spread, float(np.max(second.std)) ** 2
        total_spread = by_cells + by_box
        weight = np.divide(by_cells, total_spread, out=np.full(even.size, 0.5), where=total_spread > 0)
        boxes = known + weight * (second.numbers - known)
        variance = weight * by_box
        flat, shifted = boxes / sizes, (boxes - known) / sizes
        numbers = np.where(even[labels], flat[..., labels], cells + shifted[..., labels])
        cells_kept = np.where(even, variance / sizes**2, spread - (by_cells - variance) / sizes**2)
        return Values(numbers, np.sqrt(np.maximum(cells_kept, 0.0))[labels])


def partition(cells: Floats, spread: float, height: int) -> tuple[Integers, Flags]:
    """Labels of the boxes into which public noisy ``cells`` divide, and which boxes look even.

    >>> table = np.zeros((4, 4))
    >>> table[1:3, 2:] = 10
    >>> labels, even = partition(table, spread=0.01, height=8)
    >>> int(even.sum()) == even.size, float(max(np.ptp(table.ravel()[labels == i]) for i in range(even.size)))
    (True, 0.0)
    """
    return _partitions(cells.reshape(1, -1), cells.shape, spread, height)


def _boxes_of_cells(cells: Floats, shape: tuple[int, ...], spread: float, height: int) -> Integers:
    """The label of every cell's box, and whether that is even; of many runs, one after the other."""
    tables = cells.reshape(-1, math.prod(shape))
    labels, even = _partitions(tables, shape, spread, height)
    evenness = even[labels].astype(np.int64)
    if cells.ndim == 1:
        return np.stack([labels, evenness])
    # Boxes of all tables were numbered together, those of each in the order in which it alone would have them.
    boxes, first, label = np.unique(labels, return_index=True, return_inverse=True)
    table = first // tables.shape[1]
    order = np.lexsort((boxes, table))
    rank = np.empty(boxes.size, dtype=np.int64)
    rank[order] = np.arange(boxes.size) - np.searchsorted(table[order], table[order])
    return np.stack([rank[label].reshape(tables.shape), evenness.reshape(tables.shape)], axis=1)


def _partitions(tables: Floats, shape: tuple[int, ...], spread: float, height: int) -> tuple[Integers, Flags]:
    """``partition`` of every row of ``tables``, whose cells lie in ``shape``: rows are boxes that are apart already."""
    rows, cells = len(tables), math.prod(shape)
    values = tables.reshape(-1)
    coordinates = np.tile(coordinates_of(shape), rows)
    labels = np.repeat(np.arange(rows), cells)
    low = np.zeros((rows, len(shape)), dtype=np.int64)
    high = np.tile(np.array([shape], dtype=np.int64), (rows, 1))
    open_boxes, active = np.arange(rows), np.arange(values.size)
    even = np.ones(rows, dtype=np.bool_)
    improvement = 2 * spread * math.log(max(cells, 2))
    for depth in range(height + 1):
        number = np.zeros(even.size, dtype=np.int64)
        number[open_boxes] = np.arange(open_boxes.size)
        local = number[labels[active]]
        cuts = _best_cuts(values[active], coordinates[:, active], local, low[open_boxes], high[open_boxes])
        rough = _uneven(values[active], local, open_boxes.size, spread) | (cuts.gain > improvement)
        rough &= cuts.gain > -np.inf
        even[open_boxes] = ~rough
        if depth == height or not rough.any():
            break
        parents = open_boxes[rough]
        axis, cut = cuts.axis[rough], cuts.cut[rough]
        fresh = even.size + np.arange(parents.size)
        order = np.cumsum(rough) - 1
        going_on = np.flatnonzero(rough[local])
        active, local = active[going_on], order[local[going_on]]
        above = coordinates[axis[local], active] >= cut[local]
        labels[active[above]] = fresh[local[above]]
        low, high = np.concatenate([low, low[parents]]), np.concatenate([high, high[parents]])
        low[fresh, axis] = cut
        high[parents, axis] = cut
        even = np.concatenate([even, np.ones(parents.size, dtype=np.bool_)])
        open_boxes = np.concatenate([parents, fresh])
    return labels, even


@dataclass(frozen=True, slots=True, eq=False)
class _Best:
    """The best cut of each box: how much it lowers the squared deviations; −∞ where there is none."""

    gain: Floats
    axis: Integers
    cut: Integers


def _best_cuts(values: Floats, coordinates: Integers, local: Integers, low: Integers, high: Integers) -> _Best:
    """With sum S and size m of the box and S_l, m_l = s·m below the cut, it lowers the squares by
    S_l²/m_l + S_r²/m_r − S²/m = (S_l − s·S)²/(s(1 − s)m)."""
    boxes = len(low)
    gain, axis = np.full(boxes, -np.inf), np.zeros(boxes, dtype=np.int64)
    cut = np.zeros(boxes, dtype=np.int64)
    for candidate in range(low.shape[1]):
        widths = high[:, candidate] - low[:, candidate]
        wide = np.flatnonzero(widths > 1)
        if wide.size == 0:
            continue
        end = np.cumsum(widths)
        begin = end - widths
        position = (begin - low[:, candidate])[local] + coordinates[candidate]
        running = np.concatenate([[0.0], np.cumsum(sums_by(position, values, int(end[-1])))])
        total = running[end] - running[begin]
        thickness = np.bincount(local, minlength=boxes) / widths
        # At the last slab of a box nothing is left above: its 0/0 becomes -1, below every true gain.
        owner = np.repeat(np.arange(boxes), widths)
        left = running[1:] - running[begin][owner]
        share = (np.arange(1, running.size) - begin[owner]) / widths[owner]
        rest = share * (1 - share) * widths[owner] * thickness[owner]
        lowered = np.divide((left - share * total[owner]) ** 2, rest, out=np.full(rest.size, -1.0), where=share < 1)
        best = np.maximum.reduceat(lowered, begin)
        winners = np.flatnonzero(lowered == best[owner])[::-1]
        where = np.zeros(boxes, dtype=np.int64)
        where[owner[winners]] = winners + 1
        better = np.zeros(boxes, dtype=np.bool_)
        better[wide] = best[wide] > gain[wide]
        gain = np.where(better, best, gain)
        axis[better] = candidate
        cut = np.where(better, where - begin + low[:, candidate], cut)
    return _Best(gain, axis, cut)


def _uneven(values: Floats, local: Integers, boxes: int, spread: float) -> Flags:
    """Boxes whose cells vary more than noise of variance ``spread`` does, allowing for chance."""
    sizes = np.bincount(local, minlength=boxes)
    squares = sums_by(local, (values - (sums_by(local, values, boxes) / sizes)[local]) ** 2, boxes)
    return squares > spread * (sizes - 1) * (1 + SIGMAS * np.sqrt(KURTOSIS_EXCESS / sizes))
