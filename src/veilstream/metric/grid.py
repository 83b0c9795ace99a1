"""Counts of points around the nodes of a grid, with noise between neighbouring nodes or on each of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.errors import InvalidInputError
from veilstream.metric.guarantee import MetricGuarantee
from veilstream.metric.space import Space
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import SIDE, SealedPoints
from veilstream.trusted.statistics.metric import MAX_CELLS, cell_counts, hat_counts, hat_movement
from veilstream.values.values import NoiseLaw, Values

Kind: TypeAlias = Literal["flow", "nodes", "cells"]
Choice: TypeAlias = Literal["flow", "nodes", "cells", "flow-or-nodes"]

KINDS: Final[Mapping[Choice | None, tuple[Kind, ...]]] = {
    None: ("flow", "cells"),
    "flow": ("flow",),
    "nodes": ("nodes",),
    "cells": ("cells",),
    "flow-or-nodes": ("flow", "nodes"),
}
"""Among which kinds public numbers decide. Where noise on nodes would be less than on edges, counts in cells have the
same noise, on most points about the same blur, and on some less."""
BLUR: Final[Mapping[Kind, float]] = {"flow": 0.12, "nodes": 0.12, "cells": 1 / 6}
"""∫ (share counted − indicator)² across a straight boundary, in spacings: what blurring one boundary costs a point.
In a cell that is cut at u it is u·(1 − u), on average 1/6."""
UNEVEN: Final[Mapping[Kind, int]] = {"flow": 160, "nodes": 160, "cells": 96}
"""Blur of clustered points over that of evenly spread ones, as measured on taxis, walks and check-ins. That of cells is
the number that gave grids of these and of clusters the least mean error, from 1,000 to 100,000 points."""
TYPICAL = 10
"""Ranges that noise is chosen for are this part of the longest side."""


@dataclass(frozen=True, slots=True)
class HatGrid:
    """How many points lie around each node of a grid, by linear interpolation; made for counts in ranges.

    A plain grid gains nothing from small moves: a step over a border changes two cells by 1. Here every point is shared
    out among the corners of its cell, by hat functions of the grid's spacing k, so that a move by δ carries only about
    δ/k of a point (√2·δ/k in a plane) from node to node. The noise does as the moves do: Laplace noise of that scale
    runs along every edge of the grid, from one node to the next. Added up over a range it cancels except along the
    boundary, so that a range of r × r nodes has the noise of 4r edges instead of r² nodes.

    ``noise`` is one of

    * "flow", as above;
    * "nodes": points are shared out as above, and noise is independent on every node, at most Lap(2/ε);
    * "cells": every point counts once, at its nearest node, with Lap(2/ε) on each. This is the standard histogram for a
      person who is replaced by another, of the cells around the nodes; it keeps the same promise whatever δ is.

    ``cells`` along the longest side and the noise, "flow" or "cells", are chosen from δ, ε and the public number of
    points, unless they are given (see ``best_grid``): the standard histogram is always a candidate, and wins where
    moves are long. "flow-or-nodes" chooses as the first version did, which did not know "cells". The number of points
    is public, so the values always add up to it: noise along edges cancels, and other noise is shifted alike
    everywhere, for free.

    The construction of the paper (its section 5.3) is not in the text at hand. Interpolation is a reconstruction;
    noise on edges instead of nodes is an improvement on it, in the spirit of policy graphs (He, Machanavajjhala,
    Ding: Blowfish privacy, 2014), with the proof in ``Meter.flow_laplace``.

    >>> from veilstream.metric import Space, simulate_points
    >>> g = MetricGuarantee(1, "0.001", Space((0, 0), (1, 1)))
    >>> points = np.stack(np.meshgrid(np.linspace(0, 1, 100), np.linspace(0, 1, 100)), axis=-1).reshape(-1, 2)
    >>> grid = HatGrid(cells=20)
    >>> values = simulate_points(grid, g, points, seed=1)
    >>> ranges = GridRanges(values.numbers, g.space, grid.cells)
    >>> float(ranges.count([[0.0, 0.0]], [[0.5, 0.5]])[0].round(-2)), float(values.numbers.sum().round(6))
    (2500.0, 10000.0)

    Fang, Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets, ASIACCS 2014, section 5.4.
    """

    version: ClassVar[int] = 2
    former_defaults: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {"noise": "flow-or-nodes"}}
    cells: int | None = None
    noise: Choice | None = None

    def __post_init__(self) -> None:
        if self.cells is not None and (type(self.cells) is not int or not 1 <= self.cells <= MAX_CELLS):
            raise InvalidInputError(name="cells", value=self.cells, limit=f"a whole number from 1 to {MAX_CELLS}")
        if self.noise not in KINDS:
            raise InvalidInputError(
                name="noise", value=self.noise, limit="'flow', 'nodes', 'cells', 'flow-or-nodes' or None"
            )

    def cells_for(self, guarantee: MetricGuarantee, points: int) -> int:
        """Cells along the longest side for so many points."""
        return best_grid(guarantee, points, self.noise)[0] if self.cells is None else self.cells

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        return math.prod(nodes(guarantee.space, self.cells_for(guarantee, points)))

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        """Points per node, row-major."""
        cells, kind = self._plan(guarantee, x.count)
        grid = cell_counts(x, cells) if kind == "cells" else hat_counts(x, cells)
        if kind == "flow":
            noisy = meter.flow_laplace(grid, guarantee.epsilon, "grid")
            return Values(noisy.numbers / grid.mass, noisy.std / grid.mass, NoiseLaw.MIXED)
        noisy = meter.laplace(grid, guarantee.epsilon, "grid")
        numbers = noisy.numbers / grid.mass
        numbers += (x.count - numbers.sum(axis=-1, keepdims=True)) / grid.size
        return Values(numbers, noisy.std / grid.mass * math.sqrt(1 - 1 / grid.size), NoiseLaw.MIXED)

    def multiple(self, guarantee: MetricGuarantee, points: int) -> Fraction:
        """How many times epsilon one person costs.

        Noise along edges pays for a chain of moves. Noise on nodes is for the part of a point that one move carries,
        and a person takes a whole one away and brings it back. In cells every move may do that already, whatever its
        length: the noise is for 2, and 2 is what a person changes, wherever they come from or go.
        """
        cells, kind = self._plan(guarantee, points)
        if kind == "flow":
            return Fraction(guarantee.moves)
        if kind == "cells":
            return Fraction(1)
        flow, mass = _movement(guarantee, cells)
        return min(Fraction(guarantee.moves), max(Fraction(1), mass / flow))

    def _plan(self, guarantee: MetricGuarantee, points: int) -> tuple[int, Kind]:
        """The number of cells and the kind of noise: from public numbers alone."""
        if self.cells is None:
            return best_grid(guarantee, points, self.noise)
        kinds = KINDS[self.noise]
        return self.cells, kinds[0] if len(kinds) == 1 or flow_is_less(guarantee, self.cells) else kinds[1]


def flow_is_less(guarantee: MetricGuarantee, cells: int) -> bool:
    """Whether noise on edges is less than on each node for ranges of r = cells/10 nodes a side, from public numbers.

    Such a range has 2d·r^{d−1} boundary edges of variance 2F²/ε², F = flow of a move in points, or r^d nodes of 8/ε² at
    least: F² against 2r/d.
    """
    flow, mass = _movement(guarantee, cells)
    part = flow / mass
    return part <= 1 or part**2 * guarantee.space.axes * TYPICAL <= 2 * cells


def _movement(guarantee: MetricGuarantee, cells: int) -> tuple[Fraction, int]:
    axes = guarantee.space.axes
    return hat_movement(guarantee.space.metric.total(guarantee.reach, axes), cells, axes)


def nodes(space: Space, cells: int) -> tuple[int, ...]:
    """How many nodes the grid has along each axis.

    >>> nodes(Space((0, 0), (4, 1)), 8)
    (9, 3)
    """
    return tuple(-(-side * cells // SIDE) + 1 for side in space.sides)


def best_grid(guarantee: MetricGuarantee, points: int, noise: Choice | None = None) -> tuple[int, Kind]:
    """The number of cells and the kind of noise with the least expected error of ranges; data are not looked at.

    With K cells along the longest side (which is 1) and s = √d·δ the most that a move does along all axes (in the
    Euclidean metric), a range of side ρ = 1/10 has 2d·ρ^{d−1} of boundary. Blurring costs c·n/K points per area of it,
    c = ``BLUR``·``UNEVEN``. Noise on edges of variance 2(sK/ε)² adds 2s²/ε² · K^{d+1} per area; noise on nodes or cells
    8/ε² for each of the (ρK)^d inside. Both sums are convex in K, with their least at K^{d+2} = c·n·ε²/(2(d+1)s²) and
    K^{d+1} = c·n·ε²/(4ρ).

    >>> city = Space((0, 0), (1, 1))
    >>> [best_grid(MetricGuarantee(1, delta, city), 100_000) for delta in ("0.001", "0.01", "0.1")]
    [(632, 'flow'), (200, 'flow'), (159, 'cells')]
    """
    axes = guarantee.space.axes
    s = float(guarantee.space.metric.total(guarantee.reach, axes) / SIDE)
    epsilon = float(guarantee.epsilon)
    boundary = 2 * axes / TYPICAL ** (axes - 1)

    def blur(kind: Kind) -> float:
        return BLUR[kind] * UNEVEN[kind] * points

    def cells(kind: Kind) -> int:
        if kind == "flow":
            best: float = (blur(kind) * epsilon**2 / (2 * (axes + 1) * s * s)) ** (1 / (axes + 2))
        else:
            best = (blur(kind) * epsilon**2 * TYPICAL / 4) ** (1 / (axes + 1))
        return max(1, min(round(best), MAX_CELLS >> (axes - 1)))

    def error(kind: Kind) -> float:
        count = cells(kind)
        edges = boundary * 2 * (s / epsilon) ** 2 * count ** (axes + 1)
        inside = 8 / epsilon**2 * (count / TYPICAL) ** axes
        return float(boundary * blur(kind) / count + (edges if kind == "flow" else inside))

    kind = min(KINDS[noise], key=error)
    return cells(kind), kind


class GridRanges:
    """Counts of points in ranges from released node values: each node's points lie evenly in the cell around it.

    ``values`` holds the nodes row-major in its last axis, whatever is before (runs, say). With ``plain`` they are of
    the cells of an ordinary grid instead.
    """

    __slots__ = ("_borders", "_running", "_space", "_spacing", "shape")

    def __init__(self, values: NDArray[Any], space: Space, cells: int | None, *, plain: bool = False) -> None:
        if cells is None:
            raise InvalidInputError("cells: the number that the grid was released with is needed")
        self.shape = tuple(length - plain for length in nodes(space, cells))
        self._borders = [_borders(length, plain) for length in self.shape]
        if values.shape[-1] != math.prod(self.shape):
            raise InvalidInputError(f"{values.shape[-1]} values for a grid of {'x'.join(map(str, self.shape))} nodes")
        batch = values.shape[:-1]
        running: NDArray[np.float64] = np.asarray(values, dtype=np.float64).reshape(*batch, *self.shape)
        for axis in range(len(batch), running.ndim):
            running = np.cumsum(running, axis=axis)
        self._running = np.pad(running, [(0, 0)] * len(batch) + [(1, 0)] * len(self.shape))
        self._space = space
        self._spacing = float(max(space.extents)) / cells

    def count(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
        """Points in each box low ≤ x < high, corners in the space's own lengths, one box a row."""
        corners = [np.atleast_2d(np.asarray(corner, dtype=np.float64)) for corner in (low, high)]
        if any(corner.shape[1] != len(self.shape) for corner in corners) or corners[0].shape != corners[1].shape:
            raise InvalidInputError(f"boxes: two corners of {len(self.shape)} numbers each are needed")
        positions = [[self._position(corner[:, axis], axis) for axis in range(len(self.shape))] for corner in corners]
        batch = self._running.ndim - len(self.shape)
        total = np.zeros((*self._running.shape[:batch], corners[0].shape[0]))
        for which in itertools.product((0, 1), repeat=len(self.shape)):
            sign = (-1) ** (len(self.shape) - sum(which))
            total += sign * self._below([positions[side][axis] for axis, side in enumerate(which)])
        return total

    def _position(self, x: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Where a coordinate is among the borders of cells around nodes, as an index with a fraction."""
        u = (x - float(self._space.low[axis])) / self._spacing
        position: NDArray[np.float64] = np.interp(u, self._borders[axis], np.arange(self.shape[axis] + 1))
        return position

    def _below(self, positions: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The running sum at fractional indices, by linear interpolation along every axis."""
        indices = [
            np.minimum(position.astype(np.int64), length - 1)
            for position, length in zip(positions, self.shape, strict=True)
        ]
        parts = [position - index for position, index in zip(positions, indices, strict=True)]
        total: Any = 0.0
        for which in itertools.product((0, 1), repeat=len(positions)):
            at: tuple[Any, ...] = (..., *(index + side for index, side in zip(indices, which, strict=True)))
            weight: Any = 1.0
            for part, side in zip(parts, which, strict=True):
                weight = weight * (part if side else 1 - part)
            total = total + weight * self._running[at]
        return np.asarray(total, dtype=np.float64)


def _borders(length: int, plain: bool) -> NDArray[np.float64]:
    """Where cells end, in spacings: half-way between nodes and at the ends, or at every whole number."""
    if plain:
        return np.arange(length + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.arange(length - 1) + 0.5, [length - 1.0]])
