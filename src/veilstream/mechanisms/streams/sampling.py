"""When to look at the data next: at a fixed rate, or steered by how far the last looks surprised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.meter import Meter

Errors: TypeAlias = float | NDArray[np.float64]
"""A feedback error, or one for each of many runs."""
LARGEST_EXPONENT = 50.0


class SamplingRule(StrEnum):
    """How sampling points are chosen."""

    PID = "pid"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class LookPacer:
    """The gains of a PID controller on feedback errors E, and how its answer moves the interval.

    Δ = C_p·E + (C_i/T_i)·Σ of the last T_i errors + C_d·(E − E')/(k − k'), where E' is the error of the last sample
    before, at step k'. Then I ← I + θ(1 − e^{(Δ−ξ)/ξ}): below the set point ξ the interval grows by less than θ, above
    it shrinks, and fast.

    The interval stays between an even pace of the looks that are left and ``hurry`` times that pace. Slower, some of
    the budget would never be used; faster, a restless series would use it up long before its end.
    """

    proportional: float
    integral: float
    derivative: float
    memory: int
    theta: float
    set_point: float
    hurry: float

    def delta(self, errors: Sequence[Errors], gap: int) -> Errors:
        """Δ from the last errors, the newest last."""
        recent: Errors = sum(errors[-self.memory :]) / self.memory
        slope = (errors[-1] - errors[-2]) / gap if len(errors) > 1 else 0.0
        return self.proportional * errors[-1] + self.integral * recent + self.derivative * slope

    def interval(self, before: int, delta: float, pace: float) -> int:
        """The next interval, a whole number of at least 1.

        >>> steered = LookPacer(0.9, 0.1, 0.0, 5, 5.0, 0.1, hurry=4.0)
        >>> [steered.interval(10, delta, pace=12.5) for delta in (0.0, 0.1, 0.2, 1.0)]
        [12, 10, 4, 4]
        """
        exponent = min((delta - self.set_point) / self.set_point, LARGEST_EXPONENT)
        wanted = round(before + self.theta * (1 - math.exp(exponent)))
        return max(1, math.ceil(pace / self.hurry), min(wanted, math.floor(pace)))


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """The sampling points so far, as far as the future needs them: public, because errors come from releases.

    ``recent`` holds those inside the last window (none are kept at user level, where ``used`` alone counts).
    """

    due: int = 0
    interval: int = 1
    last: int = -1
    used: int = 0
    errors: tuple[Errors, ...] = ()
    recent: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def is_due(self, step: int) -> bool:
        return step >= self.due


@dataclass(frozen=True, slots=True)
class Budgeted:
    """At most ``samples`` looks in any ``steps`` successive steps (in all of them at user level)."""

    samples: int
    steps: int
    user_level: bool

    @classmethod
    def of(cls, guarantee: Guarantee, samples: int, steps: int) -> Budgeted:
        return cls(samples, steps, not guarantee.endless)

    @property
    def even(self) -> int:
        """The interval that spreads the looks evenly."""
        return -(-self.steps // self.samples)

    def taken(self, looks: Looks, step: int, error: Errors | None, controller: LookPacer | None, meter: Meter) -> Looks:
        """The schedule after a look at ``step`` with its feedback ``error`` (None at the first look).

        ``controller`` is None at a fixed rate. Until it has as many errors as its memory, looks are even.
        """
        used = looks.used + 1
        recent = looks.recent
        if not self.user_level:
            recent = np.append(recent[recent > step - self.steps], step)
        interval, errors = self.even, looks.errors
        if controller is not None:
            pace = self._pace(step, used)
            interval = max(1, math.floor(pace))
            if error is not None:
                errors = (*errors, error)[-max(controller.memory, 2) :]
            if len(errors) >= controller.memory:
                delta = controller.delta(errors, step - looks.last)
                wanted = [controller.interval(looks.interval, run, pace) for run in np.ravel(delta).tolist()]
                interval = int(meter.branch(np.array(wanted, dtype=np.int64).reshape(np.shape(delta))))
        return Looks(self._free(step + interval, used, recent), interval, step, used, errors, recent)

    def _pace(self, step: int, used: int) -> float:
        """The interval that spreads the looks still to come evenly, with one more interval after the last."""
        if self.user_level:
            return (self.steps - step) / (self.samples - used + 1)
        return self.steps / self.samples

    def _free(self, step: int, used: int, recent: NDArray[np.int64]) -> int:
        """The first step from ``step`` on at which the budget allows a look."""
        if self.user_level:
            return step if used < self.samples else self.steps
        if recent.size < self.samples:
            return step
        return max(step, int(recent[-self.samples]) + self.steps)
