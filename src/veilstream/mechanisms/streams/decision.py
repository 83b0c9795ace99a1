"""Releases by distance: the step that DSFT and DSAT share, and the exact budget of its sparse-vector decisions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.controller import Control, Controlling, Feedback
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.threshold import SealedThreshold
from veilstream.values.values import NoiseLaw, Values

FRESH_AFTER_EACH = 5
"""Up to this many releases per window a new secret after each positive is the cheaper way."""
SHARES = 1024
"""A default decision budget is a whole number of these parts of epsilon: its noise scales stay simple."""
ROOT_BITS = 20


class Renewal(StrEnum):
    """When the secret noise of the comparisons is drawn anew."""

    NEVER = "never"
    AFTER_POSITIVE = "after each positive"
    EVERY_WINDOW = "every window"


@dataclass(frozen=True, slots=True)
class Plan:
    """Exact budgets: ``share`` for each of ``releases`` histograms and two for the decisions.

    The decisions of any window (of the whole horizon at user level) cost at most
    weight_rho · epsilon_rho + weight_nu · epsilon_nu = decision, with weights

    * 1 and 2(C−1) at user level: one secret, and the first release needs no decision;
    * C and 2C with a fresh secret after each positive: a window with k positives touches at most min(k+1, C) blocks,
      because comparisons pause while C releases lie in the last w−1 steps;
    * 2 and 3C with a fresh secret for every stretch of w timestamps: a window touches two blocks, each with at most C
      positives, which it pays for wherever in the block they lie, and at most C positives of its own;
    * R and 2R with a fresh secret after each positive where people count in few steps: of C releases in a period one
      unit meets at most R, each of its timestamps lies in one block, and a block has one positive.

    For a given decision budget the variance 1/epsilon_rho² + 1/epsilon_nu² is least at
    epsilon_rho = decision/(K·weight_rho^⅓), epsilon_nu = decision/(K·weight_nu^⅓), K = weight_rho^⅔ + weight_nu^⅔.
    """

    steps: int
    releases: int
    share: Fraction
    decision: Fraction
    epsilon_rho: Fraction
    epsilon_nu: Fraction
    renewal: Renewal

    def noise_std(self, max_contribution: float) -> float:
        """Standard deviation of the two noises of a comparison together, in counts."""
        if not self.decision:
            return 0.0
        return max_contribution * math.sqrt(2 / float(self.epsilon_rho) ** 2 + 2 / float(self.epsilon_nu) ** 2)


def root_down(value: int) -> Fraction:
    """The cube root of a whole number, rounded down to a multiple of 2⁻²⁰, by whole numbers alone.

    >>> root_down(27), float(root_down(2)) ** 3 < 2 < float(root_down(2) + Fraction(1, 1 << 20)) ** 3
    (Fraction(3, 1), True)
    """
    scaled = value << (3 * ROOT_BITS)
    root = 1 << -(-scaled.bit_length() // 3)
    while True:
        better = (2 * root + scaled // (root * root)) // 3
        if better >= root:
            return Fraction(root, 1 << ROOT_BITS)
        root = better


@lru_cache(maxsize=64)
def make_plan(guarantee: Guarantee, steps: int, releases: int, decision_share: Fraction | None, bins: int) -> Plan:
    """The plan for at most ``releases`` histograms of ``bins`` values in any ``steps`` timestamps."""
    most = min(releases, steps)
    met = guarantee.shares(most)
    if not guarantee.endless:
        weights, renewal = (1, 2 * (most - 1)), Renewal.NEVER
    elif guarantee.presence is not None:
        weights, renewal = (met, 2 * met), Renewal.AFTER_POSITIVE
    elif most <= FRESH_AFTER_EACH:
        weights, renewal = (most, 2 * most), Renewal.AFTER_POSITIVE
    else:
        weights, renewal = (2, 3 * most), Renewal.EVERY_WINDOW
    zero = Fraction(0)
    if 0 in weights:
        return Plan(steps, most, guarantee.pure / met, zero, zero, zero, renewal)
    roots = [root_down(weight) for weight in weights]
    whole = sum((root * root for root in roots), zero)
    share = decision_share or _default_share(whole, bins, met)
    decision = guarantee.pure * share
    epsilon_nu = decision * Fraction(math.floor((1 << ROOT_BITS) / (whole * roots[1])), 1 << ROOT_BITS)
    epsilon_rho = (decision - weights[1] * epsilon_nu) / weights[0]
    if not epsilon_nu:
        raise InvalidBudgetError(
            name="releases",
            value=most,
            limit=f"nothing of epsilon is left for each decision whether to release, in {steps:,} steps",
            next_step="give fewer releases, or a shorter window or horizon",
        )
    return Plan(steps, most, (guarantee.pure - decision) / met, decision, epsilon_rho, epsilon_nu, renewal)


def _default_share(whole: Fraction, bins: int, releases: int) -> Fraction:
    """decision/publication = (2K³/(U·C²))^⅓ makes the noise of a distance to a noisy release least, but no more than
    a fiftieth of all: beyond it the releases lose more than the decisions gain (measured: docs/adaptive.md)."""
    ratio = root_down(math.floor(2 * whole**3 * SHARES**3 / (bins * releases * releases))) / SHARES
    part = round(SHARES * ratio / (1 + ratio))
    return Fraction(min(max(part, 1), SHARES // 50), SHARES)


def floor_distance(last: Values, bins: int) -> tuple[float, float]:
    """Mean and standard deviation of the L1 distance from a release to its own exact histogram.

    Exact for Laplace noise; for noise of another or unknown law that of a Gaussian with the same deviation.
    """
    std = np.asarray(last.std, dtype=np.float64)
    each = bins / std.size
    mean = math.sqrt(0.5) if last.law is NoiseLaw.LAPLACE else math.sqrt(2 / math.pi)
    spread = math.sqrt(1 - mean * mean)
    return mean * each * float(std.sum()), spread * math.sqrt(each * float((std * std).sum()))


@dataclass(frozen=True, slots=True)
class State:
    """Where a stream by distance stands.

    ``releases`` are the steps of those that still count, ``origin`` is the timestamp of the first step (None before
    it, and in states of earlier versions).
    """

    step: int = 0
    last: Values | None = None
    floor: float = 0.0
    unit: float = 0.0
    released: int = 0
    releases: tuple[int, ...] = ()
    threshold: SealedThreshold | None = None
    control: Control | None = None
    origin: int | None = None


def default_releases(steps: int) -> int:
    """How many releases to pay for where nobody said: midway between once per window and every step, no optimum."""
    return math.isqrt(steps)


@dataclass(frozen=True, slots=True)
class DistanceRule:
    """The parameters and the step of a mechanism that releases by distance; ``owner`` lends its name to errors."""

    owner: object
    controller: Controlling
    histogram: HistogramMechanism
    releases: int | horizons.Rate | None
    horizon: int | None
    burn_in: int
    decision_share: Fraction | None
    margin: float
    spacing: float
    threshold: float | None = None

    def __post_init__(self) -> None:
        name = type(self.owner).__name__
        horizons.whole(self.releases, "releases", self.owner)
        horizons.whole(self.horizon, "horizon", self.owner)
        if type(self.burn_in) is not int or self.burn_in < 0:
            raise InvalidInputError(f"burn_in {self.burn_in!r} of {name}: a whole number of at least 0 is needed")
        share: Any = self.decision_share
        if share is not None and not (isinstance(share, Fraction) and 0 < share < 1):
            raise InvalidInputError(f"decision_share {share!r} of {name}: a Fraction above 0 and below 1 is needed")
        value: Any
        for value, field in ((self.margin, "margin"), (self.threshold, "threshold")):
            if value is not None and not (isinstance(value, int | float) and 0 <= value < math.inf):
                raise InvalidInputError(name=field, of=name, value=value, limit="at least 0 is needed")
        value = self.spacing
        if not (isinstance(value, int | float) and 0 <= value <= 1):
            raise InvalidInputError(f"spacing {value!r} of {name}: between 0 and 1 is needed")

    def plan(self, guarantee: Guarantee, bins: int) -> Plan:
        """The budgets under ``guarantee``."""
        steps = horizons.steps_to_cover(guarantee, self.horizon, self.owner)
        releases = default_releases(steps) if self.releases is None else self.releases
        if isinstance(releases, horizons.Rate):
            releases = steps
        return make_plan(guarantee, steps, releases, self.decision_share, bins)

    def _gap(self, plan: Plan) -> int:
        """The least number of steps from one release to the next decision."""
        return max(1, int(self.spacing * plan.steps / plan.releases))

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self.plan(guarantee, bins)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        """One timestamp: the first release, the last one at user level, a pause, or a decision."""
        guarantee = meter.guarantee
        horizons.within_horizon(guarantee, state.step, self.horizon)
        plan = self.plan(guarantee, now.size)
        if state.origin is None:
            state = replace(state, origin=now.span.last - state.step)
        if guarantee.endless:
            state = replace(state, releases=tuple(r for r in state.releases if r > state.step - plan.steps))
        if not guarantee.endless and state.step == plan.steps - 1 and len(state.releases) < plan.releases:
            return self._release(plan, state, now, meter, _remaining(plan, state, guarantee))
        if state.last is None:
            return self._release(plan, state, now, meter, plan.share)
        pause = state.step < self.burn_in or state.step - state.released < self._gap(plan)
        if pause or len(state.releases) >= plan.releases:
            return replace(state, step=state.step + 1), state.last.repeated()
        return self._decide(plan, state, state.last, now, meter)

    def _release(self, plan: Plan, state: State, now: Sealed, meter: Meter, epsilon: Fraction) -> tuple[State, Values]:
        values = self.histogram.estimate(now, epsilon, meter)
        floor, unit = self._noise(plan, values, now.size, float(now.l1))
        next_state = State(
            step=state.step + 1,
            last=values,
            floor=floor,
            unit=unit,
            released=state.step,
            releases=(*state.releases, state.step),
            threshold=state.threshold,
            control=state.control or Control(self._above(unit)),
            origin=state.origin,
        )
        return next_state, values

    def first_threshold(self, plan: Plan, release: Values, bins: int, max_contribution: float) -> tuple[float, float]:
        """The floor under the distance to ``release``, and how far above it the threshold starts."""
        floor, unit = self._noise(plan, release, bins, max_contribution)
        return floor, self._above(unit)

    def _noise(self, plan: Plan, release: Values, bins: int, max_contribution: float) -> tuple[float, float]:
        floor, spread = floor_distance(release, bins)
        return floor, math.hypot(plan.noise_std(max_contribution), spread)

    def _above(self, unit: float) -> float:
        return self.margin * unit if self.threshold is None else float(self.threshold)

    def _decide(self, plan: Plan, state: State, last: Values, now: Sealed, meter: Meter) -> tuple[State, Values]:
        assert state.control is not None
        distance = now.distance(last.numbers)
        threshold = state.threshold
        if threshold is not None and not meter.is_open(threshold):
            threshold = None
        if threshold is not None and plan.renewal is Renewal.EVERY_WINDOW and _is_past(plan, state, threshold, now):
            meter.close(threshold)
            threshold = None
        if threshold is None:
            threshold = meter.open_threshold(plan.epsilon_rho, plan.epsilon_nu, distance.l1, "decide")
        positive = meter.above(threshold, distance, state.floor + state.control.above)
        used_up = len(state.releases) + 1 == plan.releases
        if positive and (plan.renewal is Renewal.AFTER_POSITIVE or (plan.renewal is Renewal.NEVER and used_up)):
            meter.close(threshold)
            threshold = None
        feedback = Feedback(
            positive=positive,
            rate=(len(state.releases) + positive) / min(state.step + 1, plan.steps),
            planned=plan.releases / plan.steps,
            target=1 / (plan.steps / plan.releases - self._gap(plan) + 1),
            unit=state.unit,
            since=state.step - state.released,
        )
        state = replace(state, threshold=threshold, control=self.controller.next(state.control, feedback))
        if positive:
            return self._release(plan, state, now, meter, plan.share)
        return replace(state, step=state.step + 1), last.repeated()


def _is_past(plan: Plan, state: State, threshold: SealedThreshold, now: Sealed) -> bool:
    """Whether the secret was drawn in an earlier one of the successive stretches of w timestamps.

    Timestamps, not steps of the mechanism: where some were skipped, blocks would be shorter than planned otherwise, and
    a window could touch three of them.
    """
    assert state.origin is not None
    return (threshold.opened - state.origin) // plan.steps != (now.span.last - state.origin) // plan.steps


def _remaining(plan: Plan, state: State, guarantee: Guarantee) -> Fraction:
    """What is left at the end of the horizon, by counting: it holds for releases of any kind of noise."""
    positives = max(len(state.releases) - 1, 0)
    opened = plan.epsilon_rho if state.threshold is not None else 0
    return guarantee.pure - len(state.releases) * plan.share - opened - 2 * positives * plan.epsilon_nu
