"""A public box with a metric, and the whole coordinates in which points are kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidDomainError, InvalidInputError, UnknownValueError
from veilstream.privacy.rationals import Exact, rational, sqrt_up
from veilstream.trusted.points import SIDE, Metric

Corner: TypeAlias = Exact | Sequence[Exact]
MAX_AXES = 3


@dataclass(frozen=True, slots=True, init=False)
class Space:
    """All points between two public corners, one number each on a line, 2 or 3 in a plane or a room.

    All axes share one unit of length. Degrees of longitude and latitude do not: turn them into kilometres first.

    >>> Space(0, 1)
    Space(low=(Fraction(0, 1),), high=(Fraction(1, 1),), metric=<Metric.EUCLIDEAN: 'euclidean'>)
    >>> float(Space((0, 0), (3, 4)).diameter)
    5.0
    """

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    metric: Metric

    def __init__(self, low: Corner, high: Corner, metric: str = "euclidean") -> None:
        object.__setattr__(self, "low", _corner(low, "low"))
        object.__setattr__(self, "high", _corner(high, "high"))
        if len(self.low) != len(self.high) or not 1 <= len(self.low) <= MAX_AXES:
            raise InvalidDomainError(
                f"corners of {len(self.low)} and {len(self.high)} numbers: both have 1 to {MAX_AXES}"
            )
        for a, b in zip(self.low, self.high, strict=True):
            if not a < b:
                raise InvalidDomainError(f"side {a}..{b}: low must be below high")
        if metric not in list(Metric):
            raise InvalidDomainError(name="metric", value=metric, limit=f"one of {', '.join(Metric)}")
        object.__setattr__(self, "metric", Metric(metric))
        if max(self.extents) > SIDE * min(self.extents):
            raise InvalidDomainError(f"sides: the longest is more than {SIDE} times the shortest")

    @property
    def axes(self) -> int:
        """How many numbers a point has."""
        return len(self.low)

    @property
    def extents(self) -> tuple[Fraction, ...]:
        """The length of each side."""
        return tuple(b - a for a, b in zip(self.low, self.high, strict=True))

    @property
    def unit(self) -> Fraction:
        """What coordinates are whole multiples of: the longest side over 2³⁰."""
        return max(self.extents) / SIDE

    @property
    def sides(self) -> tuple[int, ...]:
        """The lengths of the sides in units, rounded up."""
        return tuple(math.ceil(extent / self.unit) for extent in self.extents)

    @property
    def diameter(self) -> Fraction:
        """The length of the longest move, rounded up."""
        return self._length(self.extents)

    def _length(self, steps: Iterable[Fraction | int]) -> Fraction:
        parts = [Fraction(step) for step in steps]
        match self.metric:
            case Metric.EUCLIDEAN:
                return sqrt_up(sum((part * part for part in parts), start=Fraction(0)))
            case Metric.MANHATTAN:
                return sum(parts, start=Fraction(0))
            case Metric.MAXIMUM:
                return max(parts)

    def require_line(self) -> None:
        """Refuse a space whose points have no order."""
        if self.axes != 1:
            raise InvalidInputError(f"space of {self.axes} axes: only on 1 do points have an order")

    def reach(self, distance: Fraction) -> Fraction:
        """How many units the coordinates of a point can move when the point moves by ``distance``.

        Along each axis a coordinate is ⌊p + 1/2⌋ with p = (x − low)/unit in floating point, of relative error
        below 2⁻⁵⁰ and so below 2⁻²⁰ in all. A point that moves by a along it moves the coordinate by less than
        a/unit + 1 + 2⁻¹⁹: over d axes, in any of the metrics, by at most ⌈distance/unit⌉ + d. Points brought back into
        the box only come nearer to each other, and no move is longer than the box.
        """
        rounded = Fraction(math.ceil(distance / self.unit) + self.axes)
        return min(rounded, Fraction(math.ceil(self._length(self.sides))))

    def encode(self, points: ArrayLike, *, clip: bool = False) -> NDArray[np.int64]:
        """Whole coordinates, one row a point. Points outside the box are refused, or ``clip``ped to its boundary."""
        given = np.asarray(points, dtype=np.float64)
        if not given.size:
            given = given.reshape(0, self.axes)
        table = given[:, None] if given.ndim == 1 and self.axes == 1 else given
        if table.ndim != 2 or table.shape[1] != self.axes:
            raise InvalidInputError(f"points of shape {given.shape}: {self.axes} numbers each are needed")
        if not np.isfinite(table).all():
            raise InvalidInputError(
                "points: a coordinate is missing or not finite; leave such points out by a public rule"
            )
        low, high = (np.array([float(part) for part in corner]) for corner in (self.low, self.high))
        if not clip and ((table < low) | (table > high)).any():
            raise UnknownValueError("points: one lies outside the public box; widen the box or clip the points to it")
        codes: NDArray[np.int64] = np.floor((np.clip(table, low, high) - low) / float(self.unit) + 0.5).astype(np.int64)
        return np.asarray(np.minimum(codes, np.array(self.sides)), dtype=np.int64)

    def decode(self, coordinates: NDArray[np.int64] | NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
        """Places along one axis from coordinates in units, within the box."""
        low, high = float(self.low[axis]), float(self.high[axis])
        return np.clip(low + coordinates.astype(np.float64) * float(self.unit), low, high)


def _corner(corner: Corner, name: str) -> tuple[Fraction, ...]:
    several = isinstance(corner, Sequence) and not isinstance(corner, str)
    parts = cast("Sequence[Exact]", corner) if several else (cast("Exact", corner),)
    return tuple(rational(part, name, InvalidDomainError) for part in parts)
