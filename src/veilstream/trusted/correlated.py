"""Noise of a stream of answers in which every row takes back most of what earlier ones added.

Answer t is d_t·x_t + n_t, where n_t = z_t − Σ_i ω_i·S_i: z_t is fresh Gaussian noise, and the buffers S_i follow the
noise of earlier answers, S ← θ·S + n. So Σ_s c_{t−s}·d_s·x_s, the row of a running sum, is known up to z_t from the
answers so far, and sums of many answers have little noise. The buffers hold noise alone: no counts, but with the
answers they would tell them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.noise.scale import LARGEST_SCALE
from veilstream.privacy.buffers import SCALE_BITS, Buffers
from veilstream.privacy.charge import Span
from veilstream.privacy.kernels import MOST_ROWS
from veilstream.privacy.profile import Profile
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque

FINE_BITS = 38
"""Noise has a standard deviation of about 2³⁸ steps of its grid, so that rounded buffers cost next to nothing."""
MOST_ROUNDING = Fraction(1, 16)
SPARE_BITS = 10
"""Answers are told on a grid at least so many bits finer than the noise."""

Integers = NDArray[np.int64]


class CorrelatedNoise(Opaque[Integers]):
    """The buffers of a stream of answers that began at ``start``, as they are after the answer of ``last``.

    ``grid`` is that of the noise and ``x_grid`` that of the counts. ``l1`` and ``l2`` are the most by which one unit
    moved the counts of any timestamp so far.
    """

    __slots__ = ("buffers", "grid", "l1", "l2", "last", "size", "start", "x_grid")

    def __init__(
        self,
        held: Integers,
        buffers: Buffers,
        start: int,
        last: int,
        size: int,
        l1: Fraction,
        l2: Fraction,
        grid: int,
        x_grid: int,
    ) -> None:
        super().__init__(held)
        self.buffers = buffers
        self.start = start
        self.last = last
        self.size = size
        self.l1 = l1
        self.l2 = l2
        self.grid = grid
        self.x_grid = x_grid

    def __repr__(self) -> str:
        return f"CorrelatedNoise(size={self.size}, span={self.start}..{self.last}, l2={self.l2})"


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is public of the next answer of a stream."""

    buffers: Buffers
    start: int
    t: int
    l1: Fraction
    l2: Fraction
    grid: int
    x_grid: int
    sigma: Fraction

    @property
    def row(self) -> int:
        return self.t - self.start

    @property
    def span(self) -> Span:
        return Span(self.start, self.t)

    @property
    def profile(self) -> Profile:
        return Profile(self.buffers, self.start, self.row)

    @property
    def std(self) -> float:
        """Of the fresh noise of the row."""
        return float(self.sigma) * 2.0**-self.grid


def next_answer(
    x: Sealed, t: int, buffers: Buffers, mu_squared: Fraction, reach: int, past: CorrelatedNoise | None
) -> Answer:
    """The next answer about ``x``, whose row costs a timestamp of weight 1 the amount ``mu_squared``.

    The noise is for a unit in ``reach`` timestamps, and raised by what rounding of the buffers may add to the movement
    of one unit (PROOF.md, "Rows by decaying buffers").
    """
    if x.span != Span(t, t) or x.bins is not None:
        raise InvalidInputError(name="correlated answer", value=x.span, limit=f"it takes all values of t={t}")
    if past is not None and (past.last >= t or (past.buffers, past.size, past.x_grid) != (buffers, x.size, x.grid)):
        raise InvalidInputError(name="correlated answer", value=f"t={t}", limit=f"it does not fit to {past!r}")
    l1, l2 = (x.l1, x.l2) if past is None else (max(past.l1, x.l1), max(past.l2, x.l2))
    start = t if past is None else past.start
    rows = MOST_ROWS if buffers.horizon is None else buffers.horizon
    if t - start >= rows:
        raise InvalidInputError(name="correlated answer", value=f"t={t}", limit=f"{rows} rows from t={start}")
    grid, sigma = _law(buffers, mu_squared, reach, l1, l2, x.size, x.grid, None if past is None else past.grid)
    return Answer(buffers, start, t, l1, l2, grid, x.grid, sigma)


@lru_cache(maxsize=64)
def _law(
    buffers: Buffers,
    mu_squared: Fraction,
    reach: int,
    l1: Fraction,
    l2: Fraction,
    size: int,
    x_grid: int,
    known_grid: int | None,
) -> tuple[int, Fraction]:
    """The grid of the noise, and its standard deviation in steps of it."""
    moved, rows = reach * l2, MOST_ROWS if buffers.horizon is None else buffers.horizon
    sigma = sqrt_up(moved**2 / mu_squared)
    bits = int(sigma * (1 << 60)).bit_length() - 60
    grid = max(FINE_BITS - bits, x_grid + SCALE_BITS) if known_grid is None else known_grid
    touched = min(size, ceil(reach * l1 * (1 << x_grid)))
    rounding = buffers.rounding * sqrt_up(Fraction(2 * rows * touched)) / (moved * (1 << grid))
    sigma = sqrt_up((sigma * (1 + rounding) * (1 << grid)) ** 2 + 3)
    if sigma > LARGEST_SCALE or rounding > MOST_ROUNDING:
        raise InvalidBudgetError(
            f"charge of mu² {mu_squared} for rows by buffers: its noise of {float(sigma):.3g} grid steps is wider than "
            f"{LARGEST_SCALE}, or too near to what rounding adds"
        )
    return grid, sigma


def with_correlated(
    x: Sealed, fresh: Integers, answer: Answer, past: CorrelatedNoise | None
) -> tuple[NDArray[np.float64], CorrelatedNoise]:
    """The counts with their noise, divided by d, and the buffers after it; ``fresh`` is used up."""
    buffers = answer.buffers
    noise = fresh
    rates = np.array(buffers.rates, dtype=np.int64).reshape(-1, *[1] * fresh.ndim)
    if past is None:
        held = np.repeat(noise[None], len(buffers.rates), axis=0)
    else:
        before: Integers = opened(past)
        for _ in range(answer.t - past.last - 1):
            before = before - (before >> rates)
        scratch = np.empty_like(before[0])
        for buffer, factor, shift in zip(before, buffers.factors, buffers.shifts, strict=True):
            np.right_shift(buffer, shift, out=scratch)
            scratch *= factor
            noise -= scratch
        held = before >> rates
        np.subtract(before, held, out=held)
        held += noise
    after = CorrelatedNoise(
        held, buffers, answer.start, answer.t, x.size, answer.l1, answer.l2, answer.grid, answer.x_grid
    )
    return _told(opened(x), noise, answer), after


def _told(exact: Integers, noise: Integers, answer: Answer) -> NDArray[np.float64]:
    """(d·x + n)/d, where d·x + n was rounded to a grid on which d·x is whole: a function of the sum alone."""
    bits = (int(answer.sigma)).bit_length()
    grid = max(answer.x_grid + SCALE_BITS, min(answer.grid, answer.grid - bits + SPARE_BITS))
    scale, dropped = answer.buffers.scale(answer.row), answer.grid - grid
    rounded = (noise + (1 << (dropped - 1))) >> dropped if dropped else noise.copy()
    rounded += exact * (scale << (grid - answer.x_grid - SCALE_BITS))
    return rounded.astype(np.float64) * (2.0**SCALE_BITS / scale * 2.0**-grid)
