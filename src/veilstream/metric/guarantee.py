"""What a release of points promises: how little it says about a point that moves a little."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike

from veilstream.errors import InvalidBudgetError
from veilstream.metric.filling import Filling
from veilstream.metric.space import Space
from veilstream.privacy.charge import Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.points import SealedPoints


@dataclass(frozen=True, slots=True, init=False)
class MetricGuarantee:
    """Moving one point by at most ``distance`` costs at most ``epsilon``; a longer move pays for each such part of it.

    The neighbouring sets of points have the same number of points, and one of these moved by at most δ = ``distance``
    within the public ``space``. A move of length D is a chain of ⌈D/δ⌉ such moves along a straight line, so it costs
    ⌈D/δ⌉·ε. With δ at least the diameter every move is covered: the standard guarantee for a person who is
    replaced by another.

    What is not protected: how many points there are, hence whether somebody is among them, and which of two places far
    apart is theirs, except at the price that ``cost`` states.

    >>> g = MetricGuarantee(1, "0.01", Space(0, 1))
    >>> g.cost("0.01"), g.cost("0.05"), g.cost(1)
    (Fraction(1, 1), Fraction(5, 1), Fraction(100, 1))
    >>> print(g)
    epsilon 1 for moving one point by up to 1/100 (euclidean)
    >>> MetricGuarantee(1, 1, Space(0, 1)).everywhere
    True
    """

    epsilon: Fraction
    distance: Fraction
    space: Space

    def __init__(self, epsilon: Exact, distance: Exact, space: Space) -> None:
        object.__setattr__(self, "epsilon", Guarantee(epsilon, None).epsilon)
        object.__setattr__(self, "distance", rational(distance, "distance", InvalidBudgetError))
        object.__setattr__(self, "space", space)
        if not self.distance > 0:
            raise InvalidBudgetError(name="distance", value=distance, limit="it must be above 0")

    @property
    def guarantee(self) -> Guarantee:
        """The budget as accountants and ledgers know it; the unit that they count for is a move, not a person."""
        return Guarantee(self.epsilon, None)

    @property
    def everywhere(self) -> bool:
        """Whether any move within the space is covered."""
        return self.distance >= self.space.diameter

    @property
    def moves(self) -> int:
        """How many moves by at most ``distance`` take a point from anywhere to anywhere else."""
        return math.ceil(self.space.diameter / self.distance)

    @property
    def reach(self) -> Fraction:
        """``distance`` in units of the space's coordinates, rounded up."""
        return self.space.reach(self.distance)

    def cost(self, distance: Exact) -> Fraction:
        """What a move of this length costs: epsilon for every started ``distance`` of the guarantee."""
        length = rational(distance, "distance", InvalidBudgetError)
        if length < 0:
            raise InvalidBudgetError(name="distance", value=distance, limit="it must be at least 0")
        return math.ceil(length / self.distance) * self.epsilon

    @hide_frames
    def seal(
        self, points: ArrayLike, t: int = 0, *, clip: bool = False, filling: Filling | None = None
    ) -> SealedPoints:
        """Close points of the space, one person each; ``filling`` makes them a public number."""
        exact = self.space.encode(points, clip=clip)
        if filling is not None:
            exact = filling.filled(exact, self.space.sides)
        return SealedPoints(exact, self.space.sides, self.reach, self.space.metric, Span(t, t))

    def promise(self) -> str:
        """What is protected, and what is not, in words.

        >>> print(MetricGuarantee(1, "0.01", Space(0, 1)).promise())
        Moving one point by up to 0.01 (euclidean) changes the probability of any published result by a factor of at
        most e^1 = 2.718. A longer move pays epsilon 1 for every started 0.01: across the whole space, epsilon 100. Not
        protected: how many points there are, and so whether a person is among them.
        """
        factor = f"a factor of at most {power(self.epsilon)}"
        open_secret = "Not protected: how many points there are, and so whether a person is among them."
        if self.everywhere:
            return (
                f"Moving one point anywhere in the space changes the probability of any published result by {factor}: "
                f"the standard guarantee for one person's value. {open_secret}"
            )
        step = short(self.distance)
        return (
            f"Moving one point by up to {step} ({self.space.metric}) changes the probability of any published result "
            f"by {factor}. A longer move pays epsilon {short(self.epsilon)} for every started {step}: across the "
            f"whole space, epsilon {short(self.cost(self.space.diameter))}. {open_secret}"
        )

    def __str__(self) -> str:
        if self.everywhere:
            return f"epsilon {self.epsilon} for moving one point anywhere in the space"
        return f"epsilon {self.epsilon} for moving one point by up to {self.distance} ({self.space.metric})"

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MetricGuarantee:
        """Read back what ``veilstream.mechanisms.identity.describe`` wrote, now or for schema 0001."""
        given = record.get("set", record)
        space = given["space"].get("set", given["space"])
        metric = {name: space[name] for name in ("metric",) if name in space}
        return cls(given["epsilon"], given["distance"], Space(space["low"], space["high"], **metric))


def short(value: Fraction) -> str:
    """A number for people."""
    return f"{float(value):.4g}"


def power(epsilon: Fraction) -> str:
    """The factor that an epsilon stands for."""
    factor = f"{math.exp(float(epsilon)):.4g}" if epsilon <= 100 else "infinity for all practical purposes"
    return f"e^{short(epsilon)} = {factor}"
