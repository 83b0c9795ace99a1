"""Sums over a sliding window of units that were published in blocks of different lengths, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

LONGEST: Final = 30_000
"""The most units in a window or a block: counts of units fit in two bytes, and mix with four-byte reals as they are."""
Reals = NDArray[np.float64]
Bins = NDArray[np.int64]
Singles = NDArray[np.float32]
Counts = NDArray[np.int16]


@dataclass(slots=True)
class WindowSums:
    """For every bin: published blocks of successive units, then open units that a guess stands in for.

    The window of ω units is, from old to new: what is left of a ``head`` block that its edge cuts (each unit taken as
    the block's mean), blocks that lie ``inside``, and ``open_units``. A ring remembers at the last unit of each block
    how long it was, its sum and its noise variance; a row of it is written once. When the edge reaches a block, its
    end is looked for from there on: every unit of every bin is passed over once, so that a step costs the same
    whatever ω is.

    All of it is public.
    """

    window: int
    units: int
    sizes: list[Counts]
    sums: list[Reals]
    variances: list[Singles]
    inside_blocks: Counts
    inside_sum: Reals
    inside_variance: Reals
    head_left: Counts
    head_mean: Reals
    head_mean_variance: Singles
    open_units: Counts
    guess: Reals
    guess_size: Counts
    guess_variance: Singles
    _owns_row: bool = field(default=False, init=False)

    @classmethod
    def start(cls, window: int, bins: int) -> Self:
        def counts() -> Counts:
            return np.zeros(bins, dtype=np.int16)

        def reals() -> Reals:
            return np.zeros(bins)

        return cls(
            window,
            0,
            [],
            [],
            [],
            inside_blocks=counts(),
            inside_sum=reals(),
            inside_variance=reals(),
            head_left=counts(),
            head_mean=reals(),
            head_mean_variance=np.zeros(bins, dtype=np.float32),
            open_units=counts(),
            guess=reals(),
            guess_size=counts(),
            guess_variance=np.zeros(bins, dtype=np.float32),
        )

    def copy(self) -> Self:
        """One that can be changed; rows of the ring are replaced, never changed, and stay shared."""
        return replace(
            self,
            sizes=list(self.sizes),
            sums=list(self.sums),
            variances=list(self.variances),
            inside_blocks=self.inside_blocks.copy(),
            inside_sum=self.inside_sum.copy(),
            inside_variance=self.inside_variance.copy(),
            head_left=self.head_left.copy(),
            head_mean=self.head_mean.copy(),
            head_mean_variance=self.head_mean_variance.copy(),
            open_units=self.open_units.copy(),
            guess=self.guess.copy(),
            guess_size=self.guess_size.copy(),
            guess_variance=self.guess_variance.copy(),
        )

    def extend(self) -> None:
        """A unit begins: it is open in every bin, and the oldest unit leaves the window."""
        bins = self.guess.size
        rows = np.zeros(bins, dtype=np.int16), np.zeros(bins), np.zeros(bins, dtype=np.float32)
        if self.units < self.window:
            self.sizes.append(rows[0])
            self.sums.append(rows[1])
            self.variances.append(rows[2])
        else:
            self._leave(self.units - self.window)
            slot = self.units % self.window
            self.sizes[slot], self.sums[slot], self.variances[slot] = rows
        self.units += 1
        self.open_units += 1
        self._owns_row = True

    def _leave(self, unit: int) -> None:
        cut = self.head_left > 0
        searching = np.flatnonzero(~cut & (self.inside_blocks > 0))
        self.head_left -= cut
        for end in range(unit, self.units):
            if searching.size == 0:
                return
            slot = end % self.window
            size = self.sizes[slot][searching]
            ends_here = size > 0
            bins = searching[ends_here]
            if bins.size:
                self._cut(bins, size[ends_here], self.sums[slot][bins], self.variances[slot][bins])
                searching = searching[~ends_here]

    def _cut(self, bins: Bins, size: Counts, total: Reals, variance: Singles) -> None:
        self.inside_blocks[bins] -= 1
        self.inside_sum[bins] -= total
        self.inside_variance[bins] -= variance
        self._head(bins, size - 1, size, total, variance)

    def _head(self, bins: Bins, left: int | Counts, size: Counts, total: Reals, variance: Singles) -> None:
        self.head_left[bins] = left
        self.head_mean[bins] = on_grid(total / size)
        self.head_mean_variance[bins] = coarse(variance / size.astype(np.float32) ** 2)

    def close(self, bins: Bins, total: Reals, variance: float | Reals) -> Counts:
        """The open units of ``bins`` become a block with this sum and noise variance; gives how many units it has."""
        size = self.open_units[bins]
        # The accumulators must see what the ring stores, to be able to subtract it exactly.
        stored = np.broadcast_to(coarse(np.asarray(variance)), size.shape)
        fits = size <= self.window
        if fits.all():
            self._enter(bins, size, total, stored)
        else:
            self._enter(bins[fits], size[fits], total[fits], stored[fits])
            self._head(bins[~fits], self.window, size[~fits], total[~fits], stored[~fits])
        self.open_units[bins] = 0
        return size

    def _enter(self, bins: Bins, size: Counts, total: Reals, variance: Singles) -> None:
        slot = (self.units - 1) % self.window
        if not self._owns_row:
            self.sizes[slot] = self.sizes[slot].copy()
            self.sums[slot] = self.sums[slot].copy()
            self.variances[slot] = self.variances[slot].copy()
        self.sizes[slot][bins], self.sums[slot][bins], self.variances[slot][bins] = size, total, variance
        self.inside_blocks[bins] += 1
        self.inside_sum[bins] += total
        self.inside_variance[bins] += variance

    def believe(self, bins: Bins, guess: Reals, size: int | Counts, variance: float | Reals) -> None:
        """Open units of ``bins`` count as ``guess``, with noise of ``variance``: the mean of ``size`` units that
        count in the window by themselves, 0 if none do."""
        self.guess[bins] = on_grid(guess)
        self.guess_size[bins] = size
        self.guess_variance[bins] = coarse(np.asarray(variance))

    def total(self) -> tuple[Reals, Reals]:
        """The sum over the window and the standard deviation of its noise.

        Blocks have independent noise. If the guess is the mean of the last block, its noise counts once for each unit
        of the block in the window and once more for each open unit: (k + n)² = k² + n(2k + n) times that of the mean.
        """
        still_open = np.minimum(self.open_units, self.window)
        numbers = self.head_left * self.head_mean
        numbers += self.inside_sum
        numbers += self.guess * still_open
        variance = np.square(self.head_left, dtype=np.float32)
        variance *= self.head_mean_variance
        # A guess that belongs to no block has size 0 and is not cut by the edge.
        shared = np.where(self.inside_blocks > 0, self.guess_size, self.head_left).astype(np.float32)
        np.minimum(shared, self.guess_size, out=shared)
        shared *= 2
        shared += still_open
        shared *= still_open
        shared *= self.guess_variance
        variance += shared
        variance += self.inside_variance.astype(np.float32)
        return numbers, coarse(np.sqrt(np.maximum(variance, 0, out=variance), out=variance)).astype(np.float64)


def coarse(x: Reals | Singles) -> Singles:
    """The next numbers of eight binary digits away from zero: noise is never declared too small; half the bytes are 0.

    >>> coarse(np.array([0.0, 3.0, 1000.25])).tolist()
    [0.0, 3.0, 1004.0]
    """
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(np.float32)


def on_grid(x: Reals) -> Reals:
    """The nearest multiples of 2⁻⁸: sums of them stay exact however long the stream, and shrink well when stored."""
    return np.rint(x * 256) / 256
