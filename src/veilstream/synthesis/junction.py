"""A law of many attributes on a junction tree: fitted to tables of some of them, asked for tables, drawn from.

The law is the one of largest entropy that has given tables: iterative proportional fitting along a tour of the tree,
one visit of a clique after its neighbour's, so that every update sees all updates before it (Jiroušek and Přeučil,
1995). Memory is that of the cliques, which ``fits`` bounds before a table is admitted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.random import Generator  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Scope = tuple[int, ...]
MOST_CELLS: Final = 1 << 17
"""Cells of all cliques together that a law may have: with indices, some tens of megabytes."""
SMALLEST: Final = 1e-300


def cliques_of(sizes: Sequence[int], scopes: Sequence[Scope]) -> list[Scope]:
    """The cliques of a triangulated graph that joins the attributes of every scope, cheapest elimination first.

    >>> cliques_of([2, 2, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    [(0, 1, 3), (1, 2, 3)]
    """
    neighbours = [0] * len(sizes)
    for scope in scopes:
        mask = sum(1 << axis for axis in scope)
        for axis in scope:
            neighbours[axis] |= mask & ~(1 << axis)
    weights = [math.log2(size) for size in sizes]
    left = set(range(len(sizes)))
    found: list[int] = []
    costs = {axis: weights[axis] + _weight(neighbours[axis], weights) for axis in left}
    while left:
        axis = min(left, key=lambda each: (costs[each], each))
        around = neighbours[axis]
        clique = around | 1 << axis
        if not any(clique & other == clique for other in found):
            found.append(clique)
        left.remove(axis)
        for other in _axes(around):
            neighbours[other] = (neighbours[other] | around) & ~(1 << other | 1 << axis)
            costs[other] = weights[other] + _weight(neighbours[other], weights)
    return [tuple(_axes(clique)) for clique in found]


def fits(sizes: Sequence[int], scopes: Sequence[Scope], most: int = MOST_CELLS) -> bool:
    """Whether the cliques that these scopes need have at most ``most`` cells together."""
    return sum(math.prod(sizes[axis] for axis in clique) for clique in cliques_of(sizes, scopes)) <= most


class Junction:
    """Probabilities of all attributes, as tables of the cliques of a tree; independent where nothing is fitted.

    >>> law = Junction([np.array([0.5, 0.5]), np.array([0.5, 0.5])], [(0, 1)])
    >>> law.fit({(0, 1): np.array([[0.4, 0.1], [0.1, 0.4]])})
    >>> law.table((1, 0)).round(3).tolist()
    [[0.4, 0.1], [0.1, 0.4]]
    """

    def __init__(self, margins: Sequence[Reals], scopes: Sequence[Scope]) -> None:
        self.sizes = [margin.size for margin in margins]
        self.cliques = cliques_of(self.sizes, scopes)
        self._parents = _joined(self.cliques)
        self._children: list[list[int]] = [[] for _ in self.cliques]
        for child, parent in enumerate(self._parents):
            if parent >= 0:
                self._children[parent].append(child)
        self._beliefs = [_product([margins[axis] for axis in clique]) for clique in self.cliques]
        self._separators = [
            tuple(axis for axis in clique if parent >= 0 and axis in self.cliques[parent])
            for clique, parent in zip(self.cliques, self._parents, strict=True)
        ]
        self._cells: dict[tuple[int, Scope], Integers] = {}
        self._between = [self._margin(at, scope) for at, scope in enumerate(self._separators)]

    def clique_with(self, scope: Scope) -> int | None:
        """A clique that holds all attributes of a scope, the smallest one."""
        held = [at for at, clique in enumerate(self.cliques) if set(scope) <= set(clique)]
        return min(held, key=lambda at: self._beliefs[at].size) if held else None

    def fit(self, targets: Mapping[Scope, Reals], sweeps: int = 20) -> None:
        """Multiply the law into one that has these tables (of probabilities), as nearly as they allow one another."""
        wanted: dict[int, list[tuple[Scope, Reals]]] = {}
        for scope, table in targets.items():
            at = self.clique_with(scope)
            if at is not None:
                wanted.setdefault(at, []).append((scope, table.reshape(-1)))
        for _ in range(sweeps):
            at = 0
            for here in self._tour():
                self._pass(at, here)
                at = here
                for scope, table in wanted.get(here, ()):
                    self._match(here, scope, table)
        for child in self._downwards():
            self._pass(self._parents[child], child)

    def table(self, scope: Scope) -> Reals:
        """The table of attributes that one clique holds, in the order of ``scope``."""
        at = self.clique_with(tuple(sorted(scope)))
        if at is None:
            raise KeyError(scope)
        ordered = tuple(sorted(scope))
        flat = self._margin(at, ordered).reshape([self.sizes[axis] for axis in ordered])
        return np.ascontiguousarray(flat.transpose([ordered.index(axis) for axis in scope]))

    def pairs(self) -> dict[Scope, Reals]:
        """The tables of all pairs of attributes, those that no clique holds too."""
        found: dict[Scope, Reals] = {}
        for first in range(len(self.sizes)):
            for at, joint in self._spread(first):
                axes = self.cliques[at]
                shaped = joint.reshape(self.sizes[first], *(self.sizes[axis] for axis in axes))
                for position, second in enumerate(axes):
                    if second > first and (first, second) not in found:
                        others = tuple(1 + other for other in range(len(axes)) if other != position)
                        found[first, second] = np.asarray(shaped.sum(axis=others))
        return found

    def draw(self, count: int, generator: Generator) -> list[Integers]:
        """Rows, clique after clique, spread evenly over what is given: errors of sampling are far below chance."""
        drawn: dict[int, Integers] = {}
        for at in [0, *self._downwards()]:
            separator, clique = self._separators[at], self.cliques[at]
            belief = self._beliefs[at].reshape([self.sizes[axis] for axis in clique])
            new = [axis for axis in clique if axis not in drawn]
            ordered = [clique.index(axis) for axis in (*separator, *new)]
            given = math.prod(self.sizes[axis] for axis in separator)
            conditional = belief.transpose(ordered).reshape(given, -1)
            known = np.zeros(count, dtype=np.int64)
            for axis in separator:
                known = known * self.sizes[axis] + drawn[axis]
            cells = evenly(conditional, known, generator)
            for axis in reversed(new):
                cells, drawn[axis] = np.divmod(cells, self.sizes[axis])
        return [drawn[axis] for axis in range(len(self.sizes))]

    def _tour(self) -> Iterator[int]:
        """Cliques from the root and back, each beside the one before."""
        stack = [(0, iter(self._children[0]))]
        yield 0
        while stack:
            child = next(stack[-1][1], None)
            if child is None:
                stack.pop()
                if stack:
                    yield stack[-1][0]
            else:
                stack.append((child, iter(self._children[child])))
                yield child

    def _downwards(self) -> list[int]:
        order, queue = list[int](), [0]
        while queue:
            at = queue.pop()
            order += self._children[at]
            queue += self._children[at]
        return order

    def _pass(self, source: int, to: int) -> None:
        """Bring what was learned in one clique to its neighbour."""
        if source == to:
            return
        edge = to if self._parents[to] == source else source
        scope = self._separators[edge]
        new = self._margin(source, scope)
        ratio = np.divide(new, self._between[edge], out=np.zeros_like(new), where=self._between[edge] > SMALLEST)
        self._beliefs[to] *= ratio[self._index(to, scope)]
        self._between[edge] = new

    def _match(self, at: int, scope: Scope, table: Reals) -> None:
        present = self._margin(at, scope)
        ratio = np.divide(table, present, out=np.ones_like(present), where=present > SMALLEST)
        self._beliefs[at] *= ratio[self._index(at, scope)]
        self._beliefs[at] /= max(float(self._beliefs[at].sum()), SMALLEST)

    def _margin(self, at: int, scope: Scope) -> Reals:
        size = math.prod(self.sizes[axis] for axis in scope)
        return np.asarray(np.bincount(self._index(at, scope), self._beliefs[at], minlength=size), dtype=np.float64)

    def _index(self, at: int, scope: Scope) -> Integers:
        """For every cell of a clique, that of a scope in it."""
        known = self._cells.get((at, scope))
        if known is None:
            clique = self.cliques[at]
            flat = np.zeros([self.sizes[axis] for axis in clique], dtype=np.int64)
            step = 1
            for axis in reversed(scope):
                place = [1] * len(clique)
                place[clique.index(axis)] = self.sizes[axis]
                flat += step * np.arange(self.sizes[axis]).reshape(place)
                step *= self.sizes[axis]
            known = self._cells[at, scope] = flat.reshape(-1)
        return known

    def _spread(self, first: int) -> Iterator[tuple[int, Reals]]:
        """Every clique with its table jointly with one attribute, one row for each value of that."""
        start = self.clique_with((first,))
        assert start is not None
        values = np.arange(self.sizes[first])
        here = self._index(start, (first,))[None, :] == values[:, None]
        stack = [(start, -1, np.where(here, self._beliefs[start][None, :], 0.0))]
        while stack:
            at, before, joint = stack.pop()
            yield at, joint
            around = [*self._children[at], *([self._parents[at]] if self._parents[at] >= 0 else [])]
            for to in around:
                if to == before:
                    continue
                edge = to if self._parents[to] == at else at
                scope = self._separators[edge]
                shaped = joint.reshape(self.sizes[first], *(self.sizes[axis] for axis in self.cliques[at]))
                others = tuple(1 + k for k, axis in enumerate(self.cliques[at]) if axis not in scope)
                given = np.asarray(shaped.sum(axis=others)).reshape(self.sizes[first], -1)
                share = given / np.maximum(self._between[edge], SMALLEST)[None, :]
                stack.append((to, at, share[:, self._index(to, scope)] * self._beliefs[to][None, :]))


def evenly(weights: Reals, given: Integers, generator: Generator) -> Integers:
    """A column for rows with these known cells, by the weights of the known cell's row."""
    width = int(weights.shape[1])
    sums = weights.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(np.where(sums > 0, weights / np.maximum(sums, SMALLEST), 1 / width), axis=1)
    # One search in all rows at once: row r holds numbers from r to r + 1.
    flat = (np.minimum(cumulative, 1.0) + np.arange(len(weights))[:, None]).reshape(-1)
    at = np.searchsorted(flat, given + even_points(given, len(weights), generator), side="right") - given * width
    return np.asarray(np.clip(at, 0, width - 1), dtype=np.int64)


def evenly_inside(groups: Integers, weights: Reals, given: Integers, generator: Generator) -> Integers:
    """For rows with known groups an item of the group, by its weight; every item has one group.

    >>> evenly_inside(np.array([1, 0, 1]), np.ones(3), np.array([0, 1, 1]), np.random.default_rng(1))[0]
    np.int64(1)
    """
    count = 1 + int(groups.max())
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=count)
    sums = np.bincount(groups, weights, minlength=count)
    share = np.where(sums[groups] > 0, weights / np.maximum(sums[groups], SMALLEST), 1 / sizes[groups])[order]
    starts = np.cumsum(sizes) - sizes
    running = np.cumsum(share)
    flat = np.minimum(running - (running - share)[starts][groups[order]], 1.0) + groups[order]
    at = np.searchsorted(flat, given + even_points(given, count, generator), side="right")
    return np.asarray(order[np.clip(at, starts[given], (starts + sizes - 1)[given])], dtype=np.int64)


def even_points(given: Integers, known: int, generator: Generator) -> Reals:
    """A number in [0, 1) for each row.

    Rows of one known cell, in random order, get the points of a sequence that fills [0, 1) evenly (multiples of
    the golden ratio), and so do the known cells one after the other, in random order too: how often a value comes
    is as expected but for rounding, and two columns drawn from the same known one stay independent given it.
    """
    shuffled = generator.permutation(known)[given]
    order = np.lexsort((generator.random(given.size), shuffled))
    uniform = np.empty(given.size)
    uniform[order] = (generator.random() + np.arange(given.size) * ((math.sqrt(5) - 1) / 2)) % 1.0
    return uniform * (1 - 1e-12)


def _axes(mask: int) -> list[int]:
    return [axis for axis in range(mask.bit_length()) if mask >> axis & 1]


def _weight(mask: int, weights: Sequence[float]) -> float:
    return sum(weights[axis] for axis in _axes(mask))


def _joined(cliques: Sequence[Scope]) -> list[int]:
    """The parent of every clique, −1 for the first: a tree with the largest common sets, which is a junction tree."""
    parents = [-1] * len(cliques)
    inside, outside = [0], set(range(1, len(cliques)))
    while outside:
        pairs = itertools.product(inside, sorted(outside))
        parent, child = max(pairs, key=lambda pair: len(set(cliques[pair[0]]) & set(cliques[pair[1]])))
        parents[child] = parent
        inside.append(child)
        outside.remove(child)
    return parents


def _product(margins: Sequence[Reals]) -> Reals:
    joint = np.ones(1)
    for margin in margins:
        joint = np.outer(joint, margin).reshape(-1)
    return joint
