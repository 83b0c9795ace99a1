"""Exact points of a public box in an opaque set that knows how far one of them may move.

Elsewhere a unit is a person who comes or goes. Here it is a *move*: neighbouring sets have the same number of points,
and one point is somewhere else, at most ``reach`` away. What is derived from the points says how far one such move
takes it; the Meter scales its noise by that, and the accountant counts epsilon as ever.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.privacy.rationals import sqrt_up
from veilstream.trusted.counts import Sealed
from veilstream.trusted.sealed import Opaque

BITS: Final = 30
SIDE: Final = 1 << BITS
"""Units along the longest side of the box."""
MAX_POINTS: Final = 1 << 30


class Metric(StrEnum):
    """How the length of a move is measured from what it does along each axis."""

    EUCLIDEAN = "euclidean"
    MANHATTAN = "manhattan"
    """The sum over the axes."""
    MAXIMUM = "maximum"
    """The largest along any axis."""

    def total(self, length: Fraction, axes: int) -> Fraction:
        """The most that a move of ``length`` does along all axes together, rounded up.

        >>> [float(metric.total(Fraction(1), 2)) for metric in Metric]
        [1.414213562373..., 1.0, 2.0]
        """
        match self:
            case Metric.EUCLIDEAN:
                return length * sqrt_up(Fraction(axes))
            case Metric.MANHATTAN:
                return length
            case Metric.MAXIMUM:
                return length * axes


class SealedPoints(Opaque[NDArray[np.int64]]):
    """Points of whole coordinates 0 ≤ p ≤ ``sides``, of which one may move by ``reach`` units of the ``metric``.

    How many points there are is public: a move changes nothing about it.

    >>> points = SealedPoints(np.array([[3], [9]]), (SIDE,), Fraction(5), Metric.EUCLIDEAN, Span(0, 0))
    >>> points
    SealedPoints(count=2, axes=1, reach=5, metric=euclidean, span=0..0)
    >>> list(points)
    Traceback (most recent call last):
    ...
    veilstream.errors.SealedAccessError: exact points cannot be read; ask the Meter for a noisy answer
    """

    __slots__ = ("count", "metric", "reach", "sides", "span")
    contents: ClassVar[str] = "points"

    def __init__(
        self, exact: NDArray[np.int64], sides: tuple[int, ...], reach: Fraction, metric: Metric, span: Span
    ) -> None:
        if exact.ndim != 2 or exact.shape[1] != len(sides) or not 1 <= exact.shape[0] <= MAX_POINTS:
            raise InvalidInputError(
                f"points of shape {exact.shape} on {len(sides)} axes: (points, axes) with 1 to {MAX_POINTS} "
                "points is needed"
            )
        if (exact < 0).any() or (exact > np.array(sides)).any():
            raise InvalidInputError("points: one lies outside the public box")
        super().__init__(np.array(exact, dtype=np.int64))
        self.count = int(exact.shape[0])
        self.sides = sides
        self.reach = reach
        self.metric = metric
        self.span = span

    @property
    def axes(self) -> int:
        return len(self.sides)

    @property
    def total_reach(self) -> Fraction:
        """How far one move goes along all axes together, at most."""
        return self.metric.total(self.reach, self.axes)

    def __repr__(self) -> str:
        return (
            f"SealedPoints(count={self.count}, axes={self.axes}, reach={self.reach}, metric={self.metric}, "
            f"span={self.span.first}..{self.span.last})"
        )


class SealedPlaces(Sealed):
    """A vector made of points, which one move takes by ``l1`` and any other place for one of them by ``replaced``."""

    __slots__ = ("replaced",)

    def __init__(
        self,
        exact: NDArray[np.int64],
        span: Span,
        l1: Fraction,
        *,
        replaced: Fraction,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__(exact, span, min(l1, replaced), shape=shape)
        self.replaced = replaced


class SealedFlow(SealedPlaces):
    """Masses on the nodes of a grid, of which one move carries at most ``flow`` over edges in all.

    Every change that one unit can make is B·v with ‖v‖₁ ≤ ``flow``, where v has an entry for every edge between
    neighbouring nodes and B takes it from the one and gives it to the other (see ``carried``). ``l1``, the movement of
    the masses themselves, is at most twice that; ``mass`` is what one point weighs. A point that is put anywhere else
    takes it away and brings it back at most: ``replaced`` is twice the mass.
    """

    __slots__ = ("flow", "mass")

    def __init__(
        self, exact: NDArray[np.int64], shape: tuple[int, ...], span: Span, *, flow: Fraction, mass: int
    ) -> None:
        super().__init__(exact, span, 2 * flow, replaced=Fraction(2 * mass), shape=shape)
        self.flow = flow
        self.mass = mass

    def __repr__(self) -> str:
        return (
            f"SealedFlow(shape={self.shape}, span={self.span.first}..{self.span.last}, flow={self.flow}, l1={self.l1})"
        )


def edges_of(shape: tuple[int, ...]) -> int:
    """How many edges a grid of nodes has.

    >>> edges_of((3, 2)), edges_of((5,))
    (7, 4)
    """
    nodes = int(np.prod(shape))
    return sum(nodes // length * (length - 1) for length in shape)


def carried(flow: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """What every node of a grid gains when ``flow`` runs along its edges; the last axis holds edges, then nodes.

    Edges are listed axis by axis, each in the order of the grid. Nothing is lost: the gains add up to 0, and the gains
    of a box of nodes to what its boundary lets in.

    >>> carried(np.array([1, 10]), (3,))
    array([-1, -9, 10])
    """
    batch = flow.shape[:-1]
    gained = np.zeros((*batch, *shape), dtype=np.int64)
    start = 0
    for axis, length in enumerate(shape):
        part = tuple(length - 1 if at == axis else n for at, n in enumerate(shape))
        size = int(np.prod(part))
        along = flow[..., start : start + size].reshape(*batch, *part)
        start += size
        along_axis = len(batch) + axis
        lower = tuple(slice(None, -1) if at == along_axis else slice(None) for at in range(gained.ndim))
        upper = tuple(slice(1, None) if at == along_axis else slice(None) for at in range(gained.ndim))
        gained[lower] -= along
        gained[upper] += along
    return gained.reshape(*batch, -1)


def degrees(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How many edges meet at every node.

    >>> degrees((3, 2))
    array([2, 2, 3, 3, 2, 2])
    """
    met = np.zeros(shape, dtype=np.int64)
    for axis, length in enumerate(shape):
        ends = np.zeros(length, dtype=np.int64)
        ends[:-1] += 1
        ends[1:] += 1
        met += ends.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return met.reshape(-1)
