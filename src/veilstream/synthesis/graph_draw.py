"""Rows from a published graph of marginals: along its tree, then weighted until the other tables fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

from veilstream.synthesis.graph_layout import GraphLayout, Pair, PairTable
from veilstream.synthesis.margins import shares
from veilstream.synthesis.sizes import shrunk
from veilstream.synthesis.tree import consistent

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
SIGMAS: Final = 1.0
"""How far a table must be from independence, in standard deviations of what noise does, before it is followed."""
PASSES: Final = 12
"""Rounds in which weights are fitted to every table once."""
FEWEST_RAKED, MOST_RAKED = 50_000, 200_000
"""Rows that weights are fitted to: more than are wanted if those are few, and repeated if they are many."""
LARGEST_FACTOR: Final = 20.0
"""A cell's weights change by at most this factor in one fit: cells that few drawn rows have would take it all."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A published model: margins of groups, and consistent tables of pairs, of which the first ones form a tree."""

    layout: GraphLayout
    total: float
    margins: list[Reals]
    groups: int
    labels: list[Integers]
    coarse: list[Reals]
    tables: dict[Pair, Reals]

    @classmethod
    def of(
        cls, layout: GraphLayout, total: float, margins: list[Reals], groups: int, noisy: Sequence[PairTable]
    ) -> Graph:
        """Margins refined by all tables that have the attribute, and tables made consistent with them."""
        labels = layout.labels(margins, groups)
        sizes = [1 + int(label.max()) for label in labels]
        coarse = [
            np.asarray(np.bincount(label, shares(margin), minlength=size), dtype=np.float64)
            for label, margin, size in zip(labels, margins, sizes, strict=True)
        ]
        tables: dict[Pair, Reals] = {}
        for number, table in enumerate(noisy):
            j, k = table.pair
            independent: Reals = total * np.outer(coarse[j], coarse[k])
            # The first ones are the tree; where a further table shows nothing, what the tree says of the pair stands.
            near = shrunk(table.counts, independent, table.std, SIGMAS if number < len(coarse) - 1 else 0.0)
            if number >= len(coarse) - 1 and near is independent:
                continue
            tables[table.pair] = consistent(near, coarse[j], coarse[k])
        return cls(layout, total, margins, groups, labels, coarse, tables)

    @property
    def sizes(self) -> list[int]:
        return [mass.size for mass in self.coarse]

    def walk(self) -> tuple[list[Pair], list[Pair]]:
        """The edges of the tree as (known before, new), from attribute 0 on, and the pairs that are not in it."""
        parent = list(range(len(self.coarse)))
        tree, others = list[Pair](), list[Pair]()
        for j, k in self.tables:
            if parent[j] == parent[k]:
                others.append((j, k))
                continue
            parent = [parent[j] if each == parent[k] else each for each in parent]
            tree.append((j, k))
        known, ordered = {0}, list[Pair]()
        while len(ordered) < len(tree):
            for j, k in tree:
                if (j in known) != (k in known):
                    ordered.append((j, k) if j in known else (k, j))
                    known |= {j, k}
        return ordered, others

    def table(self, first: int, second: int) -> Reals:
        """The table of a pair, ``first`` down."""
        return self.tables[first, second] if (first, second) in self.tables else self.tables[second, first].T


def coarse_rows(graph: Graph, count: int, seed: int | tuple[int, ...] | None) -> list[Integers]:
    """Groups of every attribute for so many rows."""
    generator = Generator(PCG64(SeedSequence(seed)))
    edges, others = graph.walk()
    if not others or count == 0:
        return _along_tree(graph, edges, count, generator)
    drawn = _along_tree(graph, edges, min(max(count, FEWEST_RAKED), MOST_RAKED), generator)
    chosen = _systematic(_raked(graph, drawn), count, generator)
    return [column[chosen] for column in drawn]


