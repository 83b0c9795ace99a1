"""A release on a domain too large to list: boxes with noisy values, from which range queries are answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidDomainError, InvalidInputError

MAX_DENSE_CELLS = 10**7
FEW_RANGES = 16
SHARES_AT_ONCE = 1 << 22


def cells_of(shape: tuple[int, ...]) -> int:
    """The number of cells of a domain, exact however large."""
    return math.prod(shape)


def require_dense(shape: tuple[int, ...]) -> None:
    """Refuse to list the cells of a domain that is too large for it, or that has none."""
    if cells_of(shape) < 1:
        raise InvalidDomainError(name="domain", value=shape, limit="it has no cells")
    if cells_of(shape) > MAX_DENSE_CELLS:
        raise InvalidDomainError(
            f"domain {'x'.join(map(str, shape))} of {cells_of(shape):.3g} cells: a dense histogram has at "
            f"most {MAX_DENSE_CELLS}",
            next_step="use a method that never lists the cells, marked 'sparse' by 'veilstream mechanisms'",
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
            raise InvalidInputError(
                f"{self.values.size} boxes with corners of shapes {self.low.shape} and {self.high.shape}: "
                f"{expected} is needed"
            )
        if bool((self.low < 0).any() or (self.high <= self.low).any() or (self.high > np.array(self.shape)).any()):
            raise InvalidInputError(f"boxes: one is empty or leaves the domain {self.shape}")

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
            raise InvalidInputError(
                f"ranges of shapes {lows.shape} and {highs.shape} on a domain of {len(self.shape)} "
                "attributes: one low and one high end for each are needed"
            )
        counts = self._counts(np.atleast_2d(lows), np.atleast_2d(highs))
        return float(counts[0]) if lows.ndim == 1 else counts

    def _counts(self, low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
        """Σ value · share, where a box's share of a range is the product of its shares along the axes.

        Boxes of a grid or a tree have few different sides: shares are found once for every different side on the
        first half of the axes and once on the second half, and a sparse matrix of values joins the two. That pays
        from a few ranges on.
        """
        if len(low) < FEW_RANGES:
            return np.asarray(_shares(np.concatenate([self.low, self.high], axis=1), low, high) @ self.values)
        half = (len(self.shape) + 1) // 2
        first, at_first = self._sides(slice(0, half))
        second, at_second = self._sides(slice(half, None))
        # Slow to load, and nothing else needs it.
        from scipy.sparse import csr_array

        values = csr_array((self.values, (at_first, at_second)), shape=(len(first), len(second)))
        counts = np.empty(len(low))
        step = max(1, SHARES_AT_ONCE // max(len(first), len(second), 1))
        for begin in range(0, len(low), step):
            a, b = low[begin : begin + step], high[begin : begin + step]
            left = np.asarray(values.T @ _shares(first, a[:, :half], b[:, :half]).T, dtype=np.float64)
            counts[begin : begin + step] = np.einsum("sq,qs->q", left, _shares(second, a[:, half:], b[:, half:]))
        return counts

    def _sides(self, axes: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The different sides of boxes on some axes (their low ends, then their high ends), and which each box has."""
        corners = np.concatenate([self.low[:, axes], self.high[:, axes]], axis=1)
        if corners.shape[1] == 0:
            return np.zeros((1, 0), dtype=np.int64), np.zeros(self.size, dtype=np.int64)
        different, which = np.unique(corners, axis=0, return_inverse=True)
        return different, which.reshape(-1)

    def dense(self) -> NDArray[np.float64]:
        """One number per cell, in the shape of the domain, where that can be listed."""
        require_dense(self.shape)
        grid = np.zeros(self.shape)
        for low, high, density in zip(self.low, self.high, self.values / self.volumes, strict=True):
            grid[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] += density
        return grid


def _shares(sides: NDArray[np.int64], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """Which share of every side lies in every range: ranges × sides."""
    axes = sides.shape[1] // 2
    shares = np.ones((len(low), len(sides)))
    for axis in range(axes):
        a, b = sides[:, axis], sides[:, axes + axis]
        inside = np.minimum(b, high[:, axis, None]) - np.maximum(a, low[:, axis, None])
        shares *= np.maximum(inside, 0) / (b - a)
    return shares
