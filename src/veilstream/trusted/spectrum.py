"""Orthonormal real Fourier coordinates of exact counts, with a bound on everything that floating point can add.

PROOF.md, "Fourier coordinates", has the bound.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.rationals import sqrt_up

FOURIER_GRID: Final = 20
"""Coordinates are rounded to multiples of 2⁻²⁰."""
FOURIER_NORM: Final = 2.0**33
"""The largest Euclidean norm of a vector that is left as it is; it bounds the floating-point error."""
FOURIER_ERROR: Final = Fraction(1, 1 << 9)
"""Twice the L2 error of shrinking to norm 2³³ and of a float64 FFT, with the generous factor 2¹⁰ on 2⁻⁵³."""


def fourier_slack(size: int) -> Fraction:
    """How much further apart two vectors may come than an exact transform would bring them, in the L2 norm."""
    return sqrt_up(Fraction(size)) / (1 << FOURIER_GRID) + FOURIER_ERROR


def fourier_coordinates(exact: NDArray[np.int64], grid: int) -> NDArray[np.int64]:
    """[mean, cos 1, sin 1, cos 2, ...] of ``exact · 2^-grid`` in units of 2⁻²⁰, of norm 2³³ at most.

    >>> (fourier_coordinates(np.array([3, 3, 3, 3]), 0) / 2**20).tolist()
    [6.0, 0.0, 0.0, 0.0]
    """
    from scipy.fft import rfft

    values = exact.astype(np.float64) * 2.0**-grid
    norm = reliable_norm(values)
    if norm > FOURIER_NORM:
        values *= FOURIER_NORM / norm
    spectrum = rfft(values, norm="ortho")
    size = exact.size
    coordinates = np.empty(size)
    coordinates[0] = spectrum[0].real
    paired = (size - 1) // 2
    coordinates[1 : 2 * paired : 2] = spectrum[1 : paired + 1].real * np.sqrt(2)
    coordinates[2 : 2 * paired + 1 : 2] = spectrum[1 : paired + 1].imag * np.sqrt(2)
    if size % 2 == 0:
        coordinates[-1] = spectrum[-1].real
    return np.rint(coordinates * (1 << FOURIER_GRID)).astype(np.int64)


def reliable_norm(values: NDArray[np.float64]) -> float:
    """The Euclidean norm within four units of 2⁻⁵³ of itself where it may pass 2³³, and a number below 2³³ elsewhere.

    A sum of n squares in any order is off by at most n·2⁻⁵³/(1 − n·2⁻⁵³) of itself, which for 10⁷ bins of norm 2³³ is
    more than one count. Where that might hide a norm above 2³³ the squares are summed exactly instead.
    """
    quick = float(np.linalg.norm(values))
    if quick * (1 + values.size * 2.0**-52) < FOURIER_NORM:
        return quick
    return math.sqrt(math.fsum((values * values).tolist()))
