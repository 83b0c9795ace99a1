"""Totals so far: cumulative counts at every step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.protocols import NEXT_TO_NOTHING
from veilstream.mechanisms.streams.running.rows import RowsState, next_row
from veilstream.mechanisms.streams.running.tree import TreeState, level_budgets, next_node, tree_length
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import MOST_ROWS, Kernel
from veilstream.privacy.rationals import Exact, rational, round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """Publishes at every step the total of all counts so far, or with ``decay`` β the sum Σ β^(t−s)·x_s.

    With delta the rows of a running sum are measured with Gaussian noise and solved for the totals (``rows``): the
    square-root factorisation of prefix sums in groups of timestamps, whose error is within a few hundredths of that of
    the dense one and whose memory grows with the logarithm of the length. Without delta it is a binary tree with
    Honaker's refinement (``tree``). ``horizon`` is the number of steps; without one, rows use weights that fall a
    little faster and trees double their length. ``detail`` is the number of groups for every doubling.
    ``nondecreasing`` lets no total be smaller than the one before it.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> once = np.full((1000, 1), 20)
    >>> y = simulate(RunningTotal(horizon=1000), Guarantee(1, w=1, delta="1e-6"), once, seed=1)
    >>> bool(np.abs(y[:, 0] - np.cumsum(once)).max() < 80)
    True

    Fichtenberger, Henzinger, Upadhyay: Constant matters, ICML 2023 (the square root); Andersson, Pagh: Streaming
    private continual counting via binning, SaTML 2025 (groups; here they are dyadic, so that they nest, and weights
    are whole multiples of 2⁻¹⁶, so that what is sealed stays exact); Chan, Shi, Song: Private and continual release
    of statistics, TISSEC 2011 (trees); Honaker: Efficient use of differentially private binary trees, 2015.
    """

    horizon: int | None = None
    decay: Exact | None = None
    detail: int = 8
    nondecreasing: bool = False
    oblivious: ClassVar[bool] = True
    cumulative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizon: object = self.horizon
        if horizon is not None and (type(horizon) is not int or not 1 <= horizon <= MOST_ROWS):
            raise InvalidInputError(
                name="horizon", of="RunningTotal", value=horizon, limit=f"a whole number from 1 to {MOST_ROWS}, or None"
            )
        if self.decay is not None:
            beta = rational(self.decay, "decay")
            if not 0 < beta < 1:
                raise InvalidInputError(name="decay", of="RunningTotal", value=beta, limit="above 0 and below 1")
            object.__setattr__(self, "decay", beta)
        Kernel(detail=self.detail)

    @property
    def kernel(self) -> Kernel:
        """The weights with which rows read the past."""
        beta = Fraction(1) if self.decay is None else rational(self.decay, "decay")
        return Kernel(beta, self.horizon is None and self.decay is None, self.detail)

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee:
        """All of the budget for Gaussian noise."""
        return guarantee.with_pure_share(NEXT_TO_NOTHING)

    def start(self, guarantee: Guarantee, bins: int) -> RowsState | TreeState:
        if guarantee.reach is None:
            raise InvalidInputError(
                name="window",
                of="RunningTotal",
                value="user level",
                limit="everybody would be in all steps; give a window, or presence: in how many steps a person counts",
            )
        if guarantee.mu_squared:
            self._unit(guarantee)
            return RowsState()
        if guarantee.presence is not None:
            raise InvalidInputError(
                name="presence",
                of="RunningTotal",
                value=guarantee.presence,
                limit="people who count in few steps need Gaussian noise here: give delta",
            )
        if self.decay is not None:
            raise InvalidInputError(
                name="decay",
                of="RunningTotal",
                value=self.decay,
                limit="decayed totals need Gaussian noise: give delta",
            )
        level_budgets(guarantee, tree_length(guarantee, self.horizon, 0))
        return TreeState()

    def step(self, state: RowsState | TreeState, now: Sealed, meter: Meter) -> tuple[RowsState | TreeState, Values]:
        after: RowsState | TreeState
        if isinstance(state, TreeState):
            self._within(state.steps)
            after, values = next_node(state, now, self.horizon, meter)
        else:
            self._within(0 if state.sums is None else now.span.last - state.sums.start)
            after, values = next_row(state, now, self.kernel, self._unit(meter.guarantee), meter)
        if not self.nondecreasing:
            return after, values
        lowest = np.zeros(1) if state.last is None else state.last
        raised = np.maximum(values.numbers, lowest)
        return replace(after, last=raised), Values(raised, values.std, NoiseLaw.MIXED)

    def _within(self, steps: int) -> None:
        if self.horizon is not None and steps >= self.horizon:
            raise BudgetExceededError(f"step {steps + 1} of a running total planned for {self.horizon} steps")

    def _unit(self, guarantee: Guarantee) -> Fraction:
        """What a row costs a timestamp that it reads with weight 1, of μ²."""
        return _unit_of(self.kernel, self.horizon, guarantee.mu_squared)


@lru_cache(maxsize=64)
def _unit_of(kernel: Kernel, horizon: int | None, mu_squared: Fraction) -> Fraction:
    return round_down(mu_squared / kernel.cost(horizon))
