"""Release by models: looks when they pay, and in between what the looks so far foretell."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import schedule
from veilstream.mechanisms.streams.model.bank import Bank, Mixture
from veilstream.mechanisms.streams.model.calibration import Calibration
from veilstream.mechanisms.streams.model.observation import Floats, Look
from veilstream.mechanisms.streams.model.plans import block_plan, expected_errors, gaps_of, target, wanted_gap
from veilstream.mechanisms.streams.model.reserve import UNITS, Book, Period, exact
from veilstream.mechanisms.streams.model.shock import FEWEST_BINS, Shock
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values

OPENING: Final = 8
"""The first look costs this part of the budget where a window has room for it."""
SHORTEST_WITH_OPENING: Final = 16
ALARM: Final = 0.01
"""Chance of a false alarm by the most surprising bin of a look."""
ALARM_TOGETHER: Final = 3.5
"""Standard deviations of the sum of all surprises."""
SMALLEST_VARIANCE: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class State:
    step: int = 0
    bank: Bank | None = None
    shock: Shock | None = None
    calibration: Calibration | None = None
    book: Book | None = None
    typical: Floats | None = None
    block: NoiseBlock | None = None
    gap: int = 0
    """Index of the gap between looks."""
    next_look: int = 0
    quiet: int = 0
    """Steps since the last alarm."""


@dataclass(frozen=True, slots=True)
class ModelBased:
    """Looks when it pays."""

    horizon: int | None = None
    periods: tuple[int, ...] = ()
    safe: bool = False
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        schedule.whole(self.horizon, "horizon", self)
        object.__setattr__(self, "periods", tuple(self.periods))

    def start(self, guarantee: Guarantee, bins: int) -> State:
        schedule.steps_to_cover(guarantee, self.horizon, self)
        return State()

    def _period(self, guarantee: Guarantee) -> Period:
        steps = schedule.steps_to_cover(guarantee, self.horizon, self)
        return Period(steps, None if guarantee.w is not None else steps - 1)

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        guarantee = meter.guarantee
        schedule.within_horizon(guarantee, state.step, self.horizon)
        period = self._period(guarantee)
        gaussian = guarantee.mu_squared > 0
        step = state.step
        if state.bank is None:
            state, look = self._look(state, now, meter, period, gaussian, opening=True)
            unit = max(2 * float(period.window * now.l1 / guarantee.pure) ** 2, SMALLEST_VARIANCE)
            if gaussian:
                unit = max(float(period.window * now.l2**2 / guarantee.mu_squared), SMALLEST_VARIANCE)
            bank = Bank.begun(look, unit, self.periods, gaussian)
            shape = look.numbers.shape
            runs = shape[:-1]
            prior = Mixture(look.numbers, np.full(shape, 1e9 * look.variance))
            calibration = Calibration.begun(shape)
            state = replace(state, bank=bank, shock=Shock.begun(runs), calibration=calibration)
            typical = np.median(bank.believed.mean, axis=-1)
            values = self._published(bank.believed, calibration.variance(prior, look), typical)
            return replace(state, step=1, typical=typical), values
        bank = state.bank.predicted(step)
        assert state.calibration is not None and state.shock is not None
        prior = bank.together(step, bank.weights(step))
        if step < state.next_look:
            values = self._published(prior, state.calibration.variance(prior, None), state.typical)
            return replace(state, step=step + 1, bank=bank, quiet=state.quiet + 1), values
        state, look = self._look(state, now, meter, period, gaussian)
        shock = state.shock
        assert state.calibration is not None and shock is not None
        alarmed = self._alarming(look, prior)
        if now.size >= FEWEST_BINS:
            shock, by = shock.shared(look, prior)
            bank = bank.moved(by)
            prior = replace(prior, mean=prior.mean + by)
        calibration = state.calibration.learned(look, prior)
        bank, weights = bank.corrected(look, step)
        state = replace(state, bank=bank, shock=shock, calibration=calibration)
        if not gaussian and not self.safe:
            state = self._planned(state, weights, period, alarmed, meter)
        else:
            state = replace(state, next_look=step + 1)
        typical = 0.95 * state.typical + 0.05 * np.median(bank.believed.mean, axis=-1)
        values = self._published(bank.believed, calibration.variance(prior, look), typical)
        return replace(state, step=step + 1, typical=typical), values

    def _look(
        self, state: State, now: Sealed, meter: Meter, period: Period, gaussian: bool, opening: bool = False
    ) -> tuple[State, Look]:
        guarantee = meter.guarantee
        if gaussian:
            noisy = meter.gaussian(now, guarantee.mu_squared / period.window, "look")
            return state, _as_look(noisy)
        book = Book.empty() if state.book is None else state.book
        room = book.room(state.step, period)
        gap = gaps_of(period)[state.gap]
        wanted = target(gap, period)
        if opening and period.window >= SHORTEST_WITH_OPENING and not self.safe:
            wanted = UNITS // OPENING
        plan = None if opening else block_plan(period, now.size)
        if state.block is not None and state.block.left:
            noisy, block = meter.block_laplace(now, state.block.epsilon, state.block.length, "look", state.block)
            return replace(state, block=block), _as_look(noisy)
        if plan is not None and gap == 1:
            length = plan.length if period.last is None else min(plan.length, period.last - state.step + 1)
            if plan.amount <= book.room(state.step, period, length):
                noisy, block = meter.block_laplace(now, exact(plan.amount, guarantee.pure), length, "look")
                book = book.charged(state.step + length - 1, plan.amount, state.step, period.window)
                return replace(state, block=block, book=book), _as_look(noisy)
        amount = min(wanted, room)
        noisy = meter.laplace(now, exact(amount, guarantee.pure), "look")
        book = book.charged(state.step, amount, state.step, period.window)
        return replace(state, book=book), _as_look(noisy)

    def _alarming(self, look: Look, prior: Mixture) -> NDArray[np.bool_]:
        total = prior.variance + look.variance
        surprise = look.numbers - prior.mean
        bins = surprise.shape[-1]
        most = np.max(np.abs(surprise) / np.sqrt(total), axis=-1) > math.log(bins / ALARM) / math.sqrt(2)
        if bins < FEWEST_BINS:
            return most
        return most | (np.abs(surprise.sum(axis=-1)) > ALARM_TOGETHER * np.sqrt(total.sum(axis=-1)))

    def _planned(
        self, state: State, weights: Floats, period: Period, alarmed: NDArray[np.bool_], meter: Meter
    ) -> State:
        gaps = gaps_of(period)
        plan = block_plan(period, weights.shape[-1])
        table = expected_errors(period, 1.0 if plan is None else plan.relative, False, len(self.periods))
        costs = np.einsum("ge,...eb->...g", table, weights)
        current = np.full(costs.shape[:-1], state.gap)
        longest = sum(gap <= 1 + state.quiet / 2 for gap in gaps) - 1
        index = np.where(alarmed, -1, wanted_gap(costs, current, longest))
        if state.block is not None and state.block.left:
            index = np.minimum(index, 0)
        chosen = int(meter.branch(index))
        quiet = 0 if chosen < 0 else state.quiet + 1
        chosen = max(chosen, 0)
        return replace(state, gap=chosen, quiet=quiet, next_look=state.step + gaps[chosen])

    def _published(self, belief: Mixture, variance: Floats, typical: Floats) -> Values:
        return Values(median(belief.mean, variance, typical), np.sqrt(variance), NoiseLaw.MIXED)


def median(mean: Floats, variance: Floats, typical: Floats) -> Floats:
    level = np.maximum(mean, 1e-9)
    sparse = np.clip(np.log(FULL / np.maximum(typical, 1e-9)) / np.log(FULL / RARE), 0, 1)[..., None]
    return level * (1 - sparse * (1 - np.maximum(1 - variance / (9 * np.square(level)), 0.0) ** 3))
FULL=float(__import__('os').environ.get('FULL','10')); RARE=float(__import__('os').environ.get('RARE','2'))


def _as_look(noisy: Values) -> Look:
    variance = max(float(noisy.std) ** 2, SMALLEST_VARIANCE)
    scale = math.sqrt(variance / 2) if noisy.law is NoiseLaw.LAPLACE else None
    return Look(np.asarray(noisy.numbers, dtype=np.float64), variance, scale)
