"""A release on a domain too large to list: boxes with noisy values, from which range queries are answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidDomain, InvalidInput

MAX_DENSE_CELLS = 10**7
SPARSE_METHODS = "psd, fp"
"""Names in ``HISTOGRAMS`` of the methods that never list the cells of a domain."""


def cells_of(shape: tuple[int, ...]) -> int:
    """The number of cells of a domain, exact however large."""
    return math.prod(shape)


def require_dense(shape: tuple[int, ...]) -> None:
    """Refuse to list the cells of a domain that is too large for it, or that has none."""
    if cells_of(shape) < 1:
        raise InvalidDomain(f"domain {shape}: it has no cells; nothing was released")
    if cells_of(shape) > MAX_DENSE_CELLS:
        raise InvalidDomain(
            f"domain {'x'.join(map(str, shape))} of {cells_of(shape):.3g} cells: a dense histogram has at most "
            f"{MAX_DENSE_CELLS}; {SPARSE_METHODS} take such data with estimate_records; nothing was released"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Noisy, hence public, values of boxes ``low ≤ cell < high`` of a grid; cells in no box count 0.

    Each value is spread evenly over the cells of its box, and where boxes overlap their values add. ``std`` is the
    standard deviation of each value's noise; it says nothing of how uneven the data are inside a box.

    >>> boxes = Boxes((10, 10), np.array([[0, 0], [5, 0]]), np.array([[5, 10], [10, 10]]), np.array([50.0, 10.0]))
    >>> boxes.count([0, 0], [10, 5]), boxes.count([[0, 0], [6, 0]], [[1, 10], [7, 10]])
    (30.0, array([10.,  2.]))
    >>> boxes.total
    60.0
    """

    shape: tuple[int, ...]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    values: NDArray[np.float64]
    std: NDArray[np.float64] | float = 0.0

    def __post_init__(self) -> None:
        expected = (self.values.size, len(self.shape))
        if self.low.shape != expected or self.high.shape != expected:
            raise InvalidInput(
                f"{self.values.size} boxes with corners of shapes {self.low.shape} and {self.high.shape}: "
                f"{expected} is needed; no boxes were made"
            )
        if bool((self.low < 0).any() or (self.high <= self.low).any() or (self.high > np.array(self.shape)).any()):
            raise InvalidInput(f"boxes: one is empty or leaves the domain {self.shape}; no boxes were made")

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def total(self) -> float:
        return float(self.values.sum())

    @property
    def volumes(self) -> NDArray[np.float64]:
        """Cells in each box."""
        volumes: NDArray[np.float64] = np.prod((self.high - self.low).astype(np.float64), axis=1)
        return volumes

    def count(self, low: Any, high: Any) -> Any:
        """Noisy counts of the ranges ``low ≤ cell < high``: one range, or one per row."""
        lows, highs = np.asarray(low), np.asarray(high)
        if lows.shape != highs.shape or lows.ndim not in {1, 2} or lows.shape[-1] != len(self.shape):
            raise InvalidInput(
                f"ranges of shapes {lows.shape} and {highs.shape} on a domain of {len(self.shape)} attributes: "
                "one low and one high end for each are needed; nothing was counted"
            )
        if lows.ndim == 1:
            return self._count(lows, highs)
        return np.array([self._count(a, b) for a, b in zip(lows, highs, strict=True)], dtype=np.float64)

    def _count(self, low: NDArray[Any], high: NDArray[Any]) -> float:
        share = np.ones(self.size)
        for axis in range(len(self.shape)):
            a, b = self.low[:, axis], self.high[:, axis]
            share *= np.maximum(np.minimum(b, high[axis]) - np.maximum(a, low[axis]), 0) / (b - a)
        return float(share @ self.values)

    def dense(self) -> NDArray[np.float64]:
        """One number per cell, in the shape of the domain, where that can be listed."""
        require_dense(self.shape)
        grid = np.zeros(self.shape)
        for low, high, density in zip(self.low, self.high, self.values / self.volumes, strict=True):
            grid[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] += density
        return grid
