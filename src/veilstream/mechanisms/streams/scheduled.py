"""A release at every step, each with the budget that a schedule of public weights gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import nlargest
from typing import ClassVar, Final, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.allocation import OnlineRule, OnlineState, PowerError, Schedule, optimal_schedule
from veilstream.mechanisms.allocation.schedule import in_units
from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import GRID, Exact, rational
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@runtime_checkable
class Weigher(Protocol):
    """Says how much a step matters when the step comes, from public facts alone: its number and the last release.

    A frozen dataclass, so that a ledger can record it. 0 leaves the step out.
    """

    def weight(self, step: int, last: Values | None) -> Exact: ...


Weights: TypeAlias = Weigher | Sequence[Exact] | str


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """``planned`` are the budgets in multiples of 2⁻³⁰: found once, so that no other machine plans them otherwise."""

    step: int = 0
    last: Values | None = None
    planned: NDArray[np.int64] | None = None
    online: OnlineState | None = None


MAX_HORIZON: Final = 1_000_000
"""Steps that are planned one by one; a stream without an end needs a window and no horizon."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """Publishes every step with a budget of its own: more for steps whose public weight is larger, none for weight 0.

    ``weights`` are numbers (or text such as "1 1 1 1 1 3 3") that repeat for ever, or up to ``horizon`` if there is
    one. Offline, the budgets minimise Σ weight · error with every window of w steps within ε (over all of the horizon
    at user level). ``online=True`` never looks ahead: each budget depends on the weights so far and their public
    ``bounds``, memory is bounded by the window, and a ``Weigher`` may choose weights as it goes. ``power`` says which
    error counts: 2 for the variance of Laplace noise, 1 for its mean absolute error and the variance of Gaussian noise.

    Where people count in few steps, budgets of this shape are scaled to what one person can meet (online, they are
    those of all steps of a period).

    With equal weights this is Uniform. The gain over it is (Σw)(Σ1)²/(Σw^(1/3))³ in weighted variance for weights that
    repeat with the window: none for equal weights, 1.6 for a day with eight quiet hours of weight 1/64.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(Scheduled(weights="1 1 8"), Guarantee(1, w=3), np.full((6, 2), 100), seed=1)
    >>> [round(float(e), 3) for e in y.spent]
    [0.25, 0.25, 0.5, 0.25, 0.25, 0.5]

    Fang and Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, section 7;
    see ``veilstream.mechanisms.allocation`` for the solver, the online rule and what was corrected.
    """

    weights: Weights = "1"
    online: bool = False
    bounds: tuple[Exact, Exact] | str | None = None
    power: int = 2
    horizon: int | None = None
    histogram: HistogramMechanism = field(default_factory=Geometric)
    needs_weights: ClassVar[bool] = True

    @property
    def oblivious(self) -> bool:
        """Whether no choice depends on data, not even on released ones."""
        return not isinstance(self.weights, Weigher)

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee:
        """As it is: the state holds parts of the pure budget, which must mean the same when a stream goes on."""
        return guarantee

    def __post_init__(self) -> None:
        horizons.whole(self.horizon, "horizon", self)
        if self.horizon is not None and self.horizon > MAX_HORIZON:
            raise InvalidInputError(
                name="horizon", of="Scheduled", value=self.horizon, limit=f"a schedule has at most {MAX_HORIZON} steps"
            )
        horizons.whole(self.power, "power", self)
        if isinstance(self.weights, Weigher):
            if not self.online or self.bounds is None:
                raise InvalidInputError(
                    name="weights of",
                    value=type(self.weights).__name__,
                    limit="weights that come step by step need online=True and public bounds",
                )
        else:
            object.__setattr__(self, "weights", self._listed(self.weights))
        if self.bounds is not None:
            object.__setattr__(self, "bounds", self._limits(_numbers(self.bounds, "bounds")))

    def _listed(self, given: Sequence[Exact] | str) -> tuple[Fraction, ...]:
        numbers = _numbers(given, "weights")
        if not numbers or numbers[0] <= 0 or min(numbers) < 0:
            raise InvalidInputError(
                f"weights of Scheduled: {len(numbers)} numbers of which {sum(n < 0 for n in numbers)} are "
                "negative; at least 0 each and a first one above 0 are needed, so that there is something to "
                "publish"
            )
        return numbers

    def _limits(self, numbers: tuple[Fraction, ...]) -> tuple[Fraction, Fraction]:
        if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1]:
            raise InvalidInputError(
                name="bounds",
                of="Scheduled",
                value=" ".join(map(str, numbers)),
                limit="the smallest and the largest weight above 0",
            )
        return numbers[0], numbers[1]

    def start(self, guarantee: Guarantee, bins: int) -> State:
        horizons.steps_to_cover(guarantee, self.horizon, self)
        if self.online:
            self._rule(guarantee)
            return State(online=OnlineState())
        planned_steps = self.plan(guarantee)
        scale = Fraction(1)
        if guarantee.presence is not None:
            scale = guarantee.pure / dearest_steps(planned_steps, guarantee)
        planned = [in_units(scale * budget) for budget in planned_steps.budgets]
        return State(planned=np.array(planned, dtype=np.int64))

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        guarantee = meter.guarantee
        if self.horizon is not None and state.step >= self.horizon:
            raise BudgetExceededError(
                f"step {state.step + 1} of a stream planned for {self.horizon} steps: the budget "
                f"{guarantee.pure} is spoken for"
            )
        online, epsilon = self._next(state, guarantee)
        if epsilon == 0:
            if state.last is None:
                raise InvalidInputError("first weight 0: there is nothing to publish yet")
            return State(state.step + 1, state.last, state.planned, online), state.last.repeated()
        values = self.histogram.estimate(now, epsilon, meter)
        return State(state.step + 1, values, state.planned, online), values

    def _next(self, state: State, guarantee: Guarantee) -> tuple[OnlineState | None, Fraction]:
        if state.online is not None:
            return self._rule(guarantee).next(state.online, self._weight(state))
        assert state.planned is not None
        return None, Fraction(int(state.planned[state.step % state.planned.size]), GRID)

    def plan(self, guarantee: Guarantee) -> Schedule:
        """The offline schedule under ``guarantee``: one period, or all steps of the horizon."""
        if isinstance(self.weights, Weigher):
            raise InvalidInputError("plan of weights that come step by step: there is none")
        window, error = horizons.steps_to_cover(guarantee, self.horizon, self), PowerError(power=self.power)
        if self.horizon is None:
            return optimal_schedule(self._period, guarantee.pure, window, error=error, repeat=True)
        weights = [self._period[step % len(self._period)] for step in range(self.horizon)]
        return optimal_schedule(weights, guarantee.pure, window, error=error)

    @property
    def _period(self) -> tuple[Fraction, ...]:
        return cast(tuple[Fraction, ...], self.weights)

    def _weight(self, state: State) -> Exact:
        if isinstance(self.weights, Weigher):
            return self.weights.weight(state.step, state.last)
        return self._period[state.step % len(self._period)]

    def _rule(self, guarantee: Guarantee) -> OnlineRule:
        window = horizons.steps_to_cover(guarantee, self.horizon, self)
        bounds = cast(tuple[Fraction, Fraction] | None, self.bounds)
        if bounds is None:
            used = [weight for weight in self._period if weight]
            bounds = (min(used), max(used))
        return OnlineRule(guarantee.pure, window, bounds, self.power)


def dearest_steps(planned: Schedule, guarantee: Guarantee) -> Fraction:
    """The most that as many steps of one period cost as one unit can reach."""
    period, reach = guarantee.period or len(planned.budgets), guarantee.reach
    repeats = 1 + -(-period // len(planned.budgets)) if planned.cyclic else 1
    line = planned.budgets * repeats
    starts = range(max(1, min(len(planned.budgets), len(line) - period + 1)))
    return max(sum(nlargest(reach or period, line[first : first + period]), Fraction(0)) for first in starts)


def _numbers(given: Sequence[Exact] | str, name: str) -> tuple[Fraction, ...]:
    parts = given.replace(",", " ").split() if isinstance(given, str) else given
    return tuple(rational(part, name) for part in parts)
