"""Claims of the methods for points that move little: neighbours move one point by the distance of the guarantee.

Where a number of people is public, they differ in whether one of them is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.audit.attack import Claim
from veilstream.audit.estimates import estimates
from veilstream.audit.pool import PooledNoise
from veilstream.audit.runs import Seed
from veilstream.mechanisms.session import Session
from veilstream.metric import (
    ChosenMedian,
    HatGrid,
    MetricGuarantee,
    PointMechanism,
    SmoothMedian,
    SortedPoints,
    Space,
    person_price,
)
from veilstream.metric.filling import Filling
from veilstream.privacy.accountant import Accountant
from veilstream.testing.batch import ForkingMeter
from veilstream.trusted.meter import NoiseSource
from veilstream.trusted.points import SealedPoints

LINE: Final = MetricGuarantee(1, "1/10", Space(0, 1))
PLANE: Final = MetricGuarantee(1, "1/10", Space((0, 0), (1, 1)))
WIDE: Final = MetricGuarantee(1, "1/4", Space(0, 1))
SHARED: Final = MetricGuarantee("1/4", "1/4", Space(0, 1))
POSITIONS: Final = {
    "points close together": (0.48, 0.49, 0.5, 0.51, 0.52),
    "points apart": (0.2, 0.35, 0.5, 0.65, 0.8),
    "points half a move apart": (0.45, 0.5, 0.55),
    "ties": (0.5, 0.5, 0.5, 0.5, 0.5),
    "an even split that one point decides": (0.6, 0.6, 0.4, 0.4),
    "one point": (0.5,),
}
"""Points on a line; the middle one moves up."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What is published of ``points`` of which the middle one is or is not moved by the protected distance.

    It moves along the first axis, or along all of them alike if ``slanting``; the other coordinates are 1/2.
    """

    mechanism: PointMechanism
    guarantee: MetricGuarantee
    points: tuple[float, ...]
    slanting: bool = False

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        axes = self.guarantee.space.axes
        points = np.full((len(self.points), axes), 0.5)
        points[:, 0] = self.points
        if present:
            moving = np.arange(axes) < (axes if self.slanting else 1)
            points[len(points) // 2] += float(self.guarantee.distance) * moving / np.sqrt(moving.sum())
        return _published(self.mechanism, self.guarantee, self.guarantee.seal(points), trials, seed)


@dataclass(frozen=True, slots=True)
class Attending:
    """What is published of a public number of people on a line, of whom one at its lower end is or is not there.

    The first place that is filled in is at the upper end, as far away as can be.
    """

    mechanism: PointMechanism
    guarantee: MetricGuarantee
    others: tuple[float, ...]

    @property
    def people(self) -> int:
        return len(self.others) + 1

    def __call__(self, present: bool, trials: int, seed: Seed) -> NDArray[np.float64]:
        points = np.array([*self.others, 0.0] if present else self.others)
        sealed = self.guarantee.seal(points, filling=Filling(self.people))
        return _published(self.mechanism, self.guarantee, sealed, trials, seed)


def _published(
    mechanism: PointMechanism, guarantee: MetricGuarantee, sealed: SealedPoints, trials: int, seed: Seed
) -> NDArray[np.float64]:
    size = mechanism.size(guarantee, sealed.count)

    def estimate(source: NoiseSource, runs: int) -> NDArray[Any]:
        accountant, many = Accountant(guarantee.guarantee, size), partial(ForkingMeter, batch=(runs,))
        return mechanism.estimate(sealed, guarantee, Session(accountant, source, many).at(0)).numbers

    if isinstance(mechanism, SmoothMedian):
        # It draws bits, which no tape keeps, and decides nothing.
        return np.asarray(estimate(PooledNoise(seed), trials), dtype=np.float64)
    return estimates(estimate, trials, seed)


def _claims(
    mechanism: PointMechanism,
    guarantee: MetricGuarantee = LINE,
    *,
    variant: str = "",
    quick: int = 2_000,
    deep: int = 1_000_000,
) -> list[Claim]:
    return [
        Claim(
            f"{name}{variant}, {guarantee}",
            guarantee.epsilon,
            Moved(mechanism, guarantee, points),
            quick=quick,
            deep=deep,
        )
        for name, points in POSITIONS.items()
    ]


def _at_the_end(mechanism: PointMechanism) -> Claim:
    """Alone at the end of the line, from where all other places come nearer with the move."""
    return Claim(f"one point at the end, {WIDE}", WIDE.epsilon, Moved(mechanism, WIDE, (0.0,)))


def _attending(mechanism: PointMechanism, *, quick: int = 2_000, deep: int = 1_000_000, variant: str = "") -> Claim:
    """One of three people is there or not, which is charged for all moves that cross the line."""
    draw = Attending(mechanism, SHARED, (0.5, 0.5))
    price = person_price(mechanism, SHARED, draw.people)
    return Claim(f"one of three people there or not{variant}, epsilon {price}", price, draw, quick=quick, deep=deep)


def _slanting(mechanism: PointMechanism, *, deep: int = 1_000_000, variant: str = "") -> Claim:
    draw = Moved(mechanism, PLANE, POSITIONS["points apart"], slanting=True)
    return Claim(f"a slanting move{variant}, {PLANE}", PLANE.epsilon, draw, deep=deep)


METRIC_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "SortedPoints": lambda: (
        _claims(SortedPoints(), deep=400_000)
        + _claims(SortedPoints(isotonic=False), variant=" (unordered)")
        + [_attending(SortedPoints(isotonic=False))]
    ),
    "SmoothMedian": lambda: [
        *_claims(SmoothMedian(), quick=400, deep=400_000),
        _attending(SmoothMedian(), quick=400, deep=400_000),
    ],
    "ChosenMedian": lambda: [
        *_claims(ChosenMedian(bits=6)),
        _at_the_end(ChosenMedian(bits=6)),
        _attending(ChosenMedian(bits=6)),
    ],
    "HatGrid": lambda: [
        *_claims(HatGrid(cells=2)),
        *_claims(HatGrid(cells=2), PLANE, variant=" (plane)"),
        _slanting(HatGrid(cells=2)),
        *_claims(HatGrid(cells=2, noise="nodes"), variant=" (noise on nodes)"),
        # Of 6 cells on the line, 8 in the plane, every move crosses a border, and the slanting one two of them.
        *_claims(HatGrid(cells=6, noise="cells"), variant=" (noise on cells)"),
        _slanting(HatGrid(cells=8, noise="cells"), variant=" (noise on cells)", deep=200_000),
        _attending(HatGrid(cells=2, noise="flow")),
        _attending(HatGrid(cells=2, noise="nodes"), variant=" (noise on nodes)"),
        _attending(HatGrid(cells=2, noise="cells"), variant=" (noise on cells)"),
    ],
}
"""Class in ``veilstream.metric`` -> its claims."""
