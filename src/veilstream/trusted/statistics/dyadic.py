"""Costs of the blocks of a dyadic tree, from which the Meter chooses a partition of the bins."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.charge import Names, Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.sealed import Opaque

Integers = NDArray[np.int64]


class DyadicCosts(Opaque[tuple[Integers, ...]]):
    """The cost of every block of 2^k bins that begins at a multiple of 2^k, level by level, single bins first.

    ``size`` bins are padded with empty ones to a power of two. One unit with one count moves, of the blocks that any
    partition consists of, exactly one, and that by at most 1: with counts of ``sensitivity`` in all, the cost of every
    partition by at most that.
    """

    __slots__ = ("bins", "sensitivity", "size", "span")
    contents: ClassVar[str] = "costs"

    def __init__(
        self, exact: tuple[Integers, ...], size: int, span: Span, sensitivity: Fraction, bins: Names | None
    ) -> None:
        super().__init__(exact)
        self.size = size
        self.span = span
        self.sensitivity = sensitivity
        self.bins = bins

    def __repr__(self) -> str:
        return f"DyadicCosts(size={self.size}, span={self.span}, sensitivity={self.sensitivity})"


@hide_frames
def deviation_costs(x: Sealed) -> DyadicCosts:
    """Σ|v − median| of every dyadic block: how much is lost if the block is spread evenly, up to a factor of 2.

    *What a unit does.* min over c of Σ|v − c| is 1-Lipschitz in the L1 norm of the block's values, because every
    Σ|v − c| is and a minimum of 1-Lipschitz functions is one. A unit that moves the values by l1 in all moves the
    blocks of a partition, which are disjoint, by at most l1 together.

    >>> from veilstream.trusted.counts import seal
    >>> deviation_costs(seal(np.array([3, 3, 9, 1]), t=0))
    DyadicCosts(size=4, span=Span(first=0, last=0), sensitivity=1)
    """
    values = open_counts(x)
    padded = np.zeros(1 << max(values.size - 1, 0).bit_length(), dtype=np.int64)
    padded[: values.size] = values
    blocks = padded.reshape(-1, 1)
    costs = [np.zeros(padded.size, dtype=np.int64)]
    while len(blocks) > 1:
        # Both halves are in order already, which this sort makes use of.
        blocks = np.sort(blocks.reshape(len(blocks) // 2, -1), axis=1, kind="stable")
        half = blocks.shape[1] // 2
        costs.append(blocks[:, half:].sum(axis=1) - blocks[:, :half].sum(axis=1))
    return DyadicCosts(tuple(costs), values.size, x.span, x.l1 * (1 << x.grid), x.bins)


def cheapest_partition(costs: list[Integers]) -> NDArray[np.bool_]:
    """Where the blocks of the partition with the least sum of costs begin; a tie goes to the larger block.

    >>> levels = [np.array([1, 1, 0, 0]), np.array([5, 1]), np.array([9])]
    >>> cheapest_partition(levels).tolist()
    [True, True, True, True]
    >>> cheapest_partition([levels[0], levels[1], np.array([2])]).tolist()
    [True, False, False, False]
    """
    best, whole = [costs[0]], [np.ones(costs[0].size, dtype=np.bool_)]
    for level in costs[1:]:
        parts = best[-1][0::2] + best[-1][1::2]
        whole.append(level <= parts)
        best.append(np.minimum(level, parts))
    begins = np.zeros(costs[0].size, dtype=np.bool_)
    open_blocks = np.ones(1, dtype=np.bool_)
    for depth in range(len(costs) - 1, -1, -1):
        closed = open_blocks & whole[depth]
        begins[np.flatnonzero(closed) << depth] = True
        open_blocks = np.repeat(open_blocks & ~whole[depth], 2)
    return begins
