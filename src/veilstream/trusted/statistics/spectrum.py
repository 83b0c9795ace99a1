"""Scores of how many Fourier coordinates to keep."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.base import Scores

LARGEST_PENALTY = 1 << 60


@hide_frames
def cutoff_scores(
    spectrum: Sealed, kept: NDArray[np.int64], penalty: Fraction, otherwise: Fraction | None = None
) -> Scores:
    """How good it is to keep the first k coordinates and drop the others, for every k of ``kept`` (increasing).

    The score is −(‖dropped coordinates‖₂ + k·penalty) on the grid of the spectrum, rounded down to whole steps. A norm
    is 1-Lipschitz in the L2 distance, so a unit that moves the spectrum by l2 moves each norm by at most l2; rounding
    down adds less than one step in each of its ``parts``. The penalty is public and moves nothing; neither does
    ``otherwise``, the public cost of one more candidate, the last, that keeps no coordinates but does something else.
    Energies are summed as whole numbers of any size, so that no rounding error needs a margin.

    >>> from veilstream.trusted.counts import seal
    >>> scores = cutoff_scores(seal(np.array([3, 1, 4, 1]), t=0).fourier(), np.array([1, 3]), Fraction(1))
    >>> scores.size, 1 <= scores.sensitivity / 2**20 < 1.01
    (2, True)
    """
    if kept.size == 0 or kept[0] < 1 or kept[-1] > spectrum.size or (np.diff(kept) < 1).any():
        raise InvalidInputError(f"cutoff: {kept.size} candidates; they must increase from 1 to {spectrum.size} at most")
    squares = open_counts(spectrum).astype(object) ** 2
    bounds = [*kept.tolist(), spectrum.size]
    roots = np.zeros(kept.size, dtype=np.int64)
    energy = 0
    for index in reversed(range(kept.size)):
        energy += int(squares[bounds[index] : bounds[index + 1]].sum())
        roots[index] = math.isqrt(energy)
    step = penalty * (1 << spectrum.grid)
    costs = [min(math.floor(step * k), LARGEST_PENALTY) for k in kept.tolist()]
    sensitivity = spectrum.l2 * (1 << spectrum.grid) + spectrum.parts
    exact = -(roots + np.array(costs, dtype=np.int64))
    if otherwise is not None:
        exact = np.append(exact, -min(math.floor(otherwise * (1 << spectrum.grid)), LARGEST_PENALTY))
    return Scores(exact, spectrum.span, sensitivity, bins=spectrum.bins)
