"""Averages of estimates that are made on blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_rows
from veilstream.trusted.rows import SealedRows

BLOCK_GRID = 20
BISECTIONS = 24


@hide_frames
def block_correlations(rows: SealedRows, scores: Sequence[NDArray[np.float64]], blocks: int) -> Sealed:
    """Σ over ``blocks`` of the likeliest correlation of every pair of attributes within the block.

    ``scores`` gives each attribute's public normal score for every code. A row belongs to the block that its hash says;
    within a block the correlation of a pair is the maximum-likelihood one of two standard normal variables,
    on a grid of 2⁻²⁰; an empty block counts 0. Divided by ``blocks`` it is the mean estimate.

    Sensitivity. The hash of a row does not depend on other rows and the scores are public, so one row changes one block
    alone. Its estimates lie between −1 and 1 and are rounded block by block: each of the m(m−1)/2 sums moves by at
    most 2, a unit with l1 rows in as many blocks by l1 times that.

    >>> from veilstream.privacy.charge import Span
    >>> rows = SealedRows([np.array([0, 1]), np.array([0, 1])], np.arange(2, dtype=np.uint64), (2, 2), Span(0, 0), 1)
    >>> block_correlations(rows, [np.array([-0.7, 0.7])] * 2, blocks=5)
    Sealed(size=1, span=0..0, l1=2)
    """
    if type(blocks) is not int or blocks < 1:
        raise InvalidInputError(name="blocks", value=blocks, limit="a whole number of at least 1")
    if len(scores) != len(rows.shape) or any(s.shape != (n,) for s, n in zip(scores, rows.shape, strict=True)):
        raise InvalidInputError(f"scores of {len(scores)} attributes for {len(rows.shape)}")
    columns, hashes = open_rows(rows)
    block = (hashes % np.uint64(blocks)).astype(np.int64)
    sizes = np.maximum(np.bincount(block, minlength=blocks), 1)
    normal = [table[column] for table, column in zip(scores, columns, strict=True)]
    squares = [np.bincount(block, z * z, minlength=blocks) / sizes for z in normal]
    sums: list[int] = []
    for (x, xx), (y, yy) in combinations(zip(normal, squares, strict=True), 2):
        xy = np.bincount(block, x * y, minlength=blocks) / sizes
        estimates = np.clip(likeliest_correlation(xy, xx + yy), -1.0, 1.0)
        sums.append(int(np.rint(estimates * (1 << BLOCK_GRID)).astype(np.int64).sum()))
    moved = Fraction(2 * len(sums))
    return Sealed(np.array(sums, dtype=np.int64), rows.span, rows.l1 * moved, grid=BLOCK_GRID, bins=rows.bins)


def likeliest_correlation(product: NDArray[np.float64], squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ρ in [−1, 1] where the likelihood of two standard normal variables is stationary.

    With the means ``product`` of xy and ``squares`` of x² + y² it solves ρ³ − product·ρ² + (squares − 1)·ρ = product.
    The left side less the right is −mean (x+y)² ≤ 0 at −1 and mean (x−y)² ≥ 0 at 1, so halving the interval finds a
    root. No data, product = squares = 0, give 0.

    >>> likeliest_correlation(np.array([0.0, 0.5]), np.array([0.0, 2.0])).round(4).tolist()
    [0.0, 0.5]
    """
    low, high = np.full(product.shape, -1.0), np.ones(product.shape)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        value = middle**3 - product * middle**2 + (squares - 1) * middle - product
        low, high = np.where(value < 0, middle, low), np.where(value < 0, high, middle)
    return np.where(squares == 0, 0.0, (low + high) / 2)
