"""From published margins and noisy tables to a law of all attributes, and rows from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

from veilstream.synthesis.bivariate import pair_probabilities
from veilstream.synthesis.denoising import denoised
from veilstream.synthesis.graph_layout import GraphLayout, Marginal, Published
from veilstream.synthesis.junction import Junction, Scope, fits
from veilstream.synthesis.margins import Margins, shares
from veilstream.synthesis.refining import Part, refined
from veilstream.synthesis.tree import consistent
from veilstream.values.projection import onto_simplex

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
SWEEPS: Final = 15
"""Rounds in which a law is fitted to every table once."""
FAINTEST: Final = 1e-6
"""Total variation from a prediction below which a table says nothing beyond it."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A published model: groups of the values of every attribute, and a law of the groups."""

    margins: Margins
    labels: list[Integers]
    ordered: tuple[bool, ...]
    law: Junction

    @classmethod
    def of(cls, layout: GraphLayout, parts: Published) -> Graph:
        """The law of largest entropy near the tables, each denoised towards what stronger ones predict of it.

        Correlations predict the tables of ordered attributes (by a normal copula), whether or not these were measured.
        """
        margins, labels, tables = parts.margins, parts.labels, parts.tables
        coarse = _reconciled(margins, labels, tables)
        pairs = itertools.combinations(layout.numeric, 2)
        copula: dict[Scope, Reals] = {
            pair: pair_probabilities(coarse[pair[0]], coarse[pair[1]], float(rho))
            for pair, rho in zip(pairs, parts.correlations, strict=True)
            if rho != 0
        }
        trends = [ordered and size > 2 for ordered, size in zip(layout.ordered, map(len, coarse), strict=True)]
        law = _fitted(coarse, max(margins.total, 1.0), tables, copula, trends)
        return cls(margins, labels, layout.ordered, law)

    @property
    def sizes(self) -> list[int]:
        return self.law.sizes

    def rows(self, count: int, seed: Sequence[int] | None) -> list[Integers]:
        """Drawn rows as codes, one column per attribute: groups by the law, values inside them by ``refined``."""
        generator = Generator(PCG64(SeedSequence(seed)))
        groups = self.law.draw(count, generator)
        known = zip(self.margins.counts, self.labels, self.ordered, strict=True)
        parts = [
            Part.of(counts, labels, self.law.table((axis,)), ordered)
            for axis, (counts, labels, ordered) in enumerate(known)
        ]
        return refined(parts, self.law.pairs(), groups, generator)


def _reconciled(margins: Margins, labels: Sequence[Integers], tables: Sequence[Marginal]) -> list[Reals]:
    """Shares of the groups of every attribute: means of what its margin and its tables say, by their variances."""
    total = max(margins.total, 1.0)
    found: list[Reals] = []
    for axis, (counts, label, std) in enumerate(zip(margins.counts, labels, margins.std, strict=True)):
        size = 1 + int(label.max())
        weight = 1 / max((std / total) ** 2 * label.size / size, 1e-18)
        weights, sums = weight, weight * np.bincount(label, shares(counts), minlength=size)
        for table in tables:
            if axis in table.scope:
                others = tuple(at for at, other in enumerate(table.scope) if other != axis)
                weight = 1 / max((table.std / total) ** 2 * table.counts.size / size, 1e-18)
                sums = sums + weight * np.asarray(table.counts.sum(axis=others)) / total
                weights += weight
        found.append(shares(onto_simplex(np.asarray(sums / weights, dtype=np.float64), 1.0)))
    return found


def pair_estimates(tables: Sequence[Marginal]) -> dict[Scope, Marginal]:
    """The table of every pair that some table holds: the mean of what they say, by their variances."""
    sums: dict[Scope, Reals] = {}
    weights: dict[Scope, float] = {}
    for table in tables:
        for first, second in itertools.combinations(range(len(table.scope)), 2):
            others = tuple(at for at in range(len(table.scope)) if at not in (first, second))
            counts = np.asarray(table.counts.sum(axis=others))
            weight = 1 / max(table.std**2 * table.counts.size / counts.size, 1e-18)
            pair = (table.scope[first], table.scope[second])
            sums[pair] = sums.get(pair, np.zeros_like(counts)) + weight * counts
            weights[pair] = weights.get(pair, 0.0) + weight
    return {pair: Marginal(pair, sums[pair] / weight, 1 / math.sqrt(weight)) for pair, weight in weights.items()}


