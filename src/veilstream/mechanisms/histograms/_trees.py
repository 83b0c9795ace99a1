"""Trees of boxes grown level by level, and least squares over their noisy counts: shared by the spatial methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.counts import Sealed
from veilstream.values.boxes import Boxes, require_dense

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

WEIGHT_GRID = 1 << 10
Settle: TypeAlias = Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
"""``Meter.branch`` of a decision on public numbers."""


class Divisible(Protocol):
    """Private data whose records carry the label of a public tree node: ``SealedRecords``, or ``DenseCells``."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def split(self, axis: Integers, cut: Integers, below: Integers, above: Integers) -> Divisible: ...
    def counts(self) -> Sealed: ...


class DenseCells:
    """A sealed histogram whose cells, all of them, carry public labels."""

    __slots__ = ("_coordinates", "_groups", "_x", "labels", "shape")

    def __init__(self, x: Sealed, coordinates: Integers, labels: Integers, groups: int) -> None:
        self._x = x
        self._coordinates = coordinates
        self._groups = groups
        self.labels = labels
        self.shape = x.shape

    @classmethod
    def of(cls, x: Sealed) -> DenseCells:
        require_dense(x.shape)
        return cls(x, coordinates_of(x.shape), np.zeros(x.size, dtype=np.int64), 1)

    def split(self, axis: Integers, cut: Integers, below: Integers, above: Integers) -> DenseCells:
        right = self._along(axis) >= cut[self.labels]
        labels = np.where(right, above[self.labels], below[self.labels])
        return DenseCells(self._x, self._coordinates, labels, 1 + int(max(below.max(), above.max())))

    def counts(self) -> Sealed:
        return self._x.sums(self.labels, self._groups)

    def marginals(self, axis: Integers, low: Integers, widths: Integers) -> Sealed:
        begin = np.cumsum(widths) - widths - low
        labels = np.where(widths[self.labels] > 0, begin[self.labels] + self._along(axis), -1)
        return self._x.sums(labels, int(widths.sum()))

    def _along(self, axis: Integers) -> Integers:
        if (axis == axis[0]).all():
            same: Integers = self._coordinates[int(axis[0])]
            return same
        return self._coordinates[axis[self.labels], np.arange(self.labels.size)]


