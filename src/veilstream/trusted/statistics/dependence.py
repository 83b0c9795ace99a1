"""How far pairs of attributes are from independence, on average."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_rows
from veilstream.trusted.rows import SealedRows

GRID: Final = 8
MOST_GROUPS: Final = 8
"""Neighbouring values of larger attributes are taken together, to so many groups: in finer tables, chance alone makes
rows look dependent."""


@hide_frames
def mean_dependence(rows: SealedRows) -> Sealed:
    """The mean over all pairs of attributes of half the L1 distance from their table to independence, in rows.

    For a pair with the table N and the margins R and C of n rows that is Σ|N_ab − R_a·C_b/n| / 2, on a grid of 2⁻⁸
    below which it is rounded down. Attributes of more than 8 values are gathered into 8 groups of successive ones.

    Sensitivity. Let p = R/n and q = C/n, and let a row (a, b) be added. N grows by δ_a⊗δ_b and the product R⊗C/n
    becomes (np + δ_a)⊗(nq + δ_b)/(n + 1), so their difference grows by n/(n + 1)·(δ_a − p)⊗(δ_b − q). The L1 norm of
    that is n/(n + 1)·‖δ_a − p‖₁·‖δ_b − q‖₁ < 4: half the distance of every pair, and hence their mean, moves by less
    than 2.
    A unit with l1 rows moves it by less than 2·l1, one row after the other, and two numbers that are less than a whole
    number of steps apart are not further apart after both were rounded down.

    >>> from veilstream.privacy.charge import Span
    >>> rows = SealedRows([np.array([0, 1]), np.array([0, 1])], np.arange(2, dtype=np.uint64), (2, 2), Span(0, 0), 1)
    >>> mean_dependence(rows)
    Sealed(size=1, span=0..0, l1=2)
    """
    pairs = list(itertools.combinations(range(len(rows.shape)), 2))
    if not pairs:
        raise InvalidInputError(f"dependence of {len(rows.shape)} attribute(s): at least 2 are needed")
    columns, hashes = open_rows(rows)
    sizes = [min(size, MOST_GROUPS) for size in rows.shape]
    coarse = [
        column if size <= MOST_GROUPS else (column.astype(np.int64) * MOST_GROUPS // size).astype(np.int32)
        for column, size in zip(columns, rows.shape, strict=True)
    ]
    count, distance = hashes.size, 0
    for j, k in pairs:
        shape = (sizes[j], sizes[k])
        cells = coarse[j] * np.int32(shape[1]) + coarse[k]
        table = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.int64)
        apart = np.outer(table.sum(axis=1), table.sum(axis=0))
        # Whole numbers: n times the distance.
        distance += int(np.abs(count * table - apart).sum())
    exact = (distance << GRID) // (2 * max(count, 1) * len(pairs))
    return Sealed(np.array([exact], dtype=np.int64), rows.span, 2 * rows.l1, grid=GRID, bins=rows.bins)
