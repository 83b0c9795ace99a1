"""How the public threshold of DSAT follows what has been released: feedback on past outputs alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from veilstream.errors import InvalidInputError

MAX_WINDOW = 1000


@dataclass(frozen=True, slots=True)
class Control:
    """What a controller remembers: how far the threshold lies above the noise floor, and recent errors."""

    above: float
    errors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Feedback:
    """Public facts after one comparison.

    ``rate`` is the share of recent steps that released, ``planned`` the share that the budget pays for, ``target`` the
    share of comparisons that should then be positive, ``unit`` the standard deviation of the noise in a comparison,
    in counts, ``since`` the number of steps since the last release.
    """

    positive: bool
    rate: float
    planned: float
    target: float
    unit: float
    since: int


class Controlling(Protocol):
    """What a controller must do."""

    def next(self, control: Control, feedback: Feedback) -> Control: ...


def _positive(value: Any, name: str, owner: object) -> None:
    if not (isinstance(value, int | float) and 0 < value < math.inf):
        raise InvalidInputError(name=name, of=type(owner).__name__, value=value, limit="it must be above 0")


@dataclass(frozen=True, slots=True)
class Constant:
    """Leaves the threshold where it is: DSFT."""

    def next(self, control: Control, feedback: Feedback) -> Control:
        return control


@dataclass(frozen=True, slots=True)
class RatioTracking:
    """Raises the threshold after a release and lowers it after none, by factors that balance at the target rate.

        a ← a · exp(gain · (1[positive] − target)),     T = floor + a.

    In equilibrium a share ``target`` of the comparisons is positive, so that log a tracks a quantile of the changes.
    Steps in proportion need no guess of how large changes are: from a noise of 500 counts to changes of 50,000 is
    three releases at gain 1.5. ``a`` never falls below a tenth of the noise's unit, where noise decides already.
    """

    gain: float = 1.0

    def __post_init__(self) -> None:
        _positive(self.gain, "gain", self)

    def next(self, control: Control, feedback: Feedback) -> Control:
        factor = math.exp(self.gain * (feedback.positive - feedback.target))
        return Control(max(control.above * factor, feedback.unit / 10))


@dataclass(frozen=True, slots=True)
class QuantileTracking:
    """The same balance in equal steps: T ← T + gain · unit · (1[positive] − target)."""

    gain: float = 2.0

    def __post_init__(self) -> None:
        _positive(self.gain, "gain", self)

    def next(self, control: Control, feedback: Feedback) -> Control:
        return Control(control.above + self.gain * feedback.unit * (feedback.positive - feedback.target))


@dataclass(frozen=True, slots=True)
class PID:
    """The paper's controller, on the signed error e = (rate − planned) / tolerance:

        T ← T + gain · unit · (θ_P e + θ_I Σ_window e + θ_D (e_i − e_j)/(t_i − t_j)),

    with j the last release. The paper's own e = |E − δ|/δ is 1 when there is no error at all, which drives the
    threshold from limit to limit whatever the data.
    """

    proportional: float = 1.0
    integral: float = 0.0
    derivative: float = 0.0
    window: int = 5
    tolerance: float = 0.05
    gain: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tolerance", "gain"):
            _positive(getattr(self, name), name, self)
        for name in ("proportional", "integral", "derivative"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidInputError(name=name, of="PID", value=getattr(self, name), limit="at least 0 is needed")
        if type(self.window) is not int or not 1 <= self.window <= MAX_WINDOW:
            raise InvalidInputError(
                name="window", of="PID", value=self.window, limit=f"a whole number from 1 to {MAX_WINDOW} is needed"
            )

    def next(self, control: Control, feedback: Feedback) -> Control:
        error = (feedback.rate - feedback.planned) / self.tolerance
        # The first entry is the error at the last release, the others are the most recent ones.
        at_release, recent = (control.errors[0], control.errors[1:]) if control.errors else (error, ())
        if feedback.positive:
            at_release = error
        recent = (*recent, error)[-self.window :]
        slope = (error - at_release) / max(feedback.since, 1)
        push = self.proportional * error + self.integral * sum(recent) + self.derivative * slope
        return replace(control, above=control.above + self.gain * feedback.unit * push, errors=(at_release, *recent))


Controller: TypeAlias = RatioTracking | QuantileTracking | PID
