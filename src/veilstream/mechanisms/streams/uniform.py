"""A release at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import horizons
from veilstream.mechanisms.streams.plain_release import PlainRelease
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class State:
    step: int = 0


@dataclass(frozen=True, slots=True)
class Uniform(PlainRelease):
    """Publishes every step with ε/w (ε/N over a horizon of N steps at user level).

    Mean absolute noise l1·w/ε per bin and no error from waiting: hard to beat where data change quickly and counts
    are large.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(Uniform(), Guarantee("1/2", w=10), np.full((1000, 4), 10_000), seed=1)
    >>> float(abs(y - 10_000).mean().round())
    20.0

    The uniform baseline of Kellaris et al.: Differentially private event sequences over infinite streams, VLDB 2014.
    """

    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    oblivious: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.horizon, "horizon", self)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self.epsilon_of_release(guarantee)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        horizons.within_horizon(meter.guarantee, state.step, self.horizon)
        epsilon = self.epsilon_of_release(meter.guarantee)
        return State(state.step + 1), self.histogram.estimate(now, epsilon, meter)

    def epsilon_of_release(self, guarantee: Guarantee) -> Fraction:
        """What one fresh release costs."""
        return horizons.share(guarantee, self.horizon, 1, self)
