"""A release when the histogram has moved far enough from the last one, by a threshold that adapts."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from veilstream.guarantee import Guarantee
from veilstream.histograms.geometric import Geometric
from veilstream.mechanism import HistogramMechanism
from veilstream.meter import Meter
from veilstream.sealed import Sealed
from veilstream.streams.controller import Controller, QuantileTracking
from veilstream.streams.decision import Sampler, State
from veilstream.streams.usefulness import (
    Useful,
    distance_population,
    distance_release,
    distance_usefulness,
    mean_error,
)
from veilstream.types import Values


@dataclass(frozen=True, slots=True)
class DSAT:
    """DSFT whose public threshold follows the releases made, so that the budget lasts and is used.

    After each comparison the controller moves T towards a rate of C/w releases (C/N over a horizon): up after a
    release, down after none. It reads past outputs alone, so it costs nothing. ``spacing`` is the part of w/C steps
    that goes by after a release before the next decision. Decisions, floor, first and last release are those of
    ``DSFT``. The defaults were chosen by measurement (docs/adaptive.md).

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.streams import FixedRate
    >>> jumps = np.where(np.arange(300)[:, None] % 70 < 35, 1_000, 4_000) * np.ones((1, 20), dtype=int)
    >>> g = Guarantee(1, w=100)
    >>> for mechanism in (DSAT(releases=4), FixedRate(interval=25)):
    ...     print(round(float(abs(simulate(mechanism, g, jumps, seed=1) - jumps).mean())))
    214
    903

    Li, Xiong, Jiang, Liu: Differentially private histogram publication for dynamic datasets, CIKM 2015, algorithms 2
    and 3. Corrected, besides what ``DSFT`` corrects: the noisy threshold is never clamped (a clamped one is public, and
    then every negative answer costs); the error that drives the controller has a sign (the paper's is 1 at no error);
    in windows the secret is renewed (one for ever loses 5·ε₁ within ten windows) and nothing is spent "at the end".
    """

    releases: int | None = None
    controller: Controller = field(default_factory=QuantileTracking)
    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    burn_in: int = 0
    decision_share: Fraction | None = None
    margin: float = 2.0
    spacing: float = 0.75

    def __post_init__(self) -> None:
        self.sampler()

    def sampler(self) -> Sampler:
        """The shared machinery with these parameters."""
        return Sampler(
            self,
            self.controller,
            self.histogram,
            self.releases,
            self.horizon,
            self.burn_in,
            self.decision_share,
            self.margin,
            self.spacing,
        )

    def start(self, guarantee: Guarantee, bins: int) -> State:
        return self.sampler().start(guarantee, bins)

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        return self.sampler().step(state, now, meter)

    def expected_error(self, guarantee: Guarantee, bins: int, l1: int = 1) -> float:
        """Mean absolute noise per bin of a release."""
        return mean_error(distance_release(self.sampler(), guarantee, bins, l1))

    def usefulness(self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, l1: int = 1) -> Useful:
        """How far sums of bins may be off with probability at most ``sigma``, at the first threshold."""
        return distance_usefulness(self.sampler(), guarantee, bins, sigma, query_bins, l1)

    def smallest_population(self, guarantee: Guarantee, bins: int, sigma: float = 0.05, l1: int = 1) -> int:
        """The number of people below which even a complete change may go unnoticed at the first threshold."""
        return distance_population(self.sampler(), guarantee, bins, sigma, l1)
