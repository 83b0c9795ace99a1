"""Units that change little are published together, each bin at its own time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.group_plan import GroupPlan, longer
from veilstream.mechanisms.streams.window_sums import LONGEST, WindowSums, coarse
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

Bins = NDArray[np.int64]
SAMPLING_STEPS = 256


@dataclass(slots=True)
class State:
    """``pending`` is sealed: the exact sum of each bin's units since its last publication. The rest is public."""

    window: WindowSums
    plan: GroupPlan
    pending: Sealed | None = None


@dataclass(frozen=True, slots=True)
class RetroactiveGrouping:
    """Publishes, at every step, the counts of the last ``window`` units; units that change little share one noise.

    A bin that changes slowly lets units wait and publishes their *sum* later: one event is in one sum, so m units get
    one noise Lap(l1/ε₂) where unit-by-unit publication draws m. Until then its last mean stands in for them. A monitor
    spends ε₁ = ``monitor`` · ε on each unit that waits, and the group is published early when it sees the bin move.
    Each (bin, unit) is read once by the monitor (ε₁) and at most once for publication (ε₂), hence ε in total.

    * Each bin starts unit by unit, with all of ε and no monitor: exactly :class:`TimeUnit`. When its releases have been
      calm for a while it groups, at first ⌈factor⌉ units, then ⌈factor·m⌉ after a group of m, up to ``largest_group``
      (default the largest m with m² < 2ω: waiting units err together, by up to m² times one's error, against ω
      noises saved). A group grows only when some have gone well.
    * The monitor publishes early when (Σ(Ñ − guess))² ≥ 2/ε₂² + n·(ln(1/tail)/ε₁)² over the n units waiting. When this
      unit alone passes that level (n = 1), the units before it and the unit itself are published apart.
    * Sums that moved too far from their guesses shorten the groups, or send the bin back to units, for eight times as
      long at each failure. All of this is decided by published numbers (see ``GroupPlan``).
    * A published sum replaces the guesses of its units in all later windows. ``revise=False`` gives Algorithm 1 of
      the paper instead: guesses are never corrected, all bins group from the first step, a unit that alone passes the
      level is published alone and those waiting stay guesses; with ``tail=1``, ``factor=2``, ``monitor="1/10"`` as
      printed.
    * ``sampling`` below 1 (a multiple of 1/256) makes the monitor look at a Bernoulli sample of the events.

    Under a protected window w > 1 all of this happens at ε/w for every bin and timestamp (``per_timestamp``):
    whatever a person does in w timestamps, in whichever bins, then costs ε at most, and each group has one noise
    Lap(w·l1/ε₂), however many of its units are the person's. At user level it is refused.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.streams import TimeUnit
    >>> slow, g = np.full((300, 50), 40), Guarantee("1/10", w=1)
    >>> error = {type(m).__name__: ((simulate(m, g, slow, seed=1)[15:] - 15 * 40) ** 2).mean()
    ...          for m in (RetroactiveGrouping(), TimeUnit())}
    >>> bool(error["RetroactiveGrouping"] < 0.7 * error["TimeUnit"])
    True

    Chen, Shen, Jin: Private analysis of infinite data streams via retroactive grouping, CIKM 2015, Algorithms 1 and
    2. Corrected: the level of the monitor (printed 2/ε₂², it fires on its own noise most of the time); γ = 1 by
    default (the printed optimum has γ² upside down); the error of window sums (units with a shared noise do not add
    their variances).
    """

    per_timestamp: ClassVar[bool] = True
    window_sums: ClassVar[bool] = True

    window: int = 15
    monitor: Exact = "1/5"
    tail: Exact = "1/50"
    factor: Exact = "17/10"
    sampling: Exact = 1
    revise: bool = True
    largest_group: int | None = None

    def __post_init__(self) -> None:
        horizons.whole(self.window, "window", self)
        horizons.whole(self.largest_group, "largest_group", self)
        for name in ("window", "largest_group"):
            if (getattr(self, name) or 1) > LONGEST:
                raise InvalidInputError(
                    name=name, of="RetroactiveGrouping", value=getattr(self, name), limit=f"at most {LONGEST}"
                )
        self._between("monitor", self.monitor, 0, 1, closed=False)
        self._between("tail", self.tail, 0, 1)
        self._between("factor", self.factor, 1, 1000)
        self._between("sampling", self.sampling, 0, 1)
        if SAMPLING_STEPS % rational(self.sampling, "sampling").denominator:
            raise InvalidInputError(
                name="sampling", value=self.sampling, limit=f"a multiple of 1/{SAMPLING_STEPS} is needed"
            )

    def _between(self, name: str, value: Exact, low: int, high: int, *, closed: bool = True) -> None:
        exact = rational(value, name)
        if not low < exact <= high or (exact == high and not closed):
            raise InvalidInputError(
                name=name,
                of="RetroactiveGrouping",
                value=value,
                limit=f"it must lie above {low} and {'up to' if closed else 'below'} {high}",
            )

    def start(self, guarantee: Guarantee, bins: int) -> State:
        if not guarantee.endless:
            raise InvalidInputError(
                "guarantee at user level (w=None): one budget cannot pay for an endless stream of groups; "
                "give a window w, or TimeUnit(horizon=...) for a stream that ends"
            )
        return State(WindowSums.start(self.window, bins), GroupPlan.start(bins))

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        step = _Step(self, state, now, meter)
        return step.revised() if self.revise else step.as_printed()


