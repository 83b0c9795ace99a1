"""Releases where the data changed, each with the shares that were skipped before it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.dissimilarity import ByDissimilarity, changed_columns, publish_columns
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class State:
    """``published`` is the step of the last release and ``shares`` the number of shares that it used.

    Where people count in few steps, ``spent`` holds step and budget of each release that still matters.
    """

    step: int = 0
    last: Values | None = None
    published: int = 0
    shares: int = 0
    spent: tuple[tuple[int, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class BudgetAbsorption(ByDissimilarity):
    """Gives every step an equal share ε/(2w), which a later release absorbs if it goes unused.

    Every step pays ε/(2w) for the mean distance (1/U)·‖H_i − H̃_j‖₁, whose sensitivity is l1/U. A release that used m
    shares makes the next m−1 steps silent. After those, a step may use its own share and all that went unused since, at
    most w: k shares, and it releases if the noisy mean distance is above l1·2w/(kε), the mean error of such a release.
    Shares are counted in whole numbers. Good where changes come at a steady pace.

    ``columns`` splits the bins as in ``BudgetDistribution``.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> steps = np.where(np.arange(40)[:, None] < 20, 5_000, 9_000) * np.ones((1, 50), dtype=int)
    >>> y = simulate(BudgetAbsorption(), Guarantee(1, w=10), steps, seed=1)
    >>> bool(y.fresh[0]), bool(y.fresh[20]), bool(abs(y[30] - 9_000).max() < 100)
    (True, True, True)

    Kellaris, Papadopoulos, Xiao, Papadias: Differentially private event sequences over infinite streams, VLDB 2014,
    algorithm 2. Changed: the first step releases without a question, and silent steps ask none. The DSAT paper's
    reading of it (ε/w for every distance) would spend 1.5·ε.
    """

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self.check(guarantee, bins)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        guarantee = meter.guarantee
        horizons.within_horizon(guarantee, state.step, self.horizon)
        unit = horizons.share(guarantee, self.horizon, 1, self) / 2
        if state.last is None:
            shares, bins = 1, np.ones(now.size, dtype=np.bool_)
        else:
            quiet = replace(state, step=state.step + 1)
            shares = self._usable(state, guarantee, unit)
            if shares < 1:
                return quiet, state.last.repeated()
            error = float(now.l1 / (shares * unit))
            bins = changed_columns(now, state.last, self.columns, unit, error, meter)
            if not bins.any():
                return quiet, state.last.repeated()
        values = publish_columns(self.histogram, now, state.last, bins, shares * unit, meter)
        spent = state.spent
        if guarantee.presence is not None:
            spent = (*guarantee.remembered(spent, state.step), (state.step, shares * unit))
        return State(state.step + 1, values, state.step, shares, spent), values

    def _usable(self, state: State, guarantee: Guarantee, unit: Fraction) -> int:
        """How many shares a release may use now: its own and all that went unused since the last one."""
        most = int(guarantee.pure / 2 / unit)
        if guarantee.presence is None:
            return min(state.step - (state.published + state.shares - 1), most)
        # Silence after a release frees nothing for a person who did not count in it: what one can have met decides.
        left = guarantee.pure / 2 - guarantee.met(guarantee.remembered(state.spent, state.step), state.step)
        return min(state.step - state.published, math.floor(left / unit), most)

    def best_release(self, guarantee: Guarantee) -> Fraction:
        """The shares of a whole window."""
        return guarantee.pure / 2
