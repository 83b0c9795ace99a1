"""A release at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism, divided
from veilstream.mechanisms.streams import schedule
from veilstream.mechanisms.streams.usefulness import Useful, mean_error, release_of_zeros, sum_bound
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class State:
    step: int = 0


@dataclass(frozen=True, slots=True)
class Uniform:
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
        schedule.whole(self.horizon, "horizon", self)

    def start(self, guarantee: Guarantee, bins: int) -> State:
        schedule.share(guarantee, self.horizon, 1, self)
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        schedule.within_horizon(meter.guarantee, state.step, self.horizon)
        epsilon = schedule.share(meter.guarantee, self.horizon, 1, self)
        return State(state.step + 1), self.histogram.estimate(now, epsilon, meter)

    def expected_error(self, guarantee: Guarantee, bins: int, max_contribution: int = 1) -> float:
        """Mean absolute noise per bin of a release."""
        return mean_error(self._rehearsed(guarantee, bins, max_contribution))

    def usefulness(
        self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, max_contribution: int = 1
    ) -> Useful:
        """How far sums of bins may be off with probability at most ``sigma``."""
        return Useful(
            sigma, query_bins, sum_bound(self._rehearsed(guarantee, bins, max_contribution), query_bins, sigma)
        )

    def _rehearsed(self, guarantee: Guarantee, bins: int, max_contribution: int) -> Values:
        used = divided(self, guarantee, bins)
        epsilon = schedule.share(used, self.horizon, 1, self)
        return release_of_zeros(self.histogram, used, epsilon, bins, max_contribution)
