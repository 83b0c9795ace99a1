"""Quantiles and numbers of rows with intervals, from the released parts of columns that are counted in cells.

The numbers of rows in the cells are the least-squares solution of the released parts. Their running sums, made monotone
by the mean of the largest before and the smallest after (the best monotone fit for the largest deviation), say where a
share q of the rows lies below; in a cell rows are taken to be spread evenly. Quantiles of rising shares never fall.

For the true numbers C_i of rows up to cell i, a q-quantile in cell k has C_k − q·n ≥ 0 and C_(k−1) − q·n < 0. Both are
linear in the parts, with noise of a known law. The interval reaches from the first cell whose estimate of the
former is not below −width to the last one whose estimate of the latter is not above width, each of which misses with
half the probability that the level leaves: it covers at its level whatever the values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.cells import CellColumn
from veilstream.values.values import NoiseLaw
from veilstream.values.weighted import half_width_of_sum, width_of_many

Reals = NDArray[np.float64]
Ends = tuple[Reals, Reals, Reals]
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class CellEstimates:
    """What the released parts of a column, rows × parts with their standard deviations, say of it."""

    column: CellColumn
    numbers: Reals
    std: Reals
    law: NoiseLaw
    level: float

    def count(self) -> Ends:
        """The number of rows."""
        weights = _solution(self.column.cells, self.column.group).sum(axis=0)
        value = self.numbers @ weights
        width = self._widths(weights[None])[:, 0]
        return value, value - width, value + width

    def quantiles(self, shares: Sequence[float]) -> list[Ends]:
        """Value and interval of each share, which rise: NaN and the whole range where there may be no rows."""
        edges = np.array([float(edge) for edge in self.column.edges])
        if np.isnan(self.std).any():
            return self._chosen(shares, edges)
        rows, bottom, _ = self.count()
        known = bottom > 0
        cells = self.numbers @ _solution(self.column.cells, self.column.group).T
        running = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(cells, axis=1)], axis=1)
        monotone = np.maximum.accumulate(running, axis=1)
        monotone += np.minimum.accumulate(running[:, ::-1], axis=1)[:, ::-1]
        monotone = np.clip(monotone / 2, 0.0, np.maximum(rows, 0.0)[:, None])
        found: list[Ends] = []
        for share in shares:
            value = crossing(monotone, share * rows, edges)
            low, high = self._interval(share, running, rows, edges)
            found.append(
                (
                    np.where(known, value, np.nan),
                    np.where(known, np.minimum(low, value), edges[0]),
                    np.where(known, np.maximum(high, value), edges[-1]),
                )
            )
        # A wider interval covers as well, and ends that rise with the share are what a reader expects.
        for index in range(len(found) - 2, -1, -1):
            value, low, high = found[index]
            found[index] = value, np.minimum(low, found[index + 1][1]), high
        for index in range(1, len(found)):
            value, low, high = found[index]
            found[index] = value, low, np.maximum(high, found[index - 1][2])
        return found

    def _chosen(self, shares: Sequence[float], edges: Reals) -> list[Ends]:
        """Of shares that were chosen (``QuantileCuts``), of which no interval is known but the whole range."""
        running = np.concatenate([np.zeros((len(self.numbers), 1)), np.cumsum(self.numbers, axis=1)], axis=1)
        # Shares are sums of binary fractions: what is reached up to rounding is reached.
        values = [crossing(running, np.full(len(running), share - ROUNDING), edges) for share in shares]
        return [(value, np.full_like(value, edges[0]), np.full_like(value, edges[-1])) for value in values]

    def _interval(self, share: float, running: Reals, rows: Reals, edges: Reals) -> tuple[Reals, Reals]:
        over = running - share * rows[:, None]
        width = self._widths(_cuts(self.column.cells, self.column.group, share))
        reached = over[:, 1:] >= -width[:, 1:]
        first = np.where(reached.any(axis=1), reached.argmax(axis=1), self.column.cells - 1)
        below = over[:, :-1] <= width[:, :-1]
        last = np.where(below.any(axis=1), self.column.cells - 1 - below[:, ::-1].argmax(axis=1), 0)
        return edges[first], edges[last + 1]

    def _widths(self, weights: Reals) -> Reals:
        """Half the width of each weighted sum of the parts' noises (rows × sums)."""
        single = self.std[:, :1]
        if self.law in (NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN) and bool((self.std == single).all()):
            return single * _unit_widths(weights.tobytes(), weights.shape, self.law, self.level)
        widths = [half_width_of_sum(one[None], self.std, self.law, self.level) for one in weights]
        return np.stack(widths, axis=1)


def crossing(running: Reals, wanted: Reals, edges: Reals) -> Reals:
    """Where a rising line through (edge, running) first reaches ``wanted``."""
    cell = np.clip((running < wanted[:, None]).sum(axis=1) - 1, 0, len(edges) - 2)
    row = np.arange(len(running))
    before, after = running[row, cell], running[row, cell + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(after > before, (wanted - before) / (after - before), 0.0)
    return np.asarray(edges[cell] + np.clip(part, 0.0, 1.0) * (edges[cell + 1] - edges[cell]))


@lru_cache(maxsize=16)
def _solution(cells: int, group: int) -> Reals:
    """The matrix of least squares from parts to numbers of rows in cells."""
    if group == 1:
        return np.eye(cells)
    strategy = CellColumn("", tuple(map(Fraction, range(cells + 1))), group).strategy()
    return np.linalg.solve(strategy.T @ strategy, strategy.T).astype(np.float64)


def cut_weights(column: CellColumn) -> Reals:
    """For each cut, before the first cell and after each, the weights of the parts in the number of rows below it."""
    return _cuts(column.cells, column.group, 0.0)


@lru_cache(maxsize=64)
def _cuts(cells: int, group: int, share: float) -> Reals:
    """For each cut, before the first cell and after each, the weights of the parts in C_i − share·n."""
    solution = _solution(cells, group)
    running = np.concatenate([np.zeros((1, solution.shape[1])), np.cumsum(solution, axis=0)])
    return np.asarray(running - share * solution.sum(axis=0))


@lru_cache(maxsize=64)
def _unit_widths(weights: bytes, shape: tuple[int, int], law: NoiseLaw, level: float) -> Reals:
    return width_of_many(np.frombuffer(weights).reshape(shape), law, level)
