"""Whether the groups and tables of a model still suit a table that has changed; found from what is published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.synthesis.graph_budget import Budget
from veilstream.synthesis.graph_fit import Graph
from veilstream.synthesis.graph_layout import GraphLayout, Marginal, Published
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.resolution import Resolution, best_resolution

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
ROWS_DRAWN: Final = 50_000
"""Rows of the last model by which tables of other groups are predicted."""
FAINT: Final = 2.0
"""Standard deviations by which the dependence of a pair must stand out of noise and chance for its table to stay."""


class Prediction:
    """What the last model says of the table of any attributes: rows drawn from it, which cost nothing."""

    def __init__(self, law: Graph, step: int) -> None:
        self.columns = law.rows(ROWS_DRAWN, (step, 9))
        tables = law.law.pairs()
        apart = [np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum() / 2 for table in tables.values()]
        self.dependence = float(np.mean(apart)) if apart else 0.0
        """How far pairs of attributes are from independence on average, as a share of the rows."""

    def table(self, labels: Sequence[Integers], scope: Scope) -> Reals:
        """Shares of the groups of some attributes."""
        shape = tuple(1 + int(labels[axis].max()) for axis in scope)
        cells = np.zeros(ROWS_DRAWN, dtype=np.int64)
        for axis, size in zip(scope, shape, strict=True):
            cells = cells * size + labels[axis][self.columns[axis]]
        counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
        return np.asarray(counts / ROWS_DRAWN, dtype=np.float64)


def independent(table: Reals) -> Reals:
    """The table of independent attributes with the same margins.

    >>> independent(np.array([[0.5, 0.0], [0.0, 0.5]])).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    found = np.ones(1)
    for axis in range(table.ndim):
        margin = table.sum(axis=tuple(other for other in range(table.ndim) if other != axis))
        found = np.multiply.outer(found, margin)
    return np.asarray(found[0], dtype=np.float64)


def groups_of(labels: Sequence[Integers]) -> int:
    """The most groups of an attribute whose values are gathered; of any, if none are."""
    sizes = [1 + int(label.max()) for label in labels]
    gathered = [size for size, label in zip(sizes, labels, strict=True) if size < label.size]
    return max(gathered, default=max(sizes))


def renewed_resolution(
    layout: GraphLayout, labels: Sequence[Integers], total: float, dependence: float, budget: Budget
) -> Resolution | None:
    """The groups and tables that hold every pair which are expected to be nearest now; None if they are the present.

    A model of few groups shows less ``dependence`` than there is: what groups are expected to lose is made up for.
    """
    groups = groups_of(labels)
    present = Resolution.of(layout, groups, budget, 1.0)
    depends = dependence * total / (1 - present.lost if present is not None else 1.0)
    best = best_resolution(layout, budget, max(depends, 1.0))
    return None if best is None or best.groups == groups else best


def stands_out(table: Marginal) -> bool:
    """Whether the dependence that a table shows is beyond noise and chance; of more than two attributes always.

    >>> stands_out(Marginal((0, 1), np.array([[50.0, 0.0], [0.0, 50.0]]), 5.0))
    True
    >>> stands_out(Marginal((0, 1), np.array([[25.0, 27.0], [26.0, 24.0]]), 5.0))
    False
    """
    if table.counts.ndim != 2 or table.std <= 0:
        return True
    counts, total = table.counts, float(table.counts.sum())
    alone = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total if total > 0 else np.zeros_like(counts)
    freedom = max((counts.shape[0] - 1) * (counts.shape[1] - 1), 1)
    # Rows drawn from an independent law would be off by chance too, cell by cell with the variance of a Poisson count.
    variances = table.std**2 + np.maximum(alone, 0.0)
    excess = float((np.square(counts - alone) / variances).sum()) * freedom / counts.size - freedom
    return bool(excess > FAINT * math.sqrt(5 * freedom))


def scaled(parts: Published, factor: float) -> Published:
    """What is known of a table that has so many times the rows."""
    margins = replace(
        parts.margins,
        counts=tuple(factor * counts for counts in parts.margins.counts),
        total=factor * parts.margins.total,
        std=tuple(factor * std for std in parts.margins.std),
    )
    tables = [Marginal(table.scope, factor * table.counts, factor * table.std) for table in parts.tables]
    return replace(parts, margins=margins, tables=tables)
