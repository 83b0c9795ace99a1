"""One release per window, with all of its budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
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
class Sample(PlainRelease):
    """Publishes once every w steps with the whole ε and repeats itself in between; at user level, once for ever.

    Mean absolute noise l1/ε per bin, plus all that changes within a window: hard to beat where data change slowly.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> y = simulate(Sample(), Guarantee(1, w=4), np.full((8, 2), 50), seed=1)
    >>> y.fresh.tolist()
    [True, False, False, False, True, False, False, False]

    The sampling baseline of Kellaris et al.: Differentially private event sequences over infinite streams, VLDB 2014.
    """

    histogram: HistogramMechanism = field(default_factory=Geometric)
    oblivious: ClassVar[bool] = True

    def start(self, guarantee: Guarantee, bins: int) -> State:
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        period = meter.guarantee.period
        if state.last is not None and (period is None or state.step % period):
            return State(state.step + 1, state.last), state.last.repeated()
        values = self.histogram.estimate(now, self.epsilon_of_release(meter.guarantee), meter)
        return State(state.step + 1, values), values

    def epsilon_of_release(self, guarantee: Guarantee) -> Fraction:
        """What one fresh release costs."""
        return guarantee.pure
