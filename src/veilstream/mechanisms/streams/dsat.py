"""A release when the histogram has moved far enough from the last one, by a threshold that adapts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from veilstream.mechanisms.streams.by_distance import ByDistance
from veilstream.mechanisms.streams.controller import Controller, Controlling, QuantileTracking
from veilstream.mechanisms.streams.horizons import Rate


@dataclass(frozen=True, slots=True)
class DSAT(ByDistance):
    """DSFT whose public threshold follows the releases made, so that the budget lasts and is used.

    After each comparison the controller moves T towards a rate of C/w releases (C/N over a horizon): up after a
    release, down after none. It reads past outputs alone, so it costs nothing. ``spacing`` is the part of w/C steps
    that goes by after a release before the next decision. Decisions, floor, first and last release are those of
    ``DSFT``. By default C = w: the threshold falls until every step is released, and the error is that of ``Uniform``
    and a fiftieth. Fewer ``releases`` are for counts that are small or stand still; None is ⌊√w⌋ of them, with which
    large counts that move err many times as much as with ``Uniform`` (docs/benchmarks.md, section ``model``). The other
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
