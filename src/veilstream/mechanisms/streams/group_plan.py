"""Which bins publish unit by unit, which in groups, and how long their groups are: decided by public outputs alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.streams.window_sums import LONGEST, coarse

Bins = NDArray[np.int64]
Reals = NDArray[np.float64]
Singles = NDArray[np.float32]
Counts = NDArray[np.int16]

RECENT_CHANGE: Final = 1 / 8
RECENT_MOVE: Final = 1 / 4
"""Weights of the newest observation in running means."""
CALM: Final = 1.2
"""Groups begin where squared changes between units average below this many times what noise alone brings."""
GROW_BELOW: Final = 1.0
SHRINK_ABOVE: Final = 3.0
"""A group's length pays ω/m variances of noise; its move, beyond noise, is held against that."""
FIRST_MOVE: Final = 3.0
"""Groups begin as if they had moved by so many times that: some must go well before they grow, so that a bin which only
looked calm for a while fails with short ones."""
LEAVE_ABOVE: Final = 1.0
"""One move beyond noise of so many whole windows of noise ends the groups of a bin,"""
CREDIBLE: Final = 30.0
"""if it is also this many times the variance that noise alone gives it: noise does that once in thousands of groups.
Without it constant bins would spend a fifth of their time unit by unit."""
CREDIBLE_MEAN: Final = 6.0
"""The same of the running mean of moves that would shorten groups of two units, which ends them too."""
FEWEST_UNITS: Final = 12
MOST_UNITS: Final = 512
"""Units that a bin publishes one by one before its next groups, within these: less a quarter of the units of every
group that went well, and"""
LONGER_AFTER_FAILURE: Final = 8
"""times as many after one that did not. A bin that jumps by what the monitor cannot see then fails three times, not
six, before it is left alone: what it loses is lost while that is learned."""
WEIGHTS: Final = np.maximum(RECENT_CHANGE, 1 / np.maximum(np.arange(MOST_UNITS + 1), 1)) * (
    np.arange(MOST_UNITS + 1) > 0
)
"""Of the newest change after so many units: of none that is known, then of the mean, then of the running mean."""


@dataclass(slots=True)
class GroupPlan:
    """For every bin: whether it is ``grouping``, when its open group is ``due``, and what led there.

    ``change`` averages the squared differences of successive unit releases, ``pace`` how far the sums of groups were
    from their guesses (squared, less the noise in it; by the square of their lengths, with which it grows), ``drift``
    sums what the monitor saw the open group move so far.
    """

    grouping: NDArray[np.bool_]
    due: Counts
    drift: Singles
    change: Singles
    pace: Singles
    units: Counts
    patience: Counts

    @classmethod
    def start(cls, bins: int) -> Self:
        return cls(
            grouping=np.zeros(bins, dtype=np.bool_),
            due=np.ones(bins, dtype=np.int16),
            drift=np.zeros(bins, dtype=np.float32),
            change=np.zeros(bins, dtype=np.float32),
            pace=np.zeros(bins, dtype=np.float32),
            units=np.zeros(bins, dtype=np.int16),
            patience=np.full(bins, FEWEST_UNITS, dtype=np.int16),
        )

    def copy(self) -> Self:
        """One that can be changed, ``drift`` once it is replaced."""
        return replace(
            self,
            grouping=self.grouping.copy(),
            due=self.due.copy(),
            change=self.change.copy(),
            pace=self.pace.copy(),
            units=self.units.copy(),
            patience=self.patience.copy(),
        )

    def saw_units(self, bins: Bins, difference: Reals, variance: float, window_noise: float, factor: Fraction) -> None:
        """``bins`` published a unit each, at ``difference`` from the one before, with noise of ``variance``.

        ``window_noise`` is the variance of a whole window so published.
        """
        so_far = self.units[bins]
        change = self.change[bins].astype(np.float64)
        difference = np.square(difference)
        difference -= change
        difference *= WEIGHTS.take(so_far)
        change += difference
        self.change[bins] = coarse(change)
        so_far += 1
        self.units[bins] = np.minimum(so_far, MOST_UNITS)
        patient = so_far >= self.patience[bins]
        patient &= change <= CALM * 2 * variance
        calm = bins[np.flatnonzero(patient)]
        self.grouping[calm] = True
        first = ceil(factor)
        self.due[calm] = first
        self.pace[calm] = FIRST_MOVE * window_noise / first**3
        self.change[calm] = 0

    def saw_groups(
        self,
        bins: Bins,
        size: Counts,
        difference: Singles,
        noise: Singles,
        window_noise: float,
        factor: Fraction,
        largest: int,
    ) -> None:
        """``bins`` published groups of ``size`` units whose sums were at ``difference`` from their guesses.

        ``noise`` is the variance of that difference if nothing had moved; ``window_noise`` as above.
        """
        moved = np.square(difference)
        moved -= noise
        length = size.astype(np.float32)
        squared = np.square(length)
        move = self.pace[bins]
        newest = moved / squared
        newest -= move
        newest *= RECENT_MOVE
        move += newest
        self.pace[bins] = coarse(move)
        # A group of m units is worth ω/m variances.
        move *= squared
        move *= length
        shrink = move > SHRINK_ABOVE * window_noise
        grow = move < GROW_BELOW * window_noise
        self.due[bins] = _next_length(2 * shrink.view(np.int8) + grow.view(np.int8), size, factor, largest)
        self.drift[bins] = 0
        patience = self.patience[bins]
        waited = np.flatnonzero(patience > FEWEST_UNITS)
        if waited.size:
            self.patience[bins[waited]] = np.maximum(patience[waited] - (size[waited] >> 2), FEWEST_UNITS)
        leave = moved > CREDIBLE * noise
        leave &= moved > LEAVE_ABOVE * window_noise
        shrink &= size <= 2
        shortest = np.flatnonzero(shrink)
        leave[shortest[move[shortest] > CREDIBLE_MEAN * noise[shortest] * length[shortest]]] = True
        left = np.flatnonzero(leave)
        gone = bins[left]
        self.grouping[gone] = False
        self.units[gone] = 0
        self.pace[gone] = 0
        self.patience[gone] = np.minimum(LONGER_AFTER_FAILURE * patience[left], MOST_UNITS)


def _next_length(outcome: NDArray[np.int8], size: Counts, factor: Fraction, largest: int) -> Counts:
    """How long the group after one of ``size`` units is: as long (0), longer (1) or half as long (2)."""
    # Few lengths occur: looking each up costs less than choosing it.
    lengths = _lengths(int(size.max(initial=0)) + 1, factor, largest)
    return lengths.take(outcome * np.intp(lengths.shape[1]) + size)


@lru_cache(maxsize=64)
def _lengths(count: int, factor: Fraction, largest: int) -> NDArray[np.int16]:
    every = np.arange(count, dtype=np.int16)
    lengths = np.stack([every, longer(every, factor), every // 2])
    return np.clip(lengths, 2, largest).astype(np.int16)


def longer(size: Counts, factor: Fraction) -> Counts:
    """⌈factor · size⌉, exactly, up to ``LONGEST``.

    >>> longer(np.array([1, 2, 4], dtype=np.int16), Fraction(17, 10)).tolist()
    [2, 4, 7]
    """
    # Few lengths occur, and dividing each bin's costs more than looking it up.
    every = np.arange(int(size.max(initial=0)) + 1, dtype=np.int64)
    exact = -(-every * factor.numerator // factor.denominator)
    return np.minimum(exact, LONGEST).astype(np.int16).take(size)
