"""Releases where the data changed, each with half of what the window has left."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.dissimilarity import ByDissimilarity, changed_columns, publish_columns
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

SHARE_BITS = 8
SMALLEST_SHARE = 1 << 20
"""A release with less than this part of the budget would be noise alone; none is made, and nothing is asked."""


def half_of(left: Fraction) -> Fraction:
    """Half of what is left, rounded down to 8 binary digits: halving ends, and noise of the same scales comes again.

    >>> half_of(Fraction(1, 3)), half_of(Fraction(2, 3)), half_of(Fraction(0))
    (Fraction(85, 512), Fraction(85, 256), Fraction(0, 1))
    """
    if left <= 0:
        return Fraction(0)
    size = left.numerator.bit_length() - left.denominator.bit_length()
    unit = Fraction(2) ** (size - SHARE_BITS)
    return left / 2 // unit * unit


@dataclass(frozen=True, slots=True)
class State:
    """``spent`` holds step and budget of each release that the window still remembers."""

    step: int = 0
    last: Values | None = None
    spent: tuple[tuple[int, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetDistribution(ByDissimilarity):
    """Spends half of the publication budget left in the window wherever a release would be nearer than the last one.

    Every step pays ε/(2w) for the mean distance (1/U)·‖H_i − H̃_j‖₁, whose sensitivity is l1/U. With ε_i = half of what
    the last w−1 steps left of ε/2, it releases if that noisy mean is above l1/ε_i, the mean error of such a release.
    Budget returns as releases leave the window. Good where changes are few; many in a row halve it to nothing.

    ``columns`` splits the bins into as many runs, each of which is released only if it changed itself. They share
    one schedule of budgets: a person may be in different columns at different times, so columns that spent at times of
    their own would have to be charged for the sum.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> steps = np.where(np.arange(40)[:, None] < 20, 5_000, 9_000) * np.ones((1, 50), dtype=int)
    >>> y = simulate(BudgetDistribution(), Guarantee(1, w=30), steps, seed=1)
    >>> y.fresh[[0, 1, 20, 21]].tolist(), [str(e) for e in y.spent[:2]]
    ([True, False, True, False], ['1/4', '1/60'])

    Kellaris, Papadopoulos, Xiao, Papadias: Differentially private event sequences over infinite streams, VLDB 2014,
    algorithm 1. Changed: the first step releases without a question, and shares are rounded down to
    8 binary digits. The DSAT paper's reading of it (ε/w for every distance) would spend 1.5·ε.
    """

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self.check(guarantee, bins)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        guarantee = meter.guarantee
        horizons.within_horizon(guarantee, state.step, self.horizon)
        remembered = guarantee.remembered(state.spent, state.step)
        left = guarantee.pure / 2 - guarantee.met(remembered, state.step)
        share = half_of(left)
        if state.last is None:
            bins = np.ones(now.size, dtype=np.bool_)
        elif share * SMALLEST_SHARE < guarantee.pure:
            return State(state.step + 1, state.last, remembered), state.last.repeated()
        else:
            error = float(now.l1 / share)
            asked = horizons.share(guarantee, self.horizon, 1, self) / 2
            bins = changed_columns(now, state.last, self.columns, asked, error, meter)
            if not bins.any():
                return State(state.step + 1, state.last, remembered), state.last.repeated()
        values = publish_columns(self.histogram, now, state.last, bins, share, meter)
        return State(state.step + 1, values, (*remembered, (state.step, share))), values

    def best_release(self, guarantee: Guarantee) -> Fraction:
        """Half of a window that nothing was taken from."""
        return guarantee.pure / 4
