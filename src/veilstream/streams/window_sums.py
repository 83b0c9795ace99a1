"""Sums over a sliding window of units that were published in blocks of different lengths, bin by bin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Counts = NDArray[np.int32]


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
    variances: list[NDArray[np.float32]]
    inside_blocks: Counts
    inside_sum: Reals
    inside_variance: Reals
    head_left: Counts
    head_size: Counts
    head_sum: Reals
    head_variance: Reals
    open_units: Counts
    guess: Reals
    last_size: Counts
    last_variance: Reals

    @classmethod
    def start(cls, window: int, bins: int) -> Self:
        def counts(value: int = 0) -> Counts:
            return np.full(bins, value, dtype=np.int32)

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
            head_size=counts(1),
            head_sum=reals(),
            head_variance=reals(),
            open_units=counts(),
            guess=reals(),
            last_size=counts(1),
            last_variance=reals(),
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
            head_size=self.head_size.copy(),
            head_sum=self.head_sum.copy(),
            head_variance=self.head_variance.copy(),
            open_units=self.open_units.copy(),
            guess=self.guess.copy(),
            last_size=self.last_size.copy(),
            last_variance=self.last_variance.copy(),
        )

    def extend(self) -> None:
        """A unit begins: it is open in every bin, and the oldest unit leaves the window."""
        bins = self.guess.size
        rows = np.zeros(bins, dtype=np.int32), np.zeros(bins), np.zeros(bins, dtype=np.float32)
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

    def _cut(self, bins: NDArray[np.int64], size: Counts, total: Reals, variance: NDArray[np.float32]) -> None:
        self.inside_blocks[bins] -= 1
        self.inside_sum[bins] -= total
        self.inside_variance[bins] -= variance
        self.head_size[bins] = size
        self.head_left[bins] = size - 1
        self.head_sum[bins] = total
        self.head_variance[bins] = variance

    def close(self, bins: NDArray[np.int64], total: Reals, variance: float | Reals) -> Counts:
        """The open units of ``bins`` become a block with this sum and noise variance; gives how many units it has."""
        size = self.open_units[bins]
        # The accumulators must see what the ring stores, to be able to subtract it exactly.
        stored = np.broadcast_to(np.asarray(variance, dtype=np.float32), size.shape)
        fits = size <= self.window
        if fits.all():
            self._enter(bins, size, total, stored)
        else:
            self._enter(bins[fits], size[fits], total[fits], stored[fits])
            long = bins[~fits]
            self.head_left[long] = self.window
            self.head_size[long] = size[~fits]
            self.head_sum[long] = total[~fits]
            self.head_variance[long] = stored[~fits]
        self.open_units[bins] = 0
        return size

    def _enter(self, bins: NDArray[np.int64], size: Counts, total: Reals, variance: NDArray[np.float32]) -> None:
        slot = (self.units - 1) % self.window
        sizes, sums, variances = self.sizes[slot].copy(), self.sums[slot].copy(), self.variances[slot].copy()
        sizes[bins], sums[bins], variances[bins] = size, total, variance
        self.sizes[slot], self.sums[slot], self.variances[slot] = sizes, sums, variances
        self.inside_blocks[bins] += 1
        self.inside_sum[bins] += total
        self.inside_variance[bins] += variance

    def believe(self, bins: NDArray[np.int64], guess: Reals, size: Counts, variance: float | Reals) -> None:
        """Open units of ``bins`` count as ``guess``, the mean of ``size`` units whose sum has noise ``variance``."""
        self.guess[bins] = guess
        self.last_size[bins] = size
        self.last_variance[bins] = variance

    def total(self, *, guess_is_last_block: bool) -> tuple[Reals, Reals]:
        """The sum over the window and the standard deviation of its noise.

        Blocks have independent noise. If the guess is the mean of the last block, that block counts once for
        itself and once more for each open unit, by its share.
        """
        still_open = np.minimum(self.open_units, self.window)
        of_head = self.head_left / self.head_size
        numbers = self.inside_sum + self.head_sum * of_head + self.guess * still_open
        variance = self.inside_variance + self.head_variance * of_head**2
        of_guess = still_open / self.last_size
        if guess_is_last_block:
            already = np.where(self.inside_blocks > 0, 1.0, of_head)
            variance += self.last_variance * of_guess * (2 * already + of_guess)
        else:
            variance += self.last_variance * of_guess**2
        return numbers, np.sqrt(np.maximum(variance, 0))
