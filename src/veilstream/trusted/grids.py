"""Positions of bins, and public numbers on the grid of exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Times, time_type
from veilstream.values.values import Numbers

Index: TypeAlias = NDArray[np.int64] | Sequence[int] | slice

PUBLIC_GRID: Final = 8
"""Public reals meet exact counts on multiples of 2⁻⁸."""
PIECE: Final = 1 << 15
"""Values that are compared at a time: they stay in the processor's cache."""


def distinct_positions(bins: Index, size: int) -> NDArray[np.int64]:
    """Different positions from 0 to size − 1."""
    # Rising positions between the limits are all different: seen at once, where sorting costs more than noise.
    rising = isinstance(bins, np.ndarray) and bins.dtype == np.int64 and bool((bins[1:] > bins[:-1]).all())
    if isinstance(bins, np.ndarray) and rising and bins.size and bins[0] >= 0 and bins[-1] < size:
        return bins
    chosen = np.arange(size, dtype=np.int64)[bins]
    if np.unique(chosen).size != chosen.size:
        raise InvalidInputError("select: a position occurs twice; use sums")
    return chosen


def restart(starts: Times, bins: NDArray[np.bool_] | NDArray[np.int64], last: int) -> Times:
    """Spans of ``bins`` begin after ``last``, those of others where they did."""
    renewed = starts.astype(np.promote_types(starts.dtype, time_type(last + 1)))
    renewed[bins] = last + 1
    return renewed


def finer(exact: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Whole numbers on a grid that is ``bits`` finer."""
    return exact << bits if bits > 0 else exact


def coarser(exact: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Whole numbers rounded down to a grid that is ``bits`` coarser."""
    return exact >> bits if bits > 0 else exact


def public_grid(public: Numbers) -> int:
    """The coarsest grid that public numbers are compared on: 0 if all are whole."""
    if public.dtype.kind == "i":
        return 0
    for start in range(0, public.size, PIECE):
        piece = public[..., start : start + PIECE]
        if not np.array_equal(piece, np.rint(piece)):
            return PUBLIC_GRID
    return 0


def on_grid(public: Numbers, grid: int) -> NDArray[np.int64]:
    """Public numbers as the nearest whole multiples of 2^-grid."""
    if public.dtype.kind == "i":
        whole = public.astype(np.int64, copy=False)
        return whole << grid if grid else whole
    return np.rint(public * float(1 << grid)).astype(np.int64)


def off_grid(exact: NDArray[np.int64], grid: int) -> NDArray[np.float64]:
    """Whole multiples of 2^(-grid) as numbers."""
    return np.ldexp(exact.astype(np.float64), -grid)
