"""Release by models: a look where it pays, and at every step what all looks so far foretell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.model import looks as look_plans
from veilstream.mechanisms.streams.model.bank import Bank, Mixture
from veilstream.mechanisms.streams.model.calibration import Calibration
from veilstream.mechanisms.streams.model.explain import explained
from veilstream.mechanisms.streams.model.looks import SHORTEST_WITH_OPENING, SMALLEST_VARIANCE, Looks, Reason
from veilstream.mechanisms.streams.model.observation import Floats, Look
from veilstream.mechanisms.streams.model.output import Usual, whole_median
from veilstream.mechanisms.streams.model.periods import Period, period_at
from veilstream.mechanisms.streams.model.plans import block_plan, gaps_of
from veilstream.mechanisms.streams.model.revise import Past, revised
from veilstream.mechanisms.streams.model.shock import FEWEST_BINS, Shock
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.revision import Revision
from veilstream.values.values import Values

LONGEST_PERIOD: Final = 1_000_000
"""A year has half as many minutes."""
MOST_REVISED: Final = 1000
"""Steps that a state keeps at most."""
MOST_SKIPPED: Final = 1000
"""Timestamps without a step over which models are moved on, at most."""
QUIET_AT_FIRST: Final = 4
"""A stream begins as if it had been quiet for this part of a window."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """All that was learned from looks."""

    bank: Bank
    shock: Shock
    calibration: Calibration
    usual: Usual


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """``step`` counts the steps that were asked for, ``origin`` and ``latest`` are timestamps: some may be skipped."""

    step: int = 0
    looks: Looks = field(default_factory=Looks)
    belief: Belief | None = None
    past: tuple[Past, ...] = ()
    """The last steps, as many as are revised and one more."""
    origin: int = 0
    latest: int = 0


@dataclass(frozen=True, slots=True)
class ModelBased:
    """Publishes at every step what a bank of models makes of all noisy looks so far, and looks when that pays.

    At each step it decides from public facts and from what it released before whether to look at the counts. A look is
    a noisy release; all else is computed from looks and costs nothing. Between looks it publishes a forecast.

    * **Models.** Levels that move at 12 speeds, with Gaussian noise trends too, and seasons of the ``periods`` that a
      public calendar suggests (24 and 168 for hours, 7 for days, 52 for weeks). Each bin weighs them by how well they
      foresaw its looks; four bins and more also share one common growth at each look.
    * **Schedule.** A look at every step, or every 2, 3, 5, ... steps with more budget each: whatever the models expect
      to err less. A reserve always keeps enough to go over to a look at every step (``Book.room`` has the lemma), and
      a surprising look is an alarm that does so at once. ``safe=True`` looks at every step from the beginning.
    * **Noise.** Laplace; for few bins blocks of noise that several looks share (``Meter.block_laplace``); Gaussian
      noise for all of the budget where delta makes that quieter.
    * **Estimates** are pulled to what bins have in common as far as looks bear it out, and to zero as far as they
      cannot be told from it (``Usual``); small counts are whole.
    * **Intervals** are of the true count, not of the noise: their width is corrected by how far past looks lay from
      what was foreseen (``NoiseLaw.MODEL``).

    With ``revise=R`` the last R steps can be had once more, smoothed by what came after them
    (``Publisher.revisions``).

    At user level ``horizon`` is the public number of steps; without one the budget is spread over stretches that
    double in length, at a price (``period_at``).

    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.streams import Uniform
    >>> days = np.random.default_rng(1).poisson(300 + 200 * np.sin(np.arange(400)[:, None] / 30), (400, 6))
    >>> errors = [abs(simulate(m, Guarantee(1, w=40), days, seed=1) - days).mean() for m in (Uniform(), ModelBased())]
    >>> bool(errors[1] < 0.6 * errors[0])
    True

    See docs/model.md for the mathematics, what each part gains, and where it loses.
    """

    horizon: int | None = None
    periods: tuple[int, ...] = ()
    safe: bool = False
    revise: int = 0
    batchable: ClassVar[bool] = True
    modelled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.horizon, "horizon", self)
        if type(self.revise) is not int or not 0 <= self.revise <= MOST_REVISED:
            raise InvalidInputError(
                name="revise",
                of="ModelBased",
                value=self.revise,
                limit=f"a whole number of steps from 0 to {MOST_REVISED} is needed",
            )
        for period in self.periods:
            if type(period) is not int or not 2 <= period <= LONGEST_PERIOD:
                raise InvalidInputError(
                    name="periods",
                    of="ModelBased",
                    value=period,
                    limit=f"whole numbers of steps from 2 to {LONGEST_PERIOD:,} are needed",
                )
        object.__setattr__(self, "periods", tuple(self.periods))

    def divided(self, guarantee: Guarantee, bins: int) -> Guarantee:
        """All of the budget for the kind of noise that is the quieter one at every step."""
        period = period_at(0, guarantee, self.horizon)
        gaussian = guarantee.with_pure_share(0)
        plan = block_plan(period, bins)
        pure = 2 * float(period.window / guarantee.epsilon) ** 2 * (1.0 if plan is None else plan.relative)
        quieter = period.window / float(gaussian.mu_squared) < pure
        return gaussian if quieter else guarantee.with_pure_share(1)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        step, guarantee = state.step, meter.guarantee
        horizons.within_horizon(guarantee, step, self.horizon)
        period = period_at(step, guarantee, self.horizon)
        if period.begins(step):
            state = _in_new_stretch(state, _unit(now, guarantee, period))
        if state.belief is None:
            return self._opened(state, now, meter, period)
        time = now.span.last - state.origin
        bank = state.belief.bank
        for moment in range(max(state.latest + 1 - state.origin, time - MOST_SKIPPED), time + 1):
            bank = bank.predicted(moment)
        prior = bank.together(time, bank.weights(time))
        belief = replace(state.belief, bank=bank)
        looks, state = state.looks, replace(state, latest=now.span.last)
        if step < looks.due:
            looks, sudden = look_plans.watched(looks, step, now, meter, period, prior)
            if not sudden:
                return self._published(replace(state, looks=looks.waited(), belief=belief), prior, prior, None)
        looks, look = self._look(looks, step, now, meter, period)
        surprise = look_plans.surprise_of(look, prior)
        belief, prior, weights = _learned(belief, look, prior, time)
        looks = replace(looks, due=step + 1)
        if not (guarantee.mu_squared or self.safe) and len(gaps_of(period)) > 1:
            looks = look_plans.planned(looks, step, weights, len(self.periods), period, surprise, bank.unit, meter)
        return self._published(replace(state, looks=looks, belief=belief), belief.bank.believed, prior, look)

    def _opened(self, state: State, now: Sealed, meter: Meter, period: Period) -> tuple[State, Values]:
        """The first step: all that is known is its look."""
        opening = period.window >= SHORTEST_WITH_OPENING and not (self.safe or period.steady)
        looks, look = self._look(state.looks, state.step, now, meter, period, opening)
        shape = look.numbers.shape
        unit = _unit(now, meter.guarantee, period)
        bank = Bank.begun(look, unit, self.periods, bool(meter.guarantee.mu_squared))
        belief = Belief(bank, Shock.begun(shape[:-1]), Calibration.begun(look), Usual.begun(shape[:-1]))
        nothing = Mixture(look.numbers, np.full(shape, 1e9 * look.variance))
        looks = replace(looks, due=state.step + 1, reason=Reason.OPENING)
        if opening and not meter.guarantee.mu_squared:
            calm = np.zeros(shape[:-1])
            looks = replace(looks, quiet=np.full((*shape[:-1], 1), period.window / QUIET_AT_FIRST))
            looks = look_plans.planned(looks, state.step, bank.weights(0), len(self.periods), period, calm, unit, meter)
        begun = State(state.step, looks, belief, origin=now.span.last, latest=now.span.last)
        return self._published(begun, bank.believed, nothing, look)

    def _published(self, state: State, estimate: Mixture, prior: Mixture, look: Look | None) -> tuple[State, Values]:
        """The state after a step, and its estimate as it goes out."""
        assert state.belief is not None
        variance = state.belief.calibration.variance(prior, look)
        foreseen = replace(prior, variance=state.belief.calibration.variance(prior, None))
        whole = None if look is None else whole_median(foreseen, look)
        shared = state.belief.calibration.shared(variance)
        values = state.belief.usual.published(estimate, variance, whole, shared)
        past = state.past
        if self.revise:
            past = (*past[-self.revise :], Past(state.latest, replace(estimate, variance=variance), foreseen))
        return replace(state, step=state.step + 1, past=past), values

    def explain(self, state: State) -> str:
        """Which models the stream is believed to follow, and why its last step was looked at or not.

        >>> from veilstream.testing.fakes import NoNoise
        >>> from veilstream.privacy.accountant import Accountant
        >>> from veilstream.trusted.counts import seal
        >>> mechanism, book = ModelBased(), Accountant(Guarantee(1, w=4), 1)
        >>> state, _ = mechanism.step(State(), seal(np.array([50]), 0), Meter(book, NoNoise(), 0))
        >>> mechanism.explain(state).split(". ")[1]
        'It was looked at with a larger share of the budget, to know levels early.'
        """
        if state.belief is None:
            return "Nothing was looked at yet."
        return explained(state.belief.bank, state.looks)

    def revisions(self, state: State) -> list[Revision]:
        """New values for the last ``revise`` steps before the present one, by all looks up to it.

        >>> from veilstream.testing.fakes import NoNoise
        >>> from veilstream.privacy.accountant import Accountant
        >>> from veilstream.trusted.counts import seal
        >>> mechanism = ModelBased(revise=3)
        >>> state, book = mechanism.start(Guarantee(1, w=4), 1), Accountant(Guarantee(1, w=4), 1)
        >>> for t in range(6):
        ...     state, _ = mechanism.step(state, seal(np.array([50]), t), Meter(book, NoNoise(), t))
        >>> [(revision.step, revision.version) for revision in mechanism.revisions(state)]
        [(2, 3), (3, 2), (4, 1)]
        """
        if state.belief is None or len(state.past) < 2:
            return []
        shared = state.belief.calibration.shared(state.past[-1].believed.variance)
        return revised(state.past, state.belief.usual, shared)

    def _look(
        self, looks: Looks, step: int, now: Sealed, meter: Meter, period: Period, opening: bool = False
    ) -> tuple[Looks, Look]:
        looks = replace(looks, reason=Reason.EVERY_STEP if looks.gap == 0 else Reason.DUE)
        if meter.guarantee.mu_squared:
            return looks, look_plans.gaussian_look(now, meter, period)
        return look_plans.pure_look(looks, step, now, meter, period, opening)


def _learned(belief: Belief, look: Look, prior: Mixture, time: int) -> tuple[Belief, Mixture, Floats]:
    """The belief after a look, what was foreseen once all bins' common growth is known, and the experts' weights."""
    bank, shock = belief.bank, belief.shock
    if look.numbers.shape[-1] >= FEWEST_BINS:
        shock, by = shock.shared(look, prior)
        bank = bank.moved(by)
        prior = replace(prior, mean=prior.mean + by)
    bank, weights = bank.corrected(look, time)
    calibration = belief.calibration.learned(look, prior)
    return Belief(bank, shock, calibration, belief.usual.learned(look, prior)), prior, weights


def _unit(now: Sealed, guarantee: Guarantee, period: Period) -> float:
    """The variance of Uniform's noise."""
    if guarantee.mu_squared:
        variance = float(period.window * now.l2**2 / (guarantee.mu_squared * period.share))
    else:
        variance = 2 * float(period.window * now.l1 / (guarantee.pure * period.share)) ** 2
    return max(variance, SMALLEST_VARIANCE)


def _in_new_stretch(state: State, unit: float) -> State:
    """At user level without a horizon a stretch begins with a budget, and noise, of its own."""
    if state.belief is None:
        return state
    belief = replace(state.belief, bank=state.belief.bank.rescaled(unit))
    return replace(state, looks=replace(Looks(), quiet=state.looks.quiet, due=state.step), belief=belief)
