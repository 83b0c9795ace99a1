"""A release when the histogram has moved far enough from the last one, by a fixed threshold."""

from __future__ import annotations

from dataclasses import dataclass

from veilstream.mechanisms.streams.by_distance import ByDistance
from veilstream.mechanisms.streams.controller import Constant, Controlling


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
