"""A release when the histogram has moved far enough: DSFT by a fixed threshold, DSAT by one that adapts.

Their step and its budget are in ``decision``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams.controller import Constant, Controller, Controlling, QuantileTracking
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


@dataclass(frozen=True, slots=True)
class DSFT(ByDistance):
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

    margin: float = 4.0
    threshold: float | None = None

    def control(self) -> tuple[Controlling, float | None]:
        return Constant(), self.threshold


@dataclass(frozen=True, slots=True)
class DSAT(ByDistance):
    """DSFT whose public threshold follows the releases made, so that the budget lasts and is used.

    After each comparison a controller adjusts the threshold T towards a rate of C releases per window (C/N over a
    horizon): up after a release, down after none. It reads past outputs alone, so it costs nothing. After a release the
    next decision waits for a part ``spacing`` of w/C steps. Decisions, floor, first and last release are those of
    ``DSFT``. By default C = w: the threshold falls until every step is released, and the error is a fiftieth above that
    of ``Uniform``. Smaller ``releases`` suit counts that are small or hardly change; None means ⌊√w⌋. With so few,
    large counts that move have many times the error of ``Uniform`` (docs/benchmarks.md, section ``model``). The other
    defaults were chosen by measurement (docs/adaptive.md).

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.streams import FixedRate
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

    releases: int | Rate | None = Rate.EVERY_STEP
    spacing: float = 0.75
    controller: Controller = field(default_factory=QuantileTracking)

    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {"releases": None}}

    def control(self) -> tuple[Controlling, float | None]:
        return self.controller, None
