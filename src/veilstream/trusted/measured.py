"""Sums of measured values as sealed vectors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.values.origin import UNKNOWN, Origin


@hide_frames
def seal_measured(
    sums: NDArray[np.int64],
    t: int,
    l1: Fraction,
    l2: Fraction,
    *,
    grid: int,
    shape: tuple[int, ...] | None = None,
    origin: Origin = UNKNOWN,
) -> Sealed:
    """Close sums of timestamp ``t``, whole multiples of 2^-grid, which one unit moves by at most ``l1`` and ``l2``.

    >>> seal_measured(np.array([3 << 4, 1]), 7, Fraction(2), Fraction(2), grid=4)
    Sealed(size=2, span=7..7, l1=2)
    """
    if not 0 < l2 <= l1:
        raise InvalidInputError(name="movement", value=f"{l1}, {l2}", limit="both above 0, and L2 not above L1")
    return Sealed(
        np.array(sums, dtype=np.int64),
        Span(t, t),
        l1,
        l2=l2,
        grid=grid,
        shape=shape,
        aligned=True,
        origin=origin,
    )