def coordinates_of(shape: tuple[int, ...]) -> Integers:
    """The coordinates of all cells, one row per attribute, cells in the order of the flat histogram."""
    return np.indices(shape, dtype=np.int64).reshape(len(shape), -1)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The nodes at one depth: a partition of the domain. ``parent`` names nodes of the level above.

    A node with no noisy count of its own, and every node of a level that was not measured, has infinite ``variance``.
    """

    low: Integers
    high: Integers
    parent: Integers
    noisy: Floats
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """How the nodes of a level divide: node i at ``cut[i]`` on ``axis[i]`` into ``below[i]`` and ``above[i]``.

    A single cell cannot be divided: it goes on as its own only child.
    """

    axis: Integers
    cut: Integers
    below: Integers
    above: Integers

    def children(self, low: Integers, high: Integers) -> tuple[Integers, Integers, Integers]:
        """Corners and parents of the nodes of the next level."""
        count = 1 + int(max(self.below.max(), self.above.max()))
        parent = np.empty(count, dtype=np.int64)
        parent[self.below] = np.arange(self.below.size)
        parent[self.above] = np.arange(self.above.size)
        child_low, child_high = low[parent], high[parent]
        divided = np.flatnonzero(self.above > self.below)
        child_high[self.below[divided], self.axis[divided]] = self.cut[divided]
        child_low[self.above[divided], self.axis[divided]] = self.cut[divided]
        return child_low, child_high, parent


def cuts_at(axis: Integers, cut: Integers, divisible: NDArray[np.bool_]) -> Cuts:
    """Number the children of a level from left to right; ``cut`` counts only where ``divisible``."""
    children = 1 + divisible.astype(np.int64)
    below = np.cumsum(children) - children
    return Cuts(axis, cut, below, below + divisible)


def next_axis(low: Integers, high: Integers, depth: int) -> tuple[Integers, NDArray[np.bool_]]:
    """The first attribute in turn, from number ``depth``, that each node can be cut on, and whether there is one."""
    wide: NDArray[np.bool_] = (high - low) > 1
    turn = (depth + np.arange(wide.shape[1], dtype=np.int64)) % wide.shape[1]
    axis: Integers = turn[np.argmax(wide[:, turn], axis=1)]
    return axis, np.logical_or.reduce(wide, axis=1)


def full_height(shape: tuple[int, ...]) -> int:
    """Halvings after which every node is a single cell."""
    return sum((length - 1).bit_length() for length in shape)


def geometric_shares(depths: list[int], dimensions: int) -> list[Fraction]:
    """Shares of a counting budget for measured depths, that sum to 1: ∝ 2^(depth·(d−1)/(3d)).

    A range query's border crosses a number of nodes that grows with the depth like 2^(depth·(d−1)/d); minimising
    Σ nodes_i/ε_i² under Σ ε_i fixed gives ε_i ∝ nodes_i^(1/3).
    """
    rate = (dimensions - 1) / (3 * dimensions)
    weights = [max(1, round(WEIGHT_GRID * math.pow(2, rate * (depth - depths[-1])))) for depth in depths]
    return [Fraction(weight, sum(weights)) for weight in weights]


def least_squares(levels: list[Level], prune: float = 0.0, settle: Settle = np.asarray) -> tuple[Floats, Floats]:
    """Estimates and variances of the leaves (the last level) that best fit all noisy counts of the tree.

    The generalised least-squares fit under "a node is the sum of its children". Upwards, a node's own count and
    the sum of its children's estimates are averaged with weights inverse to their variances; downwards, what a
    node's final estimate has over that sum is shared among the children in proportion to their variances, and a child
    with share k of the variance V of the sum has final variance v − k²·(V − final variance of the node).

    A node whose final estimate is less than ``prune`` times √V says nothing about where in it the data are: it is
    shared among all below it by volume instead, and stays the sum of its children. 0 is never.
    """
    upward: list[tuple[Floats, Floats]] = [_own(levels[-1])]
    for depth in range(len(levels) - 2, -1, -1):
        level, parent = levels[depth], levels[depth + 1].parent
        size = len(level.low)
        below, spread = (sums_by(parent, part, size) for part in upward[-1])
        if math.isinf(level.variance):
            upward.append((below, spread))
            continue
        weight = spread / (spread + level.variance)
        upward.append((below + weight * (level.noisy - below), weight * level.variance))
    final, variance = upward.pop()
    whole, volume = np.zeros(1, dtype=np.bool_), _volumes(levels[0])
    for level in levels[1:]:
        estimate, spread = upward.pop()
        parent, size = level.parent, final.shape[-1]
        excess = final - sums_by(parent, estimate, size)
        total = sums_by(parent, spread, size)
        share = spread / total[parent]
        below = _volumes(level)
        part = below / volume[parent]
        light = settle(final < prune * np.sqrt(total)) if prune else np.zeros_like(whole)
        whole, volume = (whole | light)[parent], below
        fitted = np.maximum(spread - share**2 * (total - variance)[parent], 0.0)
        final = np.where(whole, part * final[..., parent], estimate + share * excess[..., parent])
        variance = np.where(whole, part**2 * variance[parent], fitted)
    return final, variance


def _volumes(level: Level) -> Floats:
    volumes: Floats = np.prod((level.high - level.low).astype(np.float64), axis=1)
    return volumes


def sums_by(labels: Integers, values: Floats, count: int) -> Floats:
    """Sums of public values by label."""
    if values.ndim > 1:
        sums = np.zeros((*values.shape[:-1], count))
        for position, label in enumerate(labels.tolist()):
            sums[..., label] += values[..., position]
        return sums
    return np.asarray(np.bincount(labels, weights=values, minlength=count), dtype=np.float64)


def _own(level: Level) -> tuple[Floats, Floats]:
    return level.noisy, np.full(len(level.low), level.variance)


def leaf_boxes(shape: tuple[int, ...], levels: list[Level], prune: float) -> Boxes:
    """The leaves with their least-squares counts; sums over leaves are consistent by construction."""
    values, variance = least_squares(levels, prune)
    return Boxes(shape, levels[-1].low, levels[-1].high, values, np.sqrt(variance))
