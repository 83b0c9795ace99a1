"""What a question reads: the same numbers once as sealed data for the Meter and once as plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.profile import Profile
from veilstream.trusted.counts import Sealed
from veilstream.trusted.rows import SealedRows, SealedTable

Integers: TypeAlias = NDArray[np.int64]
History: TypeAlias = Sequence[Sealed]
"""The sealed snapshots of the timestamps so far."""
PartsOf: TypeAlias = Callable[[SealedRows, Sequence[int]], list[SealedRows]]
SHAPE = (2, 2)
"""The attributes of a table of rows; a cell of it is one of four bins."""


@dataclass(frozen=True, slots=True)
class Read:
    """Numbers that are linear in the counts of all timestamps and bins, or the L1 distance of such from public ones.

    ``weights`` has the axes (numbers, timestamps, bins). ``sealed`` makes the same numbers from sealed snapshots.
    """

    weights: Integers
    sealed: Callable[[History], Sealed]
    public: Integers | None = None

    def values(self, counts: Integers) -> Integers:
        """The numbers for every stream of ``counts`` (streams, timestamps, bins)."""
        linear: Integers = np.einsum("otb,stb->so", self.weights, counts)
        if self.public is None:
            return linear
        return np.asarray(np.abs(linear - self.public).sum(axis=1, keepdims=True))

    def distance(self, public: Integers) -> Read:
        """The distance of the numbers from public ones."""
        whole = public.astype(np.float64)
        return Read(self.weights, lambda history: self.sealed(history).distance(whole), public)

    def total(self) -> Read:
        return Read(self.weights.sum(axis=0, keepdims=True), lambda history: self.sealed(history).total())

    def select(self, chosen: Integers) -> Read:
        return Read(self.weights[chosen], lambda history: self.sealed(history).select(chosen))

    def without(self, dropped: Integers) -> Read:
        weights = self.weights.copy()
        weights[dropped] = 0
        return Read(weights, lambda history: self.sealed(history).without(dropped))

    def sums(self, groups: Integers, count: int) -> Read:
        weights = np.zeros((count, *self.weights.shape[1:]), dtype=np.int64)
        np.add.at(weights, groups, self.weights)
        return Read(weights, lambda history: self.sealed(history).sums(groups, count))

    def haar(self) -> Read:
        """Of a power of two of numbers."""
        blocks = [self.weights]
        while len(blocks[0]) > 1:
            left, right = blocks[0][0::2], blocks[0][1::2]
            blocks[:1] = [left + right, left - right]
        return Read(np.concatenate(blocks), lambda history: self.sealed(history).haar())

    def plus(self, other: Read) -> Read:
        return Read(
            self.weights + other.weights, lambda history: self.sealed(history) + other.sealed(history), self.public
        )


def counts_of(first: int, last: int, steps: int, bins: int) -> Read:
    """The counts of all bins, summed over the timestamps ``first..last``."""
    weights = np.zeros((bins, steps, bins), dtype=np.int64)
    weights[np.arange(bins), first : last + 1, np.arange(bins)] = 1

    def sealed(history: History) -> Sealed:
        x = history[first]
        for snapshot in history[first + 1 : last + 1]:
            x = x + snapshot
        return x

    return Read(weights, sealed)


def pending_of(starts: Integers, now: int, restarts: Sequence[tuple[int, Integers]], steps: int) -> Read:
    """The sums of each bin since its own start; ``restarts`` tell after which timestamps which bins began anew."""
    bins = starts.size
    weights = np.zeros((bins, steps, bins), dtype=np.int64)
    for b, start in enumerate(starts.tolist()):
        weights[b, start : now + 1, b] = 1

    def sealed(history: History) -> Sealed:
        x = history[0].with_starts()
        for t in range(now + 1):
            x = x + history[t] if t else x
            for after, which in restarts:
                x = x.restarted(which) if after == t else x
        return x

    return Read(weights, sealed)


@dataclass(frozen=True, slots=True)
class RowRead:
    """The row of a running sum of all bins; only the timestamps ``added`` were added to it."""

    profile: Profile
    added: frozenset[int]

    def values(self, counts: Integers) -> NDArray[np.float64]:
        """The numbers for every stream of ``counts`` (streams, timestamps, bins)."""
        each = self.profile.weights()
        of_steps = np.zeros(counts.shape[1])
        for t in self.added:
            of_steps[t] = each[t - self.profile.start]
        return np.asarray(np.einsum("t,stb->sb", of_steps, counts))


def part_of(path: Sequence[tuple[tuple[int, ...], int]], t: int, steps: int, axis: int, parts_of: PartsOf) -> Read:
    """The histogram by one attribute of a part of the rows of ``t``; a path of several steps gives parts of parts."""
    cells = np.stack(np.unravel_index(np.arange(4), SHAPE), axis=1)
    inside = np.ones(4, dtype=np.bool_)
    for axes, number in path:
        inside &= _cell_numbers(cells, axes) == number
    weights = np.zeros((2, steps, 4), dtype=np.int64)
    weights[cells[:, axis], t, np.arange(4)] = inside

    def sealed(history: History) -> Sealed:
        table = history[t]
        assert isinstance(table, SealedTable)
        rows = table.rows
        for axes, number in path:
            rows = parts_of(rows, axes)[number]
        return rows.margin(axis)

    return Read(weights, sealed)


def _cell_numbers(cells: Integers, axes: Sequence[int]) -> Integers:
    numbers = np.zeros(len(cells), dtype=np.int64)
    for axis in axes:
        numbers = numbers * SHAPE[axis] + cells[:, axis]
    return numbers
