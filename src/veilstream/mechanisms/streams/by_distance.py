"""What DSFT and DSAT share besides their step: parameters, and what to expect of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams.controller import Controlling
from veilstream.mechanisms.streams.decision import DistanceRule, State
from veilstream.mechanisms.streams.horizons import Rate
from veilstream.mechanisms.streams.usefulness import (
    Useful,
    distance_population,
    distance_release,
    distance_usefulness,
    mean_error,
)
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class ByDistance(ABC):
    """Parameters of a stream that releases when it has moved away from its last release (see ``DSFT``)."""

    releases: int | Rate | None = None
    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    burn_in: int = 0
    decision_share: Fraction | None = None
    margin: float = 2.0
    spacing: float = 0.0
    batchable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.rule()

    @abstractmethod
    def control(self) -> tuple[Controlling, float | None]:
        """What moves the threshold, and where it starts above the floor (None: by ``margin``)."""

    def rule(self) -> DistanceRule:
        """The shared machinery with these parameters."""
        controller, threshold = self.control()
        return DistanceRule(
            self,
            controller,
            self.histogram,
            self.releases,
            self.horizon,
            self.burn_in,
            self.decision_share,
            self.margin,
            self.spacing,
            threshold,
        )

    def start(self, guarantee: Guarantee, bins: int) -> State:
        return self.rule().start(guarantee, bins)

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        return self.rule().step(state, now, meter)

    def expected_error(self, guarantee: Guarantee, bins: int, max_contribution: int = 1) -> float:
        """Mean absolute noise per bin of a release."""
        return mean_error(distance_release(self.rule(), guarantee, bins, max_contribution))

    def usefulness(
        self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, max_contribution: int = 1
    ) -> Useful:
        """How far sums of bins may be off with probability at most ``sigma``, at the first threshold."""
        return distance_usefulness(self.rule(), guarantee, bins, sigma, query_bins, max_contribution)

    def smallest_population(
        self, guarantee: Guarantee, bins: int, sigma: float = 0.05, max_contribution: int = 1
    ) -> int:
        """The number of people below which even a complete change may go unnoticed at the first threshold."""
        return distance_population(self.rule(), guarantee, bins, sigma, max_contribution)
