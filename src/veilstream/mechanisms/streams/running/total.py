"""Totals so far: cumulative counts at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.protocols import NEXT_TO_NOTHING
from veilstream.mechanisms.streams.running.buffered import BufferedState, next_buffered, square_root
from veilstream.mechanisms.streams.running.rows import RowsState, next_row
from veilstream.mechanisms.streams.running.tree import TreeState, level_budgets, next_node, tree_length
from veilstream.mechanisms.streams.running.weights import Weights
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.kernels import MOST_ROWS, Kernel
from veilstream.privacy.rationals import Exact, rational, round_down
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

AnyState: TypeAlias = BufferedState | RowsState | TreeState


@dataclass(frozen=True, slots=True)
class RunningTotal:
    """Publishes at every step the total of all counts so far, or with ``decay`` β the sum Σ β^(t−s)·x_s.

    With delta counts get Gaussian noise that takes back most of what earlier noise added (``buffered``): the
    square-root factorisation of prefix sums by a few decaying buffers a bin, whose number grows with the logarithm of
    the length. With a horizon late steps get less noise, and the error is below that of the square root itself.
    Without delta it is a binary tree with Honaker's refinement (``tree``). ``horizon`` is the number of steps; without
    one, weights fall a little faster and trees double their length. ``nondecreasing`` lets no total be smaller than
    the one before it. ``weights`` may be "groups" instead of "buffers": rows of a running sum in groups of timestamps
    (``rows``), ``detail`` of them for every doubling, as streams of earlier versions have them.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> once = np.full((1000, 1), 20)
    >>> y = simulate(RunningTotal(horizon=1000), Guarantee(1, w=1, delta="1e-6"), once, seed=1)
    >>> bool(np.abs(y[:, 0] - np.cumsum(once)).max() < 80)
    True

    Fichtenberger, Henzinger, Upadhyay: Constant matters, ICML 2023 (the square root); McMahan, Xu, Zhang: A hassle-free
    algorithm for strong differential privacy in federated learning systems, 2024 (buffers; here rates are powers of
    two, and buffers whole numbers, whose rounding is part of the proof); Andersson, Pagh: Streaming private continual
    counting via binning, SaTML 2025 (groups; here they are dyadic, so that they nest); Chan, Shi, Song: Private and
    continual release of statistics, TISSEC 2011 (trees); Honaker: Efficient use of differentially private binary
    trees, 2015.
    """

    horizon: int | None = None
    decay: Exact | None = None
    detail: int = 8
    nondecreasing: bool = False
    weights: Weights = Weights.BUFFERS
    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, str]]] = {1: {}}
    former_states: ClassVar[tuple[type[RowsState], ...]] = (RowsState,)
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
        object.__setattr__(self, "weights", Weights.of(self.weights, self))
        Kernel(detail=self.detail)

    @property
    def buffers(self) -> Buffers:
        """The weights with which answers of a new stream read the past."""
        return square_root(self.horizon, self._beta)

    @property
    def kernel(self) -> Kernel:
        """The same in groups of timestamps."""
        return Kernel(self._beta, self.horizon is None and self.decay is None, self.detail)

    @property
    def _beta(self) -> Fraction:
        return Fraction(1) if self.decay is None else rational(self.decay, "decay")

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee:
        """All of the budget for Gaussian noise."""
        return guarantee.with_pure_share(NEXT_TO_NOTHING)

    def start(self, guarantee: Guarantee, bins: int) -> AnyState:
        if guarantee.reach is None:
            raise InvalidInputError(
                name="window",
                of="RunningTotal",
                value="user level",
                limit="everybody would be in all steps; give a window, or presence: in how many steps a person counts",
            )
        if guarantee.mu_squared:
            buffered = self.weights is Weights.BUFFERS
            _unit_of(self.buffers if buffered else self.kernel, self.horizon, guarantee.mu_squared)
            return BufferedState() if buffered else RowsState()
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

    def step(self, state: AnyState, now: Sealed, meter: Meter) -> tuple[AnyState, Values]:
        after: AnyState
        match state:
            case TreeState():
                self._within(state.steps)
                after, values = next_node(state, now, self.horizon, meter)
            case BufferedState(noise=noise):
                self._within(0 if noise is None else now.span.last - noise.start)
                # What was planned at the start stays, whatever another machine would plan.
                buffers = self.buffers if noise is None else noise.buffers
                unit = _unit_of(buffers, self.horizon, meter.guarantee.mu_squared)
                after, values, _ = next_buffered(state, now, buffers, unit, meter, decay=float(self._beta))
            case RowsState():
                self._within(0 if state.sums is None else now.span.last - state.sums.start)
                unit = _unit_of(self.kernel, self.horizon, meter.guarantee.mu_squared)
                after, values = next_row(state, now, self.kernel, unit, meter)
        if not self.nondecreasing:
            return after, values
        lowest = np.zeros(1) if state.last is None else state.last
        raised = np.maximum(values.numbers, lowest)
        return replace(after, last=raised), Values(raised, values.std, NoiseLaw.MIXED)

    def _within(self, steps: int) -> None:
        if self.horizon is not None and steps >= self.horizon:
            raise BudgetExceededError(f"step {steps + 1} of a running total planned for {self.horizon} steps")


@lru_cache(maxsize=64)
def _unit_of(kernel: Kernel | Buffers, horizon: int | None, mu_squared: Fraction) -> Fraction:
    """What a row costs a timestamp that it reads with weight 1, of μ²."""
    return round_down(mu_squared / kernel.cost(horizon))
