"""Fourier coordinates of whole series, whose steps all come from different times."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.spectrum import FOURIER_GRID, fourier_coordinates, fourier_slack


@hide_frames
def series_coordinates(
    snapshots: Sequence[Sealed], kept: int, guarantee: Guarantee, appearances: int | None = None
) -> Sealed:
    """The first ``kept`` orthonormal Fourier coordinates over time of every bin of successive snapshots, bin by bin.

    One unit has data in at most s = min(appearances, n) of the T steps, n = min(w, T), and moves each of those
    snapshots by at most l1 in the L1 norm. As numbers of different steps are different entries of the series, its
    movement is at most √s·l1 in the L2 norm, not s·l1; an orthonormal map keeps that. Of bin b's K kept coordinates the
    L1 norm is at most √K times their L2 norm ‖Δ_b‖, and over B bins Σ‖Δ_b‖ ≤ min(√(B·s), s)·l1. Rounding to the
    grid and the transform's own error add at most e to each ‖Δ_b‖ (see ``Sealed.fourier``). In all

        L1 ≤ √K·(min(√(B·s), s)·l1 + B·e),     L2 ≤ √s·l1 + √B·e.

    The Meter multiplies what a Sealed says by the n steps of the span that a unit may touch, so this says an n-th of
    it: true together, though not step by step, and only under the ``guarantee`` given.

    >>> from veilstream.trusted.counts import seal
    >>> steps = [seal(np.array([50]), t) for t in range(100)]
    >>> spectrum = series_coordinates(steps, 39, Guarantee(1, w=None))
    >>> spectrum.size, round(float(spectrum.l1 * 100), 1)
    (39, 62.5)
    """
    if not snapshots or not 1 <= kept <= len(snapshots):
        raise InvalidInputError(f"{kept} Fourier coordinates of {len(snapshots)} steps: from 1 to the number of steps")
    first, last, size = snapshots[0].span.first, snapshots[-1].span.last, snapshots[0].size
    spans = [Span(first + i, first + i) for i in range(len(snapshots))]
    if [x.span for x in snapshots] != spans or any(x.size != size or x.grid for x in snapshots):
        raise InvalidInputError(
            f"series of {len(snapshots)} snapshots: each must hold the {size} counts of one step, in "
            "order and without gaps"
        )
    steps = guarantee.steps_at_once(len(snapshots))
    touched = Fraction(steps if appearances is None else min(appearances, steps))
    l1 = max(x.l1 for x in snapshots)
    series = np.stack([open_counts(x) for x in snapshots], axis=1)
    error = fourier_slack(len(snapshots))
    exact = np.concatenate([fourier_coordinates(one, grid=0)[:kept] for one in series])
    moved = min(sqrt_up(size * touched), touched) * l1 + size * error
    return Sealed(
        exact,
        Span(first, last),
        sqrt_up(Fraction(kept)) * moved / steps,
        l2=(sqrt_up(touched) * l1 + sqrt_up(Fraction(size)) * error) / steps,
        grid=FOURIER_GRID,
    )
