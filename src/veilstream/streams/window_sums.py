"""Sums over a sliding window of units that were published in blocks of different lengths, bin by bin."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

LONGEST: Final = 30_000
"""The most units in a window or a block: counts of units fit in two bytes, and mix with four-byte reals as they are."""
Reals = NDArray[np.float64]
Bins = NDArray[np.int64]
Singles = NDArray[np.float32]
Counts = NDArray[np.int16]
Totals = NDArray[np.int64] | NDArray[np.float64]
WHOLE: Final = 1 << 31


@dataclass(slots=True)
class WindowSums:
    """For every bin: published blocks of successive units, then open units that a guess stands in for.

    The window of ω units is, from old to new: what is left of a ``head`` block that its edge cuts (each unit taken as
    the block's mean), blocks that lie inside, and ``open_units``. A ring of rows remembers at the last unit of each
    block that it ``ends`` there, its sum and its noise variance. When the edge reaches a block, its end is looked for
    from there on: every unit of every bin is passed over once, so that a step costs the same whatever ω is.

    Published sums are independent of each other and leave the window one by one, so that ω of them must be known for a
    bin that publishes every unit. A row takes seven bytes a bin (eleven if a sum is not whole or not below 2³¹) and is
    closed to writing once its step is over.

    All of it is public.
    """

    window: int
    units: int
    ends: list[NDArray[np.bool_]]
    sums: list[NDArray[np.int32] | Reals]
    variances: list[NDArray[np.uint16]]
    inside_sum: Reals
    inside_variance: Reals
    head_left: Counts
    head_mean: Reals
    head_mean_variance: Singles
    open_units: Counts
    guess: Reals
    guess_size: Counts
    guess_variance: Singles

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
        for row in itertools.chain(self.ends, self.sums, self.variances):
            row.setflags(write=False)
        return replace(
            self,
            ends=list(self.ends),
            sums=list(self.sums),
            variances=list(self.variances),
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
        ends = np.zeros(bins, dtype=np.bool_)
        sums, variances = np.zeros(bins, dtype=np.int32), np.zeros(bins, dtype=np.uint16)
        if self.units < self.window:
            self.ends.append(ends)
            self.sums.append(sums)
            self.variances.append(variances)
        else:
            self._leave(self.units - self.window)
            slot = self.units % self.window
            self.ends[slot], self.sums[slot], self.variances[slot] = ends, sums, variances
        self.units += 1
        self.open_units += 1

    def _leave(self, unit: int) -> None:
        cut = self.head_left > 0
        searching = self.open_units < self.window
        searching &= ~cut
        self.head_left -= cut
        # A block that is looked for begins at the edge, so that its end tells its length.
        for size in range(1, self.window + 1):
            slot = (unit + size - 1) % self.window
            ends_here = searching & self.ends[slot]
            bins = np.flatnonzero(ends_here)
            if bins.size:
                total, variance = self.sums[slot][bins], _single(self.variances[slot][bins])
                self.inside_sum[bins] -= total
                self.inside_variance[bins] -= variance
                if size > 1:
                    self._head(bins, size - 1, size, total, variance)
                searching ^= ends_here
            if not searching.any():
                return

    def _head(
        self, bins: Bins, left: int, size: int | Counts, total: Totals | NDArray[np.int32], variance: Singles
    ) -> None:
        self.head_left[bins] = left
        self.head_mean[bins] = on_grid(total / size)
        self.head_mean_variance[bins] = coarse(variance / np.square(size, dtype=np.float32))

    def close(self, bins: Bins, total: Totals, variance: float | Reals) -> Counts:
        """The open units of ``bins`` become a block with this sum and noise variance; gives how many units it has."""
        size = self.open_units[bins]
        # The accumulators must see what the ring stores, to be able to subtract it exactly.
        stored = coarse(np.asarray(variance))
        fits = size <= self.window
        if fits.all():
            self._enter(bins, total, stored)
        else:
            each = np.broadcast_to(stored, size.shape)
            self._enter(bins[fits], total[fits], each[fits])
            self._head(bins[~fits], self.window, size[~fits], total[~fits], each[~fits])
        self.open_units[bins] = 0
        return size

    def _enter(self, bins: Bins, total: Totals, variance: Singles) -> None:
        slot = (self.units - 1) % self.window
        if not self.ends[slot].flags.writeable:
            self.ends[slot] = self.ends[slot].copy()
            self.sums[slot] = self.sums[slot].copy()
            self.variances[slot] = self.variances[slot].copy()
        if self.sums[slot].dtype != np.float64 and not _is_short(total):
            self.sums[slot] = self.sums[slot].astype(np.float64)
        self.ends[slot][bins], self.sums[slot][bins], self.variances[slot][bins] = True, total, _upper_half(variance)
        self.inside_sum[bins] += total
        self.inside_variance[bins] += variance

    def believe(self, bins: Bins, guess: Totals, size: int | Counts, variance: float | Reals) -> None:
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
        whole = self.head_left + still_open < min(self.units, self.window)
        cut = np.minimum(self.head_left, self.guess_size)
        shared = (cut + whole * (self.guess_size - cut)).astype(np.float32)
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
    bits = np.asarray(x.astype(np.float32, copy=False).view(np.uint32) + np.uint32(0xFFFF))
    bits &= np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def _upper_half(x: Singles) -> NDArray[np.uint16]:
    """All that ``coarse`` leaves of a number."""
    return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def _single(upper_half: NDArray[np.uint16]) -> Singles:
    return (upper_half.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _is_short(total: Totals) -> bool:
    return total.dtype.kind == "i" and bool(total.max(initial=0) < WHOLE) and bool(total.min(initial=0) >= -WHOLE)


def on_grid(x: Totals) -> Reals:
    """The nearest multiples of 2⁻⁸: sums of them stay exact however long the stream, and shrink well when stored."""
    return np.rint(x * 256) / 256