def _fitted(
    coarse: list[Reals],
    total: float,
    tables: Sequence[Marginal],
    copula: Mapping[Scope, Reals],
    trends: Sequence[bool],
) -> Junction:
    pairs = pair_estimates(tables)
    independent: dict[Scope, Reals] = {(j, k): np.outer(coarse[j], coarse[k]) for j, k in [*pairs, *copula]}
    near = {**copula, **_beyond({**independent, **copula}, pairs, coarse, total, trends)}
    strength = {pair: float(np.abs(table - independent[pair]).sum()) for pair, table in near.items()}
    tree = _spanning(sorted(near, key=lambda pair: (-strength[pair], pair)), len(coarse))
    law = Junction(coarse, tree)
    law.fit({pair: near[pair] for pair in tree}, sweeps=2)
    further = [pair for pair in {**pairs, **copula} if pair not in tree]
    wide = [table for table in tables if len(table.scope) > 2]
    if not further and not wide:
        return law
    predicted = law.pairs() if further else {}
    more = {pair: copula[pair] for pair in further if pair in copula and pair not in pairs}
    # What correlations say of a pair is no worse a prediction of it than what the tree says.
    prior = {pair: copula.get(pair, predicted[pair]) for pair in further}
    more |= _beyond(prior, {pair: pairs[pair] for pair in further if pair in pairs}, coarse, total, trends)
    gain = {pair: float(np.abs(table - predicted[pair]).sum()) / 2 for pair, table in more.items()}
    scopes: list[Scope] = list(tree)
    for pair in sorted(more, key=lambda pair: (-gain[pair], pair)):
        if gain[pair] > FAINTEST and fits(law.sizes, [*scopes, pair]):
            scopes.append(pair)
    held: list[Marginal] = []
    for table in wide:
        if fits(law.sizes, [*scopes, *(other.scope for other in held), table.scope]):
            held.append(table)
    law = Junction(coarse, [*scopes, *(table.scope for table in held)])
    targets: dict[Scope, Reals] = {pair: near[pair] if pair in tree else more[pair] for pair in scopes}
    law.fit(targets, SWEEPS)
    if held:
        law.fit({**_wide_targets(law, held, total), **targets}, SWEEPS)
    return law


def _wide_targets(law: Junction, tables: Sequence[Marginal], total: float) -> dict[Scope, Reals]:
    """Tables of three and more attributes, denoised towards what the law of pairs predicts."""
    found: dict[Scope, Reals] = {}
    for table in tables:
        clean = denoised(table.counts, total * law.table(table.scope), table.std)
        found[table.scope] = shares(onto_simplex(clean.reshape(-1), total)).reshape(clean.shape)
    return found


def _beyond(
    predictions: Mapping[Scope, Reals],
    pairs: Mapping[Scope, Marginal],
    coarse: Sequence[Reals],
    total: float,
    trends: Sequence[bool],
) -> dict[Scope, Reals]:
    """Consistent tables of the pairs that say something beyond a prediction."""
    near: dict[Scope, Reals] = {}
    for pair, table in pairs.items():
        clean = denoised(table.counts, total * predictions[pair], table.std, [trends[axis] for axis in pair])
        if float(np.abs(clean / total - predictions[pair]).sum()) / 2 > FAINTEST:
            near[pair] = consistent(clean, coarse[pair[0]], coarse[pair[1]])
    return near


def _spanning(pairs: Sequence[Scope], attributes: int) -> list[Scope]:
    """The pairs, first ones first, that join attributes not joined before."""
    part = list(range(attributes))
    chosen: list[Scope] = []
    for j, k in pairs:
        if part[j] != part[k]:
            part = [part[j] if each == part[k] else each for each in part]
            chosen.append((j, k))
    return chosen
