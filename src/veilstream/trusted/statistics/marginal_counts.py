"""Tables of some attributes one by one, and scores of how badly a public model predicts each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts, open_rows
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.base import Scores
from veilstream.values.boxes import require_dense

GRID: Final = 4
LARGEST: Final = 1 << 50


@hide_frames
def marginal_counts(
    rows: SealedRows, groups: Sequence[NDArray[np.int64]], scopes: Sequence[tuple[int, ...]]
) -> list[Sealed]:
    """For every set of attributes the table of rows by the public groups of their codes, row-major.

    A row is counted once in each table: ``l1`` of the rows carries over to every one of them.

    >>> from veilstream.privacy.charge import Span
    >>> rows = SealedRows([np.array([0, 1]), np.array([0, 2])], np.arange(2, dtype=np.uint64), (2, 3), Span(0, 0), 1)
    >>> marginal_counts(rows, [np.array([0, 1]), np.array([0, 0, 1])], [(0, 1)])
    [Sealed(size=4, span=0..0, l1=1)]
    """
    if len(groups) != len(rows.shape) or any(g.shape != (n,) for g, n in zip(groups, rows.shape, strict=True)):
        raise InvalidInputError(f"marginal counts: groups of {len(groups)} attributes, one for every code is needed")
    columns, _ = open_rows(rows)
    sizes = [1 + int(group.max()) for group in groups]
    coarse = [group.astype(np.int32)[column] for group, column in zip(groups, columns, strict=True)]
    tables: list[Sealed] = []
    for scope in scopes:
        shape = tuple(sizes[axis] for axis in scope)
        require_dense(shape)
        cells = np.zeros(columns[0].size, dtype=np.int32)
        for axis in scope:
            cells *= sizes[axis]
            cells += coarse[axis]
        table = np.bincount(cells, minlength=math.prod(shape))
        tables.append(Sealed(table.astype(np.int64), rows.span, rows.l1, bins=rows.bins))
    return tables


@hide_frames
def misfit_scores(
    tables: Sequence[Sealed],
    predictions: Sequence[NDArray[np.float64]],
    penalties: Sequence[float],
    *,
    none: bool = False,
) -> Scores:
    """For every table its L1 distance to a public prediction, less a public penalty, on a grid of 2⁻⁴.

    An L1 distance moves by at most what its table moves: ``l1`` of the tables, of which all must have the same rows.
    With ``none`` there is a last candidate that scores 0 whatever the rows are: no table is worth its penalty.

    >>> from veilstream.trusted.counts import seal
    >>> misfit_scores([seal(np.array([3, 4]), t=0)], [np.array([3.5, 3.5])], [1.0])
    Scores(size=1, span=Span(first=0, last=0), sensitivity=16)
    """
    if not tables or any(table.span != tables[0].span or table.grid for table in tables):
        raise InvalidInputError("misfit scores: tables of one step in whole counts are needed")
    scores: list[int] = []
    for table, prediction, penalty in zip(tables, predictions, penalties, strict=True):
        distance = int(np.abs((open_counts(table) << GRID) - _on_grid(prediction)).sum())
        scores.append(distance - min(math.ceil(penalty * (1 << GRID)), LARGEST))
    if none:
        scores.append(0)
    sensitivity = max(table.l1 for table in tables) * Fraction(1 << GRID)
    return Scores(np.array(scores, dtype=np.int64), tables[0].span, sensitivity, bins=tables[0].bins)


@hide_frames
def table_distances(tables: Sequence[Sealed], predictions: Sequence[NDArray[np.float64]]) -> Sealed:
    """For every table its L1 distance to a public prediction, on a grid of 2⁻⁴ to which predictions are rounded.

    A distance moves by at most what its table moves: ``l1`` of all tables together.

    >>> from veilstream.trusted.counts import seal
    >>> table_distances([seal(np.array([3, 4]), t=0)] * 2, [np.array([3.5, 3.5]), np.zeros(2)])
    Sealed(size=2, span=0..0, l1=2)
    """
    if not tables or any(table.span != tables[0].span or table.grid for table in tables):
        raise InvalidInputError("distances of tables: tables of one step in whole counts are needed")
    distances = [
        int(np.abs((open_counts(table) << GRID) - _on_grid(prediction)).sum())
        for table, prediction in zip(tables, predictions, strict=True)
    ]
    moved = sum((table.l1 for table in tables), Fraction(0))
    return Sealed(np.array(distances, dtype=np.int64), tables[0].span, moved, grid=GRID, bins=tables[0].bins)


def _on_grid(prediction: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.clip(prediction, 0.0, 2.0**40) * (1 << GRID)).astype(np.int64)
