"""Which tables a graph measures: chosen privately, a tree of pairs first, then what the model predicts worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.random import PCG64, Generator  # noqa: TID251 (rows are drawn from a public model)
from numpy.typing import NDArray

from veilstream.synthesis.denoising import trend_noise
from veilstream.synthesis.graph_budget import Budget
from veilstream.synthesis.graph_fit import Graph
from veilstream.synthesis.graph_layout import GraphLayout, Marginal, Published
from veilstream.synthesis.junction import Junction, Scope, fits
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.marginal_counts import marginal_counts, misfit_scores

Reals = NDArray[np.float64]
PENALTY: Final = 0.5
"""Share of the noise of a table that is taken from what measuring it would mend: denoising takes out about the rest."""
BATCH: Final = 4
"""Tables that are chosen by one prediction."""
MOST_TRIPLES: Final = 60
"""Tables of three attributes among the candidates, smallest first."""
NOISE_OF_TRIPLE: Final = 0.1
"""They are candidates if noise changes them by less than this share of the rows."""
PREDICTED_ROWS: Final = 100_000
"""Rows from which tables of three attributes are predicted."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Measured tables, the share of the budget that they left, and the ε of choices that were not made."""

    tables: list[Marginal]
    share: Fraction
    epsilon: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Chooses tables of rows for ``epsilon`` in ``count`` choices, and measures them with a share of a budget.

    A table's score is the L1 distance to what the model so far predicts, less what chance makes of it and a share of
    the noise that measuring it would add, and "none" scores 0: where nothing is worth its noise, no table is measured.
    """

    rows: SealedRows
    layout: GraphLayout
    start: Published
    """What is known before the first choice: margins, groups, correlations, and tables that were not chosen here."""
    count: int
    epsilon: Fraction
    budget: Budget
    share: Fraction
    meter: Meter
    target: int | None = None
    """An attribute that the tree leaves out, because its tables were measured before."""

    def chosen(self) -> Chosen:
        """The tables that were chosen, measured, and what is left."""
        graph = self.graph([])
        attributes = len(graph.sizes)
        pairs: list[Scope] = list(itertools.combinations(range(attributes), 2))
        tree, made = self._tree(graph, [pair for pair in pairs if self.target not in pair])
        triples = self._triples(graph.sizes)
        further = self.count - min(self.count, attributes - 1)
        further = min(max(further, 1) if triples else further, self.count - made)
        known = [*tree, *(table.scope for table in self.start.tables)]
        left: list[Scope] = [scope for scope in [*pairs, *triples] if scope not in known]
        planned = max(len(tree) + further, 1)
        tables = self._measured(tree, planned) if tree else []
        worth = True
        while worth and left and further > 0:
            graph = self.graph(tables)
            wanted = min(BATCH, further, len(left))
            batch, asked = self._batch(graph, left, wanted, [table.scope for table in [*self.start.tables, *tables]])
            made += asked
            tables += self._measured(batch, planned) if batch else []
            left = [scope for scope in left if scope not in batch]
            further -= len(batch)
            worth = len(batch) == wanted
        spared = self.share * (planned - len(tables)) / planned
        return Chosen(tables, spared, self.epsilon * (self.count - made) / self.count)

    def _measured(self, scopes: Sequence[Scope], planned: int) -> list[Marginal]:
        share = self.share / planned * len(scopes)
        return self.budget.tables(self.rows, self.start.labels, scopes, share, self.meter)

    def graph(self, tables: Sequence[Marginal]) -> Graph:
        """The model of what was known and these tables."""
        return Graph.of(self.layout, replace(self.start, tables=[*self.start.tables, *tables]))

    def _tree(self, graph: Graph, pairs: Sequence[Scope]) -> tuple[list[Scope], int]:
        """Pairs that join two parts each, while that is worth it, and how many choices were made."""
        predicted = graph.law.pairs()
        part = list(range(len(graph.sizes)))
        chosen: list[Scope] = []
        while len(chosen) < self.count:
            candidates = [(j, k) for j, k in pairs if part[j] != part[k]]
            if not candidates:
                break
            pair = self.choose(graph, candidates, predicted)
            if pair is None:
                return chosen, len(chosen) + 1
            part = [part[pair[0]] if each == part[pair[1]] else each for each in part]
            chosen.append(pair)
        return chosen, len(chosen)

    def _batch(
        self, graph: Graph, left: Sequence[Scope], most: int, measured: Sequence[Scope]
    ) -> tuple[list[Scope], int]:
        """Up to ``most`` tables that are worth it, and how many choices were made."""
        predicted = predictions(graph.law, left)
        batch: list[Scope] = []
        candidates = [scope for scope in left if fits(graph.sizes, [*measured, scope])]
        while candidates and len(batch) < most:
            scope = self.choose(graph, candidates, predicted)
            if scope is None:
                return batch, len(batch) + 1
            batch.append(scope)
            candidates.remove(scope)
        return batch, len(batch)

    def choose(self, graph: Graph, candidates: Sequence[Scope], predicted: Mapping[Scope, Reals]) -> Scope | None:
        """The table that is most worth measuring, or none, for one of the choices."""
        noise, total = self.budget.noise_of(self.share / self.count), max(self.start.margins.total, 0.0)
        expected = [total * predicted[scope].reshape(-1) for scope in candidates]
        penalties = [
            misfit_penalty(total * predicted[scope], [self.layout.ordered[axis] for axis in scope], noise)
            for scope in candidates
        ]
        exact = marginal_counts(self.rows, graph.labels, candidates)
        scores = misfit_scores(exact, expected, penalties, none=True)
        chosen = self.meter.select(scores, self.epsilon / self.count, "table to measure")
        return candidates[chosen] if chosen < len(candidates) else None

    def _triples(self, sizes: Sequence[int]) -> list[Scope]:
        most = NOISE_OF_TRIPLE * self.start.margins.total / self.budget.noise_of(self.share / self.count)
        # The model's vector has room for so many cells on average.
        most = min(most, self.layout.most_cells / self.layout.most_tables)
        triples = itertools.combinations(range(len(sizes)), 3)
        cells: dict[Scope, int] = {scope: math.prod(sizes[axis] for axis in scope) for scope in triples}
        readable = [scope for scope, size in cells.items() if size <= most]
        return sorted(readable, key=lambda scope: (cells[scope], scope))[:MOST_TRIPLES]


def misfit_penalty(expected: Reals, ordered: Sequence[bool], noise: float) -> float:
    """How far a table is from even the right prediction by chance, and what noise would be left in it, in rows."""
    chance = math.sqrt(2 / math.pi) * float(np.sqrt(expected).sum())
    if expected.ndim > 2:
        return chance + noise * expected.size
    left = PENALTY * noise * expected.size
    return chance + (min(left, trend_noise(expected, noise, ordered)) if any(ordered) else left)


def predictions(law: Junction, scopes: Sequence[Scope]) -> dict[Scope, Reals]:
    """What a law says of the tables of pairs, exactly, and of larger tables by rows drawn from it."""
    found: dict[Scope, Reals] = {**law.pairs()}
    larger = [scope for scope in scopes if len(scope) > 2]
    if larger:
        drawn = law.draw(PREDICTED_ROWS, Generator(PCG64(0)))
        for scope in larger:
            shape = tuple(law.sizes[axis] for axis in scope)
            cells = np.ravel_multi_index(tuple(drawn[axis] for axis in scope), shape)
            found[scope] = (np.bincount(cells, minlength=math.prod(shape)) / PREDICTED_ROWS).reshape(shape)
    return found