@dataclass(frozen=True, slots=True)
class _Constants:
    """What the parameters come to at one budget and one ``l1``."""

    epsilon: Fraction
    epsilon_1: Fraction
    epsilon_2: Fraction
    factor: Fraction
    sampling: Fraction
    one_unit: float
    tail_squared: float
    window_noise: float
    largest: int


@lru_cache(maxsize=64)
def _constants(parameters: RetroactiveGrouping, epsilon: Fraction, max_contribution: float) -> _Constants:
    epsilon_1 = epsilon * rational(parameters.monitor, "monitor")
    epsilon_2 = epsilon - epsilon_1
    sampling = rational(parameters.sampling, "sampling")
    # The noise on a monitored count has scale l1/ε₁, or what sampling makes of it.
    gamma, per_count = float(sampling), float(epsilon_1) / max_contribution
    scale = 1 / (gamma * math.log1p(math.expm1(min(per_count, 700.0)) / gamma))
    return _Constants(
        epsilon,
        epsilon_1,
        epsilon_2,
        factor=rational(parameters.factor, "factor"),
        sampling=sampling,
        one_unit=2 * (max_contribution / float(epsilon_2)) ** 2,
        tail_squared=(math.log(float(rational(parameters.tail, "tail"))) * scale) ** 2,
        window_noise=parameters.window * 2 * (max_contribution / float(epsilon)) ** 2,
        largest=parameters.largest_group or max(2, math.isqrt(2 * parameters.window - 1)),
    )


