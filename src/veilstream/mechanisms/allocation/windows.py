"""The sliding windows of a schedule as a linear map, and Newton systems on it that stay banded."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Reals = NDArray[np.float64]

MOST_WORK = 4 * 10**11
"""Operations for one Newton step; a schedule takes about thirty of them."""


class Windows(Protocol):
    """The map A from budgets of the kept steps to the cost of every window that can be the fullest."""

    count: int

    def sums(self, budgets: Reals) -> Reals:
        """A·budgets."""
        ...

    def gather(self, multipliers: Reals) -> Reals:
        """Aᵀ·multipliers: for every step, the multipliers of the windows that hold it."""
        ...

    def solve(self, flexibility: Reals, looseness: Reals, right: Reals) -> Reals:
        """m with (A diag(flexibility) Aᵀ + diag(looseness)) m = right: one number for each window."""
        ...


class DenseWindows:
    """Any windows, as a matrix: few of them, or those of a cycle."""

    def __init__(self, matrix: Reals) -> None:
        self._matrix = matrix
        self.count = int(matrix.shape[0])
        smaller, larger = sorted(matrix.shape)
        _check_work(larger, smaller)

    def sums(self, budgets: Reals) -> Reals:
        return self._matrix @ budgets

    def gather(self, multipliers: Reals) -> Reals:
        return multipliers @ self._matrix

    def solve(self, flexibility: Reals, looseness: Reals, right: Reals) -> Reals:
        # Slow to load, and only schedules need it.
        from scipy.linalg import cho_factor, cho_solve

        system = (self._matrix * flexibility) @ self._matrix.T
        system[np.diag_indices_from(system)] += looseness
        factor = cast(Any, cho_factor)(system, lower=True, overwrite_a=True, check_finite=False)
        return cast(Reals, cast(Any, cho_solve)(factor, right, check_finite=False))


class SlidingWindows:
    """Window k holds the kept steps ``first[k]..last[k]−1``; both ends rise with k.

    Entry (k, l) of A diag(g) Aᵀ is the sum of g over the steps that both windows hold, so the system is a band as wide
    as the most windows that meet one another. Tight windows make it no worse: their looseness only goes to zero.
    """

    def __init__(self, first: NDArray[np.int64], last: NDArray[np.int64], steps: int) -> None:
        self._first, self._last, self._steps = first, last, steps
        self.count = first.size
        met = np.searchsorted(first, last) - np.arange(first.size)
        self._band = int(met.max())
        _check_work(self.count, self._band)

    def sums(self, budgets: Reals) -> Reals:
        running = np.concatenate([[0.0], np.cumsum(budgets)])
        sums: Reals = running[self._last] - running[self._first]
        return sums

    def gather(self, multipliers: Reals) -> Reals:
        edges = np.zeros(self._steps + 1)
        edges[self._first] += multipliers
        edges[self._last] -= multipliers
        return np.cumsum(edges)[:-1]

    def solve(self, flexibility: Reals, looseness: Reals, right: Reals) -> Reals:
        from scipy.linalg import solveh_banded

        running = np.concatenate([[0.0], np.cumsum(flexibility)])
        # Row j of the band holds entries (k + j, k).
        band = np.zeros((self._band, self.count))
        for distance in range(self._band):
            end = self.count - distance
            overlap = running[self._last[:end]] - running[self._first[distance:]]
            band[distance, :end] = np.maximum(overlap, 0)
        band[0] += looseness
        solver = cast(Any, solveh_banded)
        return cast(Reals, solver(band, right, overwrite_ab=True, lower=True, check_finite=False))


def sliding(positions: NDArray[np.int64], steps: int, window: int) -> Windows:
    """The windows of ``window`` successive ones of ``steps`` steps, on the ``kept`` ones alone."""
    starts = np.arange(max(1, steps - window + 1))
    first, last = np.searchsorted(positions, starts), np.searchsorted(positions, starts + window)
    # A window whose kept steps all lie in a neighbour's adds nothing.
    same = np.concatenate([(first[1:] == first[:-1]) & (last[1:] == last[:-1]), [False]])
    first, last = first[~same], last[~same]
    inside_next = np.concatenate([first[1:] == first[:-1], [False]])
    inside_previous = np.concatenate([[False], last[1:] == last[:-1]])
    binding = ~(inside_next | inside_previous) & (last > first)
    first, last = first[binding], last[binding]
    if first.size <= int((last - first).max()):
        inside = np.arange(positions.size)
        matrix = (inside >= first[:, None]) & (inside < last[:, None])
        return DenseWindows(matrix.astype(np.float64))
    return SlidingWindows(first, last, positions.size)


def cyclic(positions: NDArray[np.int64], period: int, window: int) -> Windows:
    """The windows of ``window`` successive steps if ``period`` steps repeat for ever."""
    whole, rest = divmod(window, period)
    offset = (positions[None, :] - np.arange(period if rest else 1)[:, None]) % period
    matrix = whole + (offset < rest).astype(np.float64)
    return DenseWindows(np.unique(matrix, axis=0))


def _check_work(steps: int, width: int) -> None:
    if steps * width**2 > MOST_WORK:
        raise InvalidInputError(
            f"schedule of {steps} steps with {width} windows over each: {steps * width**2:.1e} operations "
            f"a Newton step, the limit is {MOST_WORK:.0e}; plan fewer steps at a time or use online "
            "allocation"
        )
