"""A grid whose cells are as wide as the records in them and the budget ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.boxes import require_dense
from veilstream.values.values import NoiseLaw, Values

Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
TOTAL_SHARE: Final = Fraction(1, 50)
"""Of the budget, for the number of records."""
UNIFORM_CONSTANT: Final = 10.0
SECOND_CONSTANT: Final = 5.0


@dataclass(frozen=True, slots=True)
class AdaptiveGrid:
    """AG: a coarse grid first, each of whose cells is then divided as its own noisy count asks for.

    ``first`` of ε measures a grid of max(10, √(Nε/10)/4) cells a side. A cell of noisy count n is divided into
    n·(1−first)·ε/5 parts, which the rest of ε measures: cells are disjoint, so one charge pays for all. Both counts of
    a coarse cell are averaged by their variances, and its parts shifted alike to agree.

    >>> import numpy as np
    >>> from veilstream.privacy.accountant import Accountant
    >>> from veilstream.privacy.guarantee import Guarantee
    >>> from veilstream.noise import SecureNoise
    >>> from veilstream.trusted.counts import seal
    >>> counts = np.zeros((64, 64), dtype=np.int64)
    >>> counts[10:20, 30:40] = 50
    >>> meter = Meter(Accountant(Guarantee(1, w=1), 4096), SecureNoise(), 0)
    >>> values = AdaptiveGrid().estimate(seal(counts.reshape(-1), 0, shape=(64, 64)), Fraction(1), meter)
    >>> bool(abs(values.numbers.reshape(64, 64)[8:24, 26:44].sum() - 5000) < 500), meter.left
    (True, Fraction(0, 1))

    Qardaji, Yang, Li: Differentially private grids for geospatial data, ICDE 2013. Their uniform grid (UG), one level
    of (Nε/10)^(1/2) cells a side, led on none of the data it was tried on and is left out.
    """

    first: Fraction = Fraction(1, 2)
    constant: float = SECOND_CONSTANT

    def __post_init__(self) -> None:
        _check_constant(self.constant)
        if not 0 < self.first < 1:
            raise InvalidInputError(name="first", value=self.first, limit="a Fraction between 0 and 1")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        require_dense(x.shape)
        share = epsilon * TOTAL_SHARE
        return self.with_total(x, meter.laplace(x.total(), share, "total"), epsilon - share, meter)

    def with_total(self, x: Sealed, counted: Values, epsilon: Fraction, meter: Meter) -> Values:
        """The histogram for all of ``epsilon``, with the noisy total ``counted`` before."""
        total = max(float(counted.numbers[0]), 1.0)
        first = epsilon * self.first
        second = epsilon - first
        dimensions = len(x.shape)
        side = max(10.0, (total * float(epsilon / x.l1) / UNIFORM_CONSTANT) ** (1 / dimensions) / 4)
        coarse, count = _grid_labels(x.shape, round(side**dimensions))
        above = meter.laplace(x.sums(coarse, count), first, "coarse cells")
        counts = np.asarray(above.numbers, dtype=np.float64)
        wanted = np.maximum(counts, 0.0) * float(second / x.l1) / self.constant
        fine, parent = _divided(x.shape, coarse, count, wanted)
        below = meter.laplace(x.sums(fine, parent.size), second, "fine cells")
        numbers, std = _reconciled(counts, float(np.max(above.std)), below, parent)
        size = np.bincount(fine, minlength=parent.size).astype(np.float64)
        return Values((numbers / size)[fine], (std / size)[fine], NoiseLaw.MIXED)


def _reconciled(counts: Reals, noise: float, below: Values, parent: Integers) -> tuple[Reals, Reals]:
    """Fine counts that add up to the averages of both measurements of their coarse cells, and their noise."""
    parts = np.bincount(parent, minlength=counts.size).astype(np.float64)
    fine, spread = np.asarray(below.numbers, dtype=np.float64), float(np.max(below.std)) ** 2
    sums = np.bincount(parent, weights=fine, minlength=counts.size)
    by_parts, by_cell = parts * spread, max(noise**2, 1e-100)
    weight = by_parts / (by_parts + by_cell)
    excess = weight * (counts - sums) / parts
    variance = spread - (by_parts * weight / parts**2)
    return fine + excess[parent], np.sqrt(np.maximum(variance, 0.0))[parent]


def _grid_labels(shape: tuple[int, ...], cells: int) -> tuple[Integers, int]:
    """Labels of about ``cells`` equal boxes, sides in proportion to the shape's."""
    sides = _sides(np.array([shape], dtype=np.float64), np.array([float(cells)]))[0]
    labels = np.zeros(shape, dtype=np.int64)
    for axis, (size, parts) in enumerate(zip(shape, sides.tolist(), strict=True)):
        along = np.arange(size, dtype=np.int64) * parts // size
        labels = labels * parts + along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return labels.reshape(-1), math.prod(sides.tolist())


def _sides(widths: Reals, cells: Reals) -> Integers:
    """Parts along every axis, at most one per bin: equal shares of the number of cells on a logarithmic scale."""
    left, parts = cells.copy(), np.ones(widths.shape, dtype=np.int64)
    axes = list(np.argsort(widths.mean(axis=0), kind="stable"))
    for number, axis in enumerate(axes):
        wanted = np.rint(left ** (1 / (len(axes) - number)))
        parts[:, axis] = np.clip(wanted, 1, widths[:, axis]).astype(np.int64)
        left = np.maximum(left / parts[:, axis], 1.0)
    return parts


def _divided(shape: tuple[int, ...], coarse: Integers, count: int, wanted: Reals) -> tuple[Integers, Integers]:
    """Labels of fine cells, about ``wanted`` in each coarse one, and the coarse cell of each."""
    coordinates = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
    low = np.full((len(shape), count), np.iinfo(np.int64).max)
    high = np.zeros((len(shape), count), dtype=np.int64)
    for axis, along in enumerate(coordinates):
        np.minimum.at(low[axis], coarse, along)
        np.maximum.at(high[axis], coarse, along + 1)
    widths = (high - low).T.astype(np.float64)
    parts = _sides(widths, np.maximum(wanted, 1.0))
    inside = np.zeros(coarse.size, dtype=np.int64)
    for axis, along in enumerate(coordinates):
        piece = parts[:, axis][coarse]
        inside = inside * piece + (along - low[axis][coarse]) * piece // (high - low)[axis][coarse]
    each = parts.prod(axis=1)
    begin = np.cumsum(each) - each
    return begin[coarse] + inside, np.repeat(np.arange(count), each)


def _check_constant(constant: float) -> None:
    if not 0 < constant < math.inf:
        raise InvalidInputError(name="constant", value=constant, limit="a number above 0")
