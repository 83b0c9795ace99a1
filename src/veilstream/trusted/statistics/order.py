"""Counts and sums of the small values in any stretch of a vector, many stretches at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]


class RangeOrder:
    """A wavelet matrix over the ranks of a vector: order statistics of stretches in O(log distinct) array steps.

    The ranks are written bit by bit, highest first; level by level the values with bit 0 move stably before those
    with bit 1. A stretch stays a stretch on every level, and running counts and sums tell how many of its
    values, and how much, went to the zeros.

    >>> order = RangeOrder(np.array([4, 0, 9, 4, 1]))
    >>> [part.tolist() for part in order.below(np.array([0, 1]), np.array([4, 5]), np.array([5, 4]))]
    [[3, 2], [8, 1]]
    >>> order.absolute_deviation(np.array([0, 1]), np.array([4, 5])).tolist()
    [9, 12]
    """

    __slots__ = ("_distinct", "_levels", "_prefix")

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._prefix = _running(values)
        self._distinct, ranks = np.unique(values, return_inverse=True)
        bits = max(int(self._distinct.size - 1).bit_length(), 1)
        self._levels: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        current = values
        for bit in reversed(range(bits)):
            zeros = (ranks >> bit) & 1 == 0
            self._levels.append((1 << bit, _running(zeros), _running(np.where(zeros, current, 0))))
            ranks = np.concatenate([ranks[zeros], ranks[~zeros]])
            current = np.concatenate([current[zeros], current[~zeros]])

    def sums(self, first: Positions, after: Positions) -> NDArray[np.int64]:
        """Sum of the values at positions first..after−1, for every pair."""
        return self._prefix[after] - self._prefix[first]

    def below(
        self, first: Positions, after: Positions, limit: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number and sum of the values less than ``limit`` at positions first..after−1."""
        rank = np.searchsorted(self._distinct, limit, side="left")
        everything = rank == self._distinct.size
        count, total = np.zeros_like(first), np.zeros_like(first)
        low, high = first, after
        for bit, zeros, sums in self._levels:
            ones = rank & bit != 0
            low_zeros, high_zeros = zeros[low], zeros[high]
            count += np.where(ones, high_zeros - low_zeros, 0)
            total += np.where(ones, sums[high] - sums[low], 0)
            low = np.where(ones, low - low_zeros + zeros[-1], low_zeros)
            high = np.where(ones, high - high_zeros + zeros[-1], high_zeros)
        return np.where(everything, after - first, count), np.where(everything, self.sums(first, after), total)

    def absolute_deviation(self, first: Positions, after: Positions) -> NDArray[np.int64]:
        """Σ|v − median| over positions first..after−1: the least Σ|v − c| over all c."""
        length = after - first
        wanted = (length - 1) // 2
        rank, count, total = np.zeros_like(first), np.zeros_like(first), np.zeros_like(first)
        low, high = first, after
        for bit, zeros, sums in self._levels:
            low_zeros, high_zeros = zeros[low], zeros[high]
            here = high_zeros - low_zeros
            ones = wanted >= here
            wanted = wanted - np.where(ones, here, 0)
            count += np.where(ones, here, 0)
            total += np.where(ones, sums[high] - sums[low], 0)
            rank += np.where(ones, bit, 0)
            low = np.where(ones, low - low_zeros + zeros[-1], low_zeros)
            high = np.where(ones, high - high_zeros + zeros[-1], high_zeros)
        median = self._distinct[np.minimum(rank, self._distinct.size - 1)]
        return self.sums(first, after) - 2 * total + median * (2 * count - length)


def _running(values: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    running = np.zeros(values.size + 1, dtype=np.int64)
    np.cumsum(values, out=running[1:])
    return running
