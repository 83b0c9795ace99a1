"""A release when the histogram has moved far enough from the last one, by a threshold that adapts."""

from __future__ import annotations

from dataclasses import dataclass, field

from veilstream.mechanisms.streams.by_distance import ByDistance
from veilstream.mechanisms.streams.controller import Controller, Controlling, QuantileTracking


@dataclass(frozen=True, slots=True)
class DSAT(ByDistance):
    """DSFT whose public threshold follows the releases made, so that the budget lasts and is used.

    After each comparison the controller moves T towards a rate of C/w releases (C/N over a horizon): up after a
    release, down after none. It reads past outputs alone, so it costs nothing. ``spacing`` is the part of w/C steps
    that goes by after a release before the next decision. Decisions, floor, first and last release are those of
    ``DSFT``. The defaults were chosen by measurement (docs/adaptive.md).

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

    spacing: float = 0.75
    controller: Controller = field(default_factory=QuantileTracking)

    def control(self) -> tuple[Controlling, float | None]:
        return self.controller, None
