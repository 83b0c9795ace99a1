"""Claims of the methods for points that move little: neighbours move one point by the distance of the guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.accountant import Accountant
from veilstream.audit.attack import Claim
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.meter import Meter
from veilstream.metric import (
    ChosenMedian,
    HatGrid,
    MetricGuarantee,
    PointMechanism,
    SmoothMedian,
    SortedPoints,
    Space,
)

LINE: Final = MetricGuarantee(1, "1/10", Space(0, 1))
PLANE: Final = MetricGuarantee(1, "1/10", Space((0, 0), (1, 1)))


@dataclass(frozen=True, slots=True)
class _Moved:
    """Five points, of which the middle one is or is not moved by the protected distance along the first axis."""

    mechanism: PointMechanism
    guarantee: MetricGuarantee
    spread: float

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        points = np.full((5, self.guarantee.space.axes), 0.5)
        points[:, 0] += self.spread * np.arange(-2, 3)
        points[2, 0] += float(self.guarantee.distance) * int(present)
        sealed = self.guarantee.seal(points)
        noise, size = PooledNoise(seed), self.mechanism.size(self.guarantee, len(points))
        outputs = np.empty((trials, size))
        for trial in range(trials):
            meter = Meter(Accountant(self.guarantee.guarantee, size), noise, 0)
            outputs[trial] = np.ravel(self.mechanism.estimate(sealed, self.guarantee, meter).numbers)
        return outputs


def _claims(mechanism: PointMechanism, guarantee: MetricGuarantee = LINE, quick: int = 200) -> list[Claim]:
    spreads = {"points close together": 0.01, "points apart": 0.15, "ties": 0.0}
    return [
        Claim(f"{name}, {guarantee}", Fraction(1), _Moved(mechanism, guarantee, spread), quick=quick, deep=16_000)
        for name, spread in spreads.items()
    ]


METRIC_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "SortedPoints": lambda: _claims(SortedPoints()),
    "SmoothMedian": lambda: _claims(SmoothMedian()),
    "ChosenMedian": lambda: _claims(ChosenMedian(bits=6)),
    "HatGrid": lambda: _claims(HatGrid(cells=2)) + _claims(HatGrid(cells=2), PLANE),
}
"""Class in ``veilstream.metric`` -> its claims."""
