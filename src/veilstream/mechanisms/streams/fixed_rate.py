"""A release every few steps, republished in between."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

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
    last: Values | None = None


@dataclass(frozen=True, slots=True)
class FixedRate(PlainRelease):
    """Publishes at every ``interval``-th step with an equal share of the budget, and repeats itself in between.

    Any window of w steps sees at most ⌈w/interval⌉ releases (⌈N/interval⌉ over a horizon of N at user level), so
    each costs ε/⌈w/interval⌉: mean absolute noise l1·⌈w/interval⌉/ε per bin, plus what changed since.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(FixedRate(interval=3), Guarantee(1, w=6), np.arange(7)[:, None] * 100, seed=1)
    >>> y.fresh.tolist()
    [True, False, False, True, False, False, True]

    The fixed-rate baseline of Fan and Xiong (FAST, 2014) and of Li et al. (DSAT, CIKM 2015).
    """

    interval: int = 10
    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    oblivious: ClassVar[bool] = True

    def __post_init__(self) -> None:
        horizons.whole(self.interval, "interval", self)
        horizons.whole(self.horizon, "horizon", self)

    @classmethod
    def variants(cls, steps: int) -> list[dict[str, Any]]:
        """Powers of two between 1, which is ``Uniform``, and all steps, which is ``Sample``."""
        return [{"interval": 1 << power} for power in range(1, steps.bit_length()) if 1 << power < steps]

    def start(self, guarantee: Guarantee, bins: int) -> State:
        self.epsilon_of_release(guarantee)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        horizons.within_horizon(meter.guarantee, state.step, self.horizon)
        if state.last is not None and state.step % self.interval:
            return State(state.step + 1, state.last), state.last.repeated()
        epsilon = self.epsilon_of_release(meter.guarantee)
        values = self.histogram.estimate(now, epsilon, meter)
        return State(state.step + 1, values), values

    def epsilon_of_release(self, guarantee: Guarantee) -> Fraction:
        """What one fresh release costs."""
        return horizons.share(guarantee, self.horizon, self.interval, self)
