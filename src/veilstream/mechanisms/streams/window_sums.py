"""Sums over a sliding window of units that were published in blocks of different lengths, bin by bin."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

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
HALF: Final = np.uint32(16)
LOWER_HALF: Final = np.uint32(0xFFFF)
UPPER_HALF: Final = np.uint32(0xFFFF0000)
ONE: Final = np.int16(1)
SMALLEST: Final = np.uint32(1 << 16).view(np.float32)
"""Stands for no noise at all where a block ends."""


@dataclass(slots=True)
class WindowSums:
    """For every bin: published blocks of successive units, then open units that a guess stands in for.

    The window of ω units is, from old to new: what is left of a ``head`` block that its edge cuts (each unit taken as
    the block's mean), blocks that lie inside, and ``open_units``. The sum of a head counts as inside until its last
    unit leaves, less the units that are gone; its variance does not. A ring of rows remembers at the last unit of each
    block its sum and its noise variance, which is 0 where no block ends. When the edge reaches a block, its end is
    looked for from there on: every unit of every bin is passed over once, so that a step costs the same whatever ω is.

    Published sums are independent of each other and leave the window one by one, so that ω of them must be known for a
    bin that publishes every unit. A row takes six bytes a bin (ten if a sum is not whole or not below 2³¹) and is
    closed to writing once its step is over.

    All of it is public.
    """

    window: int
    units: int
    sums: list[NDArray[np.int32] | Reals]
    variances: list[NDArray[np.uint16]]
    inside_sum: Reals
    inside_variance: Reals
    head_left: Counts
    head_gone: Counts
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
            inside_sum=reals(),
            inside_variance=reals(),
            head_left=counts(),
            head_gone=counts(),
            head_mean=reals(),
            head_mean_variance=np.zeros(bins, dtype=np.float32),
            open_units=counts(),
            guess=reals(),
            guess_size=counts(),
            guess_variance=np.zeros(bins, dtype=np.float32),
        )

    def copy(self) -> Self:
        """One that can be extended, then changed: ``extend`` replaces all that is not copied here. Rows of the ring are
        replaced, never changed, and stay shared."""
        for row in itertools.chain(self.sums, self.variances):
            row.setflags(write=False)
        return replace(
            self,
            sums=list(self.sums),
            variances=list(self.variances),
            guess=self.guess.copy(),
            guess_size=self.guess_size.copy(),
            guess_variance=self.guess_variance.copy(),
        )

    def extend(self) -> None:
        """A unit begins: it is open in every bin, and the oldest unit leaves the window."""
        bins = self.guess.size
        sums, variances = np.zeros(bins, dtype=np.int32), np.zeros(bins, dtype=np.uint16)
        if self.units < self.window:
            self.sums.append(sums)
            self.variances.append(variances)
            self.inside_sum, self.inside_variance = self.inside_sum.copy(), self.inside_variance.copy()
        else:
            self._leave(self.units - self.window)
            slot = self.units % self.window
            self.sums[slot], self.variances[slot] = sums, variances
        self.units += 1
        self.open_units = self.open_units + ONE

    def _leave(self, unit: int) -> None:
        slot = unit % self.window
        begins = self.head_left == 0
        begins &= self.variances[slot] == 0
        begins &= self.open_units < self.window
        # All bits are set where no head is cut: masks of the counts' own width cost less than truth values.
        less = self.head_left - ONE
        whole = less >> 15
        leaving = _single(self.variances[slot] & whole.view(np.uint16))
        less -= whole
        self.head_left, self.head_mean = less, self.head_mean.copy()
        self.head_mean_variance = self.head_mean_variance.copy()
        self._cut(np.flatnonzero(begins), unit, leaving)
        self.inside_sum = self.inside_sum - self.sums[slot]
        self.inside_variance = self.inside_variance - leaving
        cut = -self.head_left
        cut >>= 15
        self.head_gone = self.head_gone + ONE
        self.head_gone &= cut

    def _cut(self, bins: Bins, unit: int, leaving: Singles) -> None:
        """``unit`` is the first one of a block of ``bins``, whose variances leave; where the block ends tells its
        length."""
        if not bins.size:
            return
        size = np.full(bins.size, 2, dtype=np.int16)
        slot = (unit + 1) % self.window
        total, ends = self.sums[slot].take(bins).astype(np.float64), self.variances[slot].take(bins)
        longer = np.flatnonzero(ends == 0)
        for length in range(3, self.window + 1):
            if not longer.size:
                break
            slot = (unit + length - 1) % self.window
            at = bins[longer]
            here = self.variances[slot].take(at)
            size[longer], total[longer], ends[longer] = length, self.sums[slot].take(at), here
            longer = longer[here == 0]
        variance = _single(ends)
        leaving[bins] = variance
        self.head_left[bins] = size - ONE
        total /= size
        self.head_mean[bins] = on_grid(total)
        variance /= np.square(size, dtype=np.float32)
        self.head_mean_variance[bins] = coarse(variance)

    def close(self, bins: Bins, total: Totals, variance: float | Reals, newest: bool = True) -> Counts:
        """The open units of ``bins`` (with the newest or without) become a block with this sum and noise variance;
        gives how many units it has."""
        size = self.open_units[bins]
        if not newest:
            size -= 1
        inside = self.window if newest else self.window - 1
        if size.max(initial=0) <= inside:
            self._enter(bins, total, _rounded(variance), newest)
        elif inside:
            # The units inside the window are a block with the same mean.
            share = np.minimum(inside / size, 1)
            mean = on_grid(total / size)
            self._enter(bins, np.where(share < 1, mean * inside, total), coarse(variance * share**2), newest)
        self.open_units[bins] = 0 if newest else 1
        return size

    def _enter(self, bins: Bins, total: Totals, variance: Singles, newest: bool) -> None:
        slot = self._newest if newest else self._newest - 1
        # The accumulators must see what the ring stores, to be able to subtract it exactly.
        stored = np.maximum(variance, SMALLEST)
        if not newest:
            self.sums[slot], self.variances[slot] = self.sums[slot].copy(), self.variances[slot].copy()
            self.inside_sum[bins] += total
            self.inside_variance[bins] += stored
        if self.sums[slot].dtype != np.float64 and not _is_short(total):
            self.sums[slot] = self.sums[slot].astype(np.float64)
        # Numbers of another type are cast one by one when they are set by index.
        self.sums[slot][bins] = total.astype(self.sums[slot].dtype)
        self.variances[slot][bins] = _upper_half(stored)

    @property
    def _newest(self) -> int:
        return (self.units - 1) % self.window

    def believe(self, bins: Bins, guess: Totals, size: int | Counts, variance: float | Reals | Singles) -> None:
        """Open units of ``bins`` count as ``guess``, with noise of ``variance``: the mean of the block before them, of
        ``size`` units; 0 if it is not a block of the window."""
        self.guess[bins] = on_grid(guess)
        self.guess_size[bins] = size
        self.guess_variance[bins] = _rounded(variance)

    def total(self) -> tuple[Reals, Reals]:
        """The sum over the window and the standard deviation of its noise; once a unit, when all that closes has.

        Blocks have independent noise. If the guess is the mean of the last block, its noise counts once for each unit
        of the block in the window and once more for each open unit: (k + n)² = k² + n(2k + n) times that of the mean.
        """
        self._add_up()
        still_open = self.open_units
        if still_open.max(initial=0) > self.window:
            still_open = np.minimum(still_open, self.window)
        numbers = self.guess * still_open
        numbers += self.inside_sum
        numbers -= self.head_gone * self.head_mean
        # Squares of short lengths fit in two bytes.
        squares = np.int16 if self.window**2 <= LONGEST // 3 else np.int32
        variance = np.multiply(np.square(self.head_left, dtype=squares), self.head_mean_variance, dtype=np.float32)
        # The last block lies just before the open units.
        known = np.minimum(self.guess_size, min(self.units, self.window) - still_open)
        times: NDArray[Any] = known.astype(squares)
        times += times
        times += still_open
        times *= still_open
        variance += np.multiply(times, self.guess_variance, dtype=np.float32)
        variance += self.inside_variance.astype(np.float32)
        return numbers, coarse(np.sqrt(variance, out=variance)).astype(np.float64)

    def _add_up(self) -> None:
        """Adding whole rows costs less than adding at the bins that closed, which are many."""
        self.inside_sum += self.sums[self._newest]
        self.inside_variance += _single(self.variances[self._newest])


def coarse(x: Reals | Singles) -> Singles:
    """The next numbers of eight binary digits away from zero: noise is never declared too small; half the bytes are 0.

    >>> coarse(np.array([0.0, 3.0, 1000.25])).tolist()
    [0.0, 3.0, 1004.0]
    """
    bits = np.asarray(x.astype(np.float32, copy=False).view(np.uint32) + LOWER_HALF)
    bits &= UPPER_HALF
    return bits.view(np.float32)


def _rounded(x: float | Reals | Singles) -> Singles:
    return coarse(x) if isinstance(x, np.ndarray) else _rounded_number(x)


@lru_cache(maxsize=256)
def _rounded_number(x: float) -> Singles:
    """The same few numbers come at every step."""
    return coarse(np.array([x]))


def _upper_half(x: Singles) -> NDArray[np.uint16]:
    """All that ``coarse`` leaves of a number."""
    return (x.view(np.uint32) >> HALF).astype(np.uint16)


def _single(upper_half: NDArray[np.uint16]) -> Singles:
    bits = upper_half.astype(np.uint32)
    bits <<= HALF
    return bits.view(np.float32)


def _is_short(total: Totals) -> bool:
    return total.dtype.kind == "i" and bool(total.max(initial=0) < WHOLE) and bool(total.min(initial=0) >= -WHOLE)


def on_grid(x: Totals) -> Reals:
    """The nearest multiples of 2⁻⁸: sums of them stay exact however long the stream, and shrink well when stored."""
    steps: Reals = np.multiply(x, 256.0)
    np.rint(steps, out=steps)
    steps /= 256
    return steps
