"""Coarse tables of pairs of attributes, and scores of models that claim to predict them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts, open_rows
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.base import Scores

PREDICTION_GRID = 4
LARGEST_PENALTY = 1 << 50


@hide_frames
def pair_tables(
    rows: SealedRows, groups: Sequence[NDArray[np.int64]], count: int, edges: Sequence[tuple[int, int]]
) -> Sealed:
    """For every edge (j, k) the ``count`` × ``count`` table of rows by the public groups of their codes.

    Each row is counted once for every edge: ``l1`` of the rows times the number of edges.

    >>> from veilstream.privacy.charge import Span
    >>> rows = SealedRows([np.array([0, 1]), np.array([0, 1])], np.arange(2, dtype=np.uint64), (2, 2), Span(0, 0), 1)
    >>> pair_tables(rows, [np.array([0, 1])] * 2, 2, [(0, 1)])
    Sealed(size=4, span=0..0, l1=1)
    """
    if len(groups) != len(rows.shape) or not edges:
        raise InvalidInputError(f"pair tables: groups of {len(groups)} attributes, {len(edges)} edges")
    if any(g.shape != (n,) or g.min() < 0 or g.max() >= count for g, n in zip(groups, rows.shape, strict=True)):
        raise InvalidInputError(f"pair tables: every code needs a group from 0 to {count - 1}")
    columns, _ = open_rows(rows)
    coarse = [group[column] for group, column in zip(groups, columns, strict=True)]
    tables = [np.bincount(coarse[j] * count + coarse[k], minlength=count * count) for j, k in edges]
    return Sealed(np.concatenate(tables).astype(np.int64), rows.span, rows.l1 * len(edges), bins=rows.bins)


@hide_frames
def prediction_scores(
    tables: Sealed, predictions: Sequence[NDArray[np.float64] | None], penalties: Sequence[Fraction]
) -> Scores:
    """−(L1 distance of the tables to each public prediction + its penalty); without a prediction −penalty alone.

    An L1 distance moves by at most what the tables move: ``l1`` of the tables, on a grid of 2⁻⁴ to which predictions
    are rounded. Penalties are public and move nothing.

    >>> from veilstream.trusted.counts import seal
    >>> prediction_scores(seal(np.array([3, 4]), t=0), [np.array([3.5, 3.5]), None], [Fraction(0), Fraction(2)]).size
    2
    """
    exact = open_counts(tables) << PREDICTION_GRID
    scores: list[int] = []
    for prediction, penalty in zip(predictions, penalties, strict=True):
        distance = 0
        if prediction is not None:
            public = np.rint(prediction * float(1 << (PREDICTION_GRID + tables.grid))).astype(np.int64)
            distance = int(np.abs(exact - public).sum())
        scores.append(-distance - min(round(penalty * (1 << (PREDICTION_GRID + tables.grid))), LARGEST_PENALTY))
    sensitivity = tables.l1 * (1 << (PREDICTION_GRID + tables.grid))
    return Scores(np.array(scores, dtype=np.int64), tables.span, sensitivity, bins=tables.bins)


@hide_frames
def range_error(
    rows: SealedRows, low: NDArray[np.int64], high: NDArray[np.int64], answers: NDArray[np.float64]
) -> Sealed:
    """Σ_q |rows with low[q] ≤ codes < high[q] − answers[q]|, as a vector of one.

    One row is counted or not in each range, so each of the terms moves by at most 1: ``l1`` of the rows times the
    number of ranges.

    >>> from veilstream.privacy.charge import Span
    >>> rows = SealedRows([np.array([0, 1])], np.arange(2, dtype=np.uint64), (2,), Span(0, 0), 1)
    >>> range_error(rows, np.array([[0], [1]]), np.array([[2], [2]]), np.array([2.0, 0.5])).l1
    Fraction(2, 1)
    """
    if low.shape != high.shape or low.shape != (answers.size, len(rows.shape)):
        raise InvalidInputError(f"ranges of shapes {low.shape} and {high.shape}: one a row is needed")
    columns, _ = open_rows(rows)
    counts = count_ranges(columns, low, high)
    public = np.rint(answers * float(1 << PREDICTION_GRID)).astype(np.int64)
    error = int(np.abs((counts << PREDICTION_GRID) - public).sum())
    moved = rows.l1 * len(answers)
    return Sealed(np.array([error], dtype=np.int64), rows.span, moved, grid=PREDICTION_GRID, bins=rows.bins)


def count_ranges(
    columns: Sequence[NDArray[np.int32]], low: NDArray[np.int64], high: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How many rows lie in each range.

    The rows that a range's most selective attribute leaves come from that attribute's sorted order; only they are
    looked at further, attribute by attribute, rarest first.

    >>> count_ranges([np.array([0, 1, 1], dtype=np.int32)], np.array([[1]]), np.array([[2]])).tolist()
    [2]
    """
    orders: list[NDArray[np.int64]] = [np.argsort(_narrow(column), kind="stable") for column in columns]
    ranked = [column[order] for column, order in zip(columns, orders, strict=True)]
    starts, ends = (
        np.stack([np.searchsorted(column, bound[:, axis]) for axis, column in enumerate(ranked)], axis=1)
        for bound in (low, high)
    )
    rarest = np.argsort(ends - starts, axis=1, kind="stable")
    counts = np.zeros(len(low), dtype=np.int64)
    axes: list[list[int]] = rarest.tolist()
    for query, (first, *others) in enumerate(axes):
        inside = orders[first][starts[query, first] : ends[query, first]]
        for axis in others:
            values = columns[axis][inside]
            inside = inside[(values >= low[query, axis]) & (values < high[query, axis])]
        counts[query] = inside.size
    return counts


def _narrow(column: NDArray[np.int32]) -> NDArray[Any]:
    """Sixteen bits where they suffice: sorting them takes linear time."""
    return column.astype(np.uint16) if column.size and column.min() >= 0 and column.max() < 1 << 16 else column
