"""A release when the histogram has moved far enough from the last one, by a fixed threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from veilstream.guarantee import Guarantee
from veilstream.histograms.geometric import Geometric
from veilstream.mechanism import HistogramMechanism
from veilstream.meter import Meter
from veilstream.sealed import Sealed
from veilstream.streams.controller import Constant
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
class DSFT:
    """Compares the exact histogram with the last *released* one and releases anew where they differ enough.

    Of ε a part ε₁ pays for decisions and the rest for at most C = ``releases`` histograms in any window (in ``horizon``
    steps at user level). The decision is a sparse-vector comparison

        ‖H_i − H̃_j‖₁ + ν_i ≥ T + ρ,     T = floor + threshold,

    with a secret ρ ~ Lap(l1/ε_ρ), ν_i ~ Lap(l1/ε_ν), and the public floor U·E|noise|, the distance of a release from
    its own exact histogram. ``threshold`` counts what must have moved on top of it; by default ``margin`` standard
    deviations of all the noise in the comparison. Negative answers cost nothing. The first step releases without a
    decision; at user level the last one spends all that remains. ``burn_in`` steps go by before the first decision.

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> steps = np.where(np.arange(60)[:, None] < 31, 1_000, 3_000) * np.ones((1, 20), dtype=int)
    >>> y = simulate(DSFT(releases=2), Guarantee(1, w=50), steps, seed=1)
    >>> np.flatnonzero(y.fresh).tolist()
    [0, 31]

    Li, Xiong, Jiang, Liu: Differentially private histogram publication for dynamic datasets, CIKM 2015, algorithm 1.
    Corrected: the distance is not divided by the private number of people (its sensitivity is l1 and nothing leaks by
    its scale); the threshold starts above the noise floor, under which the paper's own fires at every step; positives
    are charged in full (see ``decision.Plan``): the thesis' constants lose up to 1.5·ε₁.
    """

    threshold: float | None = None
    releases: int | None = None
    histogram: HistogramMechanism = field(default_factory=Geometric)
    horizon: int | None = None
    burn_in: int = 0
    decision_share: Fraction | None = None
    margin: float = 4.0
    spacing: float = 0.0

    def __post_init__(self) -> None:
        self.sampler()

    def sampler(self) -> Sampler:
        """The shared machinery with these parameters."""
        return Sampler(
            self,
            Constant(),
            self.histogram,
            self.releases,
            self.horizon,
            self.burn_in,
            self.decision_share,
            self.margin,
            self.spacing,
            self.threshold,
        )

    def start(self, guarantee: Guarantee, bins: int) -> State:
        return self.sampler().start(guarantee, bins)

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        return self.sampler().step(state, now, meter)

    def expected_error(self, guarantee: Guarantee, bins: int, l1: int = 1) -> float:
        """Mean absolute noise per bin of a release."""
        return mean_error(distance_release(self.sampler(), guarantee, bins, l1))

    def usefulness(self, guarantee: Guarantee, bins: int, sigma: float, query_bins: int = 1, l1: int = 1) -> Useful:
        """How far sums of bins may be off with probability at most ``sigma``."""
        return distance_usefulness(self.sampler(), guarantee, bins, sigma, query_bins, l1)

    def smallest_population(self, guarantee: Guarantee, bins: int, sigma: float = 0.05, l1: int = 1) -> int:
        """The number of people below which even a complete change may go unnoticed."""
        return distance_population(self.sampler(), guarantee, bins, sigma, l1)