class _Step:
    """One step at event level: changes copies of the public state and keeps the pending sums."""

    def __init__(self, parameters: RetroactiveGrouping, state: State, now: Sealed, meter: Meter) -> None:
        self.parameters = parameters
        self.constants = _constants(parameters, meter.guarantee.pure, float(now.l1))
        self.window, self.plan = state.window.copy(), state.plan.copy()
        self.pending, self.now, self.meter = state.pending, now, meter
        self.bins = self.window.guess.size

    def watch(self, alone: Bins | None = None) -> NDArray[np.float32]:
        """Monitored counts of this unit, less their guesses, in all bins but ``alone``; 0 in these."""
        # Drawing noise for bins that are not watched costs less than leaving them out: they are few.
        x = self.now if alone is None else self.now.without(alone)
        epsilon, rate = self.constants.epsilon_1, self.constants.sampling
        if rate == 1:
            seen = self.meter.laplace(x, epsilon, "monitor").numbers
        else:
            seen = self.meter.sampled_laplace(x, epsilon, rate, "monitor").numbers
        moved = np.empty(self.bins, dtype=np.float32)
        np.subtract(seen, self.window.guess, out=moved, casting="same_kind")
        if alone is not None:
            moved[alone] = 0
        return moved

    def end(self, pending: Sealed) -> tuple[State, Values]:
        numbers, std = self.window.total()
        return State(self.window, self.plan, pending), Values(numbers, std)

    def revised(self) -> tuple[State, Values]:
        alone = np.flatnonzero(~self.plan.grouping)
        self.window.extend()
        if self.pending is None:
            pending = self.now.with_starts()
            self._units(pending.select(alone), alone)
            return self.end(pending.restarted(alone))
        ready = jumped = np.arange(0)
        if alone.size < self.bins:
            ready, jumped = self._due(self.watch(alone if alone.size else None))
        groups, units, pending = self.pending.split_pending(self.now, ready, jumped, alone)
        if groups.size:
            self._groups(groups, ready, jumped)
        if alone.size:
            self._units(units, alone)
        return self.end(pending)

    def _due(self, moved: NDArray[np.float32]) -> tuple[Bins, Bins]:
        """Bins whose groups are published with this unit, and those that it has jumped in."""
        plan, one_unit, tail_squared = self.plan, self.constants.one_unit, self.constants.tail_squared
        waiting = self.window.open_units
        plan.drift = coarse(plan.drift + moved)
        jumped = np.flatnonzero(np.square(moved, out=moved) >= one_unit + tail_squared)
        jumped = jumped[waiting[jumped] > 1]
        publishing = waiting >= plan.due
        level = waiting * np.float32(tail_squared)
        level += one_unit
        publishing |= np.square(plan.drift) >= level
        publishing &= plan.grouping
        publishing[jumped] = False
        return np.flatnonzero(publishing), jumped

    def _groups(self, groups: Sealed, ready: Bins, jumped: Bins) -> None:
        """Publish the groups of ``ready``; of ``jumped`` what waited before this unit, and the unit itself."""
        window, constants = self.window, self.constants
        out = self.meter.laplace(groups, constants.epsilon_2, "group")
        total, variance = out.numbers, float(out.std) ** 2
        before, total = total[: jumped.size], total[jumped.size :]
        if jumped.size:
            size = window.close(jumped, before, variance, newest=False)
            window.believe(jumped, before / size, size, np.float32(variance) / np.square(size, dtype=np.float32))
        bins = np.concatenate([ready, jumped])
        guess, noise = window.guess[bins], window.guess_variance[bins]
        size = window.close(bins, total, variance)
        squared = np.square(size, dtype=np.float32)
        guess *= size
        noise *= squared
        noise += variance
        self.plan.saw_groups(
            bins,
            size,
            (total - guess).astype(np.float32),
            noise,
            constants.window_noise,
            constants.factor,
            constants.largest,
        )
        window.believe(bins, total / size, size, np.float32(variance) / squared)

    def _units(self, units: Sealed, bins: Bins) -> None:
        constants = self.constants
        out = self.meter.laplace(units, constants.epsilon, "unit")
        total, variance = out.numbers, float(out.std) ** 2
        difference = total - self.window.guess[bins]
        self.plan.saw_units(bins, difference, variance, constants.window_noise, constants.factor)
        size = self.window.close(bins, total, variance)
        self.window.believe(bins, total, size, variance)

    def as_printed(self) -> tuple[State, Values]:
        window, plan = self.window, self.plan
        every = np.arange(self.bins)
        first, waiting = self.pending is None, window.open_units
        if self.pending is None:
            pending = self.now.with_starts()
            ready, size = every, np.ones(self.bins, dtype=np.int16)
        else:
            jumped = self.watch() ** 2 >= self.constants.one_unit + self.constants.tail_squared
            pending = self.pending.restarted(jumped) + self.now
            size = np.where(jumped, 1, waiting).astype(np.int16)
            ready = np.flatnonzero(jumped | (waiting >= plan.due))
        window.extend()
        if ready.size and not first:
            # Units released with one number are a block of their own; it ends before this unit.
            known_variance = window.guess_variance[ready] * waiting[ready].astype(np.float64) ** 2
            window.close(ready, waiting[ready] * window.guess[ready], known_variance, newest=False)
        if ready.size:
            purpose = "unit" if first else "group"
            out = self.meter.laplace(pending.select(ready), self.constants.epsilon_2, purpose)
            pending = pending.restarted(ready)
            total, variance, length = out.numbers, float(out.std) ** 2, size[ready]
            # Units so released are not yet a block: size 0.
            window.believe(ready, total / length, 0, variance / length.astype(np.float64) ** 2)
            due = longer(length, self.constants.factor)
            largest = self.parameters.largest_group
            plan.due[ready] = due if largest is None else np.minimum(due, largest)
        return self.end(pending)
