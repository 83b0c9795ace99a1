"""The empirical copula on a tree: coarse tables of a few pairs instead of one correlation for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilstream.values.projection import onto_simplex

Reals = NDArray[np.float64]
FITTINGS = 50


def spanning_tree(matrix: Reals) -> list[tuple[int, int]]:
    """The m − 1 pairs of strongest correlation that join all attributes, each as (known before, new).

    >>> spanning_tree(np.array([[1.0, 0.1, 0.8], [0.1, 1.0, -0.9], [0.8, -0.9, 1.0]]))
    [(0, 2), (2, 1)]
    """
    strength = np.abs(matrix)
    inside, edges = [0], list[tuple[int, int]]()
    outside = list(range(1, len(matrix)))
    while outside:
        block = strength[np.ix_(inside, outside)]
        parent, child = np.unravel_index(int(block.argmax()), block.shape)
        edges.append((inside[parent], outside[child]))
        inside.append(outside.pop(int(child)))
    return edges


def consistent(noisy: Reals, row: Reals, column: Reals) -> Reals:
    """A table of probabilities near a noisy one with these margins: onto the simplex, then fitted in turn.

    >>> consistent(np.array([[5.0, -1.0], [0.0, 4.0]]), np.array([0.5, 0.5]), np.array([0.5, 0.5])).round(2).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    total = max(float(noisy.sum()), 1.0)
    # A trace of independence lets the fitting reach every margin.
    table = onto_simplex(noisy.reshape(-1), total).reshape(noisy.shape) / total + 1e-9 * np.outer(row, column)
    for _ in range(FITTINGS):
        table *= (row / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table *= (column / np.maximum(table.sum(axis=0), 1e-300))[None, :]
    return table


def walk_down(
    tables: Sequence[Reals],
    edges: Sequence[tuple[int, int]],
    root: Reals,
    uniforms: Sequence[Reals],
) -> list[NDArray[np.int64]]:
    """A group for every attribute and row: the root's by its margin, each child's by its table given the parent."""
    groups: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64) for _ in uniforms]
    groups[0] = np.minimum(np.searchsorted(np.cumsum(root), uniforms[0], side="right"), root.size - 1)
    for (parent, child), table in zip(edges, tables, strict=True):
        sums = table.sum(axis=1, keepdims=True)
        given = np.cumsum(np.where(sums > 0, table / np.where(sums > 0, sums, 1.0), 1 / table.shape[1]), axis=1)
        below = (uniforms[child][:, None] >= given[groups[parent]]).sum(axis=1)
        groups[child] = np.minimum(below, table.shape[1] - 1)
    return groups
