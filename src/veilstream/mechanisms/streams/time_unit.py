"""Noise on every time unit, summed over a sliding window."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Numbers, Values


@dataclass(frozen=True, slots=True)
class State:
    """The releases of the last ``window`` units, oldest overwritten first, and their sum."""

    step: int = 0
    units: list[NDArray[np.int64] | NDArray[np.float64]] = field(
        default_factory=list[NDArray[np.int64] | NDArray[np.float64]]
    )
    variances: list[float | NDArray[np.float64]] = field(default_factory=list[float | NDArray[np.float64]])
    total: NDArray[np.int64] | NDArray[np.float64] | None = None
    variance: float | NDArray[np.float64] = 0.0


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """Publishes, at every step, the counts of the last ``window`` units as the sum of one noisy release per unit.

    One event meets one release, so each may cost all of ε at event level (ε/w for a window w of protection, ε/N over a
    horizon of N steps at user level). With Laplace noise the expected squared error of a bin is 2ω/ε² in a window of ω
    units, whatever the data: the error to beat by grouping units. A step costs the same for every ω: the newest
    release enters the sum, the oldest leaves it.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(TimeUnit(window=15), Guarantee("1/10", w=1), np.full((500, 40), 30), seed=1)
    >>> error = ((y[15:] - 15 * 30) ** 2).mean()
    >>> bool(abs(error / (2 * 15 / 0.1**2) - 1) < 0.1)
    True

    Baseline ("time unit based perturbation", section 4.2) of Chen, Shen, Jin: Private analysis of infinite data
    streams via retroactive grouping, CIKM 2015.
    """

    window: int = 15
    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    oblivious: ClassVar[bool] = True
    window_sums: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.window, "window", self)
        horizons.whole(self.horizon, "horizon", self)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        horizons.share(guarantee, self.horizon, 1, self)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        horizons.within_horizon(meter.guarantee, state.step, self.horizon)
        unit = self.histogram.estimate(now, horizons.share(meter.guarantee, self.horizon, 1, self), meter)
        new_variance: float | NDArray[np.float64] = unit.std * unit.std
        units, variances = list(state.units), list(state.variances)
        total: Numbers = unit.numbers if state.total is None else _sum(state.total, unit.numbers)
        variance = state.variance + new_variance
        if state.step < self.window:
            units.append(unit.numbers)
            variances.append(new_variance)
        else:
            slot = state.step % self.window
            total = _sum(total, -units[slot])
            variance = variance - variances[slot]
            units[slot], variances[slot] = unit.numbers, new_variance
        law = unit.law if len(units) == 1 else NoiseLaw.MIXED
        return State(state.step + 1, units, variances, total, variance), Values(total, _root(variance), law)


def _sum(a: Numbers, b: Numbers) -> Numbers:
    result: Numbers = a + b
    return result


def _root(variance: float | NDArray[np.float64]) -> float | NDArray[np.float64]:
    root = np.sqrt(np.maximum(variance, 0.0))
    return float(root) if np.ndim(root) == 0 else root
