"""Random range queries over histograms and tables, answered from running sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import Exact, rational
from veilstream.testing.simulation import SeededSource
from veilstream.values.values import Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Boxes of bins: query q takes the bins low[q, a] ≤ i < high[q, a] along every axis a."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.low.ndim != 2 or self.low.shape != self.high.shape or (self.low >= self.high).any():
            raise InvalidInputError(
                f"ranges of shapes {self.low.shape} and {self.high.shape}: (queries, axes) with low below "
                "high is needed"
            )

    @property
    def volumes(self) -> NDArray[np.int64]:
        """Number of bins in each."""
        return np.asarray((self.high - self.low).prod(axis=1), dtype=np.int64)


def random_ranges(shape: Sequence[int], count: int, seed: int) -> Ranges:
    """``count`` boxes, each uniform among all boxes of the table.

    >>> r = random_ranges([10, 4], 1000, seed=1)
    >>> r.low.shape, int(r.low.min()), r.high.max(axis=0).tolist(), round(float(r.volumes.mean()))
    ((1000, 2), 0, [10, 4], 8)
    """
    first = (_uniform((count, len(shape)), (seed, 0)) * (np.array(shape) + 1)).astype(np.int64)
    second = (_uniform((count, len(shape)), (seed, 1)) * np.array(shape)).astype(np.int64)
    second += second >= first
    return Ranges(np.minimum(first, second), np.maximum(first, second))


def random_ranges_of_volume(shape: Sequence[int], count: int, volume: Exact, seed: int) -> Ranges:
    """``count`` boxes that each cover about the share ``volume`` of the table, of random proportions and places.

    The logarithm of the share is divided among the axes at random; sides are rounded to whole bins, at least one.

    >>> random_ranges_of_volume([1000], 3, "1/10", seed=1).volumes.tolist()
    [100, 100, 100]
    """
    share = rational(volume, "volume")
    if not 0 < share <= 1:
        raise InvalidInputError(name="volume", value=volume, limit="a share above 0 and at most 1 is needed")
    sizes = np.array(shape, dtype=np.int64)
    cuts = np.sort(_uniform((count, len(shape) - 1), (seed, 2)), axis=1)
    exponents = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    sides = np.exp(exponents * math.log(share.numerator / share.denominator)) * sizes
    lengths = np.clip(np.rint(sides), 1, sizes).astype(np.int64)
    low = (_uniform((count, len(shape)), (seed, 3)) * (sizes - lengths + 1)).astype(np.int64)
    return Ranges(low, low + lengths)


class RangeSums:
    """Running sums over a table: every range is answered from its 2^d corners, whatever its size.

    ``values`` is a table of ``shape``, flat or not, or many of them as rows × bins.

    >>> table = np.arange(12)
    >>> ranges = Ranges(np.array([[1, 0]]), np.array([[3, 2]]))
    >>> RangeSums(table, [3, 4]).answer(ranges).tolist()
    [26]
    >>> RangeSums(np.stack([table, 2 * table]), [3, 4]).answer(ranges).tolist()
    [[26], [52]]
    """

    __slots__ = ("_running", "shape")

    def __init__(self, values: Numbers, shape: Sequence[int] | None = None) -> None:
        self.shape = tuple(shape) if shape is not None else values.shape
        bins = math.prod(self.shape)
        rows = values.shape[:1] if values.ndim == 2 and values.shape[1] == bins and values.shape != self.shape else ()
        if values.size != bins * math.prod(rows):
            raise InvalidInputError(f"{values.size} values for a table of shape {self.shape}")
        # Rows lie side by side in memory, so that one addition serves all of them.
        running = np.array(values.reshape(*rows, bins).T, order="C").reshape(*self.shape, *rows)
        for axis, length in enumerate(self.shape):
            if not rows:
                running = np.cumsum(running, axis=axis)
                continue
            slices = np.moveaxis(running, axis, 0)
            for number in range(1, length):
                slices[number] += slices[number - 1]
        self._running = running.reshape(bins, *rows)

    def answer(self, ranges: Ranges) -> Numbers:
        """The sum of the bins in every range, for rows of tables rows × ranges."""
        axes = len(self.shape)
        if ranges.low.shape[1] != axes or ranges.low.min() < 0 or (ranges.high > np.array(self.shape)).any():
            raise InvalidInputError(f"ranges over {ranges.low.shape[1]} axes do not fit {self.shape}")
        total: Any = np.zeros((len(ranges.low), *self._running.shape[1:]), dtype=self._running.dtype)
        for corner in itertools.product((False, True), repeat=axes):
            at = np.where(np.array(corner), ranges.high, ranges.low) - 1
            # A corner on the border has nothing before it.
            inside = np.flatnonzero((at >= 0).all(axis=1))
            cells = np.ravel_multi_index(tuple(at[inside].T), self.shape)
            total[inside] += (-1) ** (axes - sum(corner)) * self._running[cells]
        return cast(Numbers, total.T)


def _uniform(shape: tuple[int, int], seed: tuple[int, ...]) -> NDArray[np.float64]:
    words = SeededSource(seed).words(math.prod(shape))
    return np.ldexp((words >> np.uint64(11)).astype(np.float64), -53).reshape(shape)
