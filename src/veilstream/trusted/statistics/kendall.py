"""Kendall's rank statistics of all pairs of attributes, exact with ties."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_rows
from veilstream.trusted.rows import SealedRows

Ranks = NDArray[np.int64]
WORTH_THREADS = 1 << 14


@hide_frames
def kendall_sums(rows: SealedRows, sample_size: int) -> Sealed:
    """S_jk = Σ sign(x_aj − x_bj)·sign(x_ak − x_bk) over all pairs a < b of the first ``sample_size`` rows.

    One number for every pair of attributes j < k, in the order of ``combinations``; pairs of rows that are missing
    because the table is shorter count 0. S_jk divided by n̂(n̂−1)/2 is τ-a.

    Sensitivity. ``sample_size`` = n̂ is public and rows stand in the order of a hash that a person's presence does
    not change for others, so adding or removing a row replaces at most one row of the sample, or adds one to fewer
    than n̂. Let u, v ∈ {−1, 0, 1}^m be the signs of the old and of the new row against one of the n̂ − 1 others.
    Together the S_jk move by D(u, v) = Σ_{j<k} |u_j u_k − v_j v_k| for each of them. D is convex in every single
    coordinate, so its maximum lies at u, v ∈ {−1, 1}^m, where a pair differs, by 2, exactly if one of its two
    coordinates is among the a that differ: D = 2a(m−a) ≤ ⌊m²/2⌋. A row that is added where none was moves them by at
    most m(m−1)/2 ≤ ⌊m²/2⌋. Hence L1 sensitivity ⌊m²/2⌋·(n̂ − 1), about half of m(m−1)/2 coefficients at 2(n̂ − 1)
    each; a unit with l1 rows replaces at most l1 of them, one after the other.

    >>> from veilstream.privacy.charge import Span
    >>> columns = [np.array([0, 1, 2]), np.array([0, 2, 1]), np.array([0, 0, 0])]
    >>> rows = SealedRows(columns, np.arange(3, dtype=np.uint64), (3, 3, 1), Span(0, 0), 1)
    >>> kendall_sums(rows, sample_size=3)
    Sealed(size=3, span=0..0, l1=8)
    """
    if type(sample_size) is not int or sample_size < 2:
        raise InvalidInputError(name="sample_size", value=sample_size, limit="a whole number of at least 2")
    attributes = len(rows.shape)
    if attributes < 2:
        raise InvalidInputError(f"Kendall's tau of {attributes} attribute(s): at least 2 are needed")
    columns, _ = open_rows(rows)
    ranked = [_dense_ranks(column[:sample_size]) for column in columns]
    pairs = list(combinations(ranked, 2))
    # Threads take longer to start than small samples to be counted.
    if sample_size * len(pairs) < WORTH_THREADS:
        sums = np.array(list(map(_of_pair, pairs)), dtype=np.int64)
    else:
        with ThreadPoolExecutor(max_workers=min(len(pairs), os.cpu_count() or 1)) as pool:
            sums = np.array(list(pool.map(_of_pair, pairs)), dtype=np.int64)
    moved = Fraction(attributes * attributes // 2 * (sample_size - 1))
    return Sealed(sums, rows.span, rows.l1 * moved, bins=rows.bins)


def _dense_ranks(codes: NDArray[Any]) -> tuple[Ranks, int]:
    """Codes as ranks 0, 1, ... among the values that occur, and how many do."""
    present = np.bincount(codes) > 0
    ranks = np.cumsum(present) - 1
    return ranks[codes], int(present.sum())


def _of_pair(pair: tuple[tuple[Ranks, int], tuple[Ranks, int]]) -> int:
    return concordance(*pair[0], *pair[1])


def concordance(x: Ranks, x_values: int, y: Ranks, y_values: int) -> int:
    """Concordant minus discordant pairs: by a table of counts where it is small, else by counting inversions.

    >>> concordance(np.array([0, 1, 1, 2]), 3, np.array([1, 0, 2, 2]), 3)
    2
    """
    if x.size < 2:
        return 0
    if x_values * y_values <= 4 * x.size * max(x.size.bit_length(), 1):
        return _by_table(x, x_values, y, y_values)
    return _by_inversions(x, y)


def _by_table(x: Ranks, x_values: int, y: Ranks, y_values: int) -> int:
    """Σ n_ij · (pairs below and left − pairs below and right), O(n + cells)."""
    counts = np.bincount(x * y_values + y, minlength=x_values * y_values).reshape(x_values, y_values)
    below = np.cumsum(counts, axis=0)[:-1]
    left = np.cumsum(below, axis=1)
    above = counts[1:]
    total = int((above * left).sum()) - int((above.sum(axis=1) * left[:, -1]).sum())
    return total + int((above[:, 1:] * left[:, :-1]).sum())


def _by_inversions(x: Ranks, y: Ranks) -> int:
    """All pairs − ties in x − ties in y + ties in both − 2 · inversions of y in the order of (x, y): O(n log n)."""
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    together = np.concatenate([[True], (x[1:] != x[:-1]) | (y[1:] != y[:-1])])
    both = np.diff(np.append(np.flatnonzero(together), x.size))
    ties = [_pairs_within(np.bincount(x)), _pairs_within(np.bincount(y)), _pairs_within(both)]
    return x.size * (x.size - 1) // 2 - ties[0] - ties[1] + ties[2] - 2 * inversions(y)


def _pairs_within(sizes: NDArray[np.int64]) -> int:
    return int((sizes * (sizes - 1) // 2).sum())


def inversions(values: Ranks) -> int:
    """Pairs a < b with values[a] > values[b], bit by bit from the highest: within equal higher bits a 1 before a 0.

    >>> inversions(np.array([3, 1, 2, 1]))
    4
    """
    found = 0
    bits = int(values.max(initial=0)).bit_length()
    for bit in reversed(range(bits)):
        higher = values >> (bit + 1)
        one = (values >> bit) & 1
        begins = np.concatenate([[True], higher[1:] != higher[:-1]])
        first = np.maximum.accumulate(np.where(begins, np.arange(values.size), 0))
        ones = np.concatenate([[0], np.cumsum(one)])
        before = ones[:-1] - ones[first]
        found += int(before[one == 0].sum())
        values = values[np.argsort(values >> bit, kind="stable")]
    return found


def pairs_of(attributes: int) -> Sequence[tuple[int, int]]:
    """The order in which coefficients of pairs are listed.

    >>> pairs_of(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(attributes), 2))