def _along_tree(graph: Graph, edges: Sequence[Pair], count: int, generator: Generator) -> list[Integers]:
    drawn: dict[int, Integers] = {}
    nowhere = np.zeros(count, dtype=np.int64)
    for known, new in edges:
        if known not in drawn:
            drawn[known] = _inverse(np.cumsum(graph.coarse[known])[None, :], nowhere, generator)
        table = graph.table(known, new)
        sums = table.sum(axis=1, keepdims=True)
        given = np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), graph.coarse[new][None, :])
        drawn[new] = _inverse(np.cumsum(given, axis=1), drawn[known], generator)
    for axis, mass in enumerate(graph.coarse):
        if axis not in drawn:
            drawn[axis] = _inverse(np.cumsum(mass)[None, :], nowhere, generator)
    return [drawn[axis] for axis in range(len(graph.coarse))]


def _raked(graph: Graph, drawn: list[Integers]) -> Reals:
    """Weights of drawn rows under which all tables are those of the model, as nearly as rows allow."""
    count, pairs = drawn[0].size, list(graph.tables)
    cells = [drawn[j] * graph.sizes[k] + drawn[k] for j, k in pairs]
    wanted = [graph.tables[pair].reshape(-1) for pair in pairs]
    weights = np.full(count, 1 / count)
    for _ in range(PASSES):
        for cell, table in zip(cells, wanted, strict=True):
            present = np.bincount(cell, weights, minlength=table.size)
            ratio = np.divide(table, present, out=np.ones(table.size), where=present > 0)
            weights *= np.clip(ratio, 1 / LARGEST_FACTOR, LARGEST_FACTOR)[cell]
            weights /= weights.sum()
    return weights


def _systematic(weights: Reals, count: int, generator: Generator) -> Integers:
    """``count`` rows by their weights, evenly: each as often as expected, up or down to a whole number."""
    ends = np.cumsum(weights) * count
    at = np.searchsorted(ends, np.arange(count) + generator.random(), side="right")
    chosen = np.asarray(np.minimum(at, weights.size - 1), dtype=np.int64)
    generator.shuffle(chosen)
    return chosen


def _inverse(cumulative: Reals, row: Integers, generator: Generator) -> Integers:
    """A column by inverse distribution functions, one of ``cumulative``'s rows for each."""
    width = int(cumulative.shape[1])
    # One search in all rows at once: row r holds numbers from r to r + 1.
    flat = (np.minimum(cumulative, 1.0) + np.arange(len(cumulative))[:, None]).reshape(-1)
    at = np.searchsorted(flat, row + generator.random(row.size) * (1 - 1e-12), side="right") - row * width
    return np.asarray(np.clip(at, 0, width - 1), dtype=np.int64)


def pair_prediction(drawn: list[Integers], graph: Graph, pair: Pair) -> Reals:
    """The table of a pair that drawn rows predict."""
    j, k = pair
    cells = graph.sizes[j] * graph.sizes[k]
    counts = np.bincount(drawn[j] * graph.sizes[k] + drawn[k], minlength=cells)
    return np.asarray(counts * (graph.total / max(drawn[0].size, 1)), dtype=np.float64)


def fine_rows(graph: Graph, groups: list[Integers], seed: int | tuple[int, ...] | None) -> list[Integers]:
    """Values inside the groups of rows, by the published margins."""
    generator = Generator(PCG64(SeedSequence(seed)))
    columns: list[Integers] = []
    for margin, label, column in zip(graph.margins, graph.labels, groups, strict=True):
        if label.size == 1 + int(label.max()) and np.array_equal(label, np.arange(label.size)):
            columns.append(column)
            continue
        order = np.argsort(label, kind="stable")
        # A group of which the margin knows nothing is taken evenly.
        mass = shares(margin) + 1e-15
        inside = np.bincount(label, mass)
        begin = np.cumsum(inside) - inside
        position = begin[column] + inside[column] * generator.random(column.size)
        at = np.searchsorted(np.cumsum(mass[order]), position, side="right")
        columns.append(order[np.minimum(at, order.size - 1)])
    return columns
