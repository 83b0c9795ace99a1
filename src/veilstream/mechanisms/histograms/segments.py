"""Least-squares partition of a public vector into stretches, with a price for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXACT = 1024
BLOCK = 128


@dataclass(frozen=True, slots=True)
class _Atoms:
    """Pieces that are kept whole: bins, or stretches found before."""

    starts: NDArray[np.int64]
    counts: NDArray[np.float64]
    sums: NDArray[np.float64]


def segment(values: NDArray[np.float64], price: float) -> NDArray[np.int64]:
    """Where the stretches of the partition with the least Σ(v − mean of its stretch)² + price · stretches begin.

    Exact by dynamic programming up to 1,024 bins, in O(n²). Beyond, the same programme runs within blocks of 128, then
    over the stretches it found, in blocks that straddle the earlier borders, until nothing merges any more or
    1,024 are left for one exact run: O(n), and stretches once joined stay joined.

    >>> segment(np.array([5.0, 6.0, 5.0, 0.0, 0.0, 1.0]), price=4.0).tolist()
    [0, 3]
    """
    atoms = _Atoms(np.arange(values.size, dtype=np.int64), np.ones(values.size), values - values.mean())
    offset = 0
    while atoms.starts.size > EXACT:
        merged = _merge(atoms, price, BLOCK, offset)
        if merged.starts.size > 0.98 * atoms.starts.size and offset:
            return merged.starts
        atoms, offset = merged, BLOCK // 2 - offset
    return _merge(atoms, price, atoms.starts.size, 0).starts


def beginnings(values: NDArray[np.float64], price: float) -> NDArray[np.bool_]:
    """Whether a stretch of ``segment`` begins at each value, for one vector or for every row of a table.

    >>> beginnings(np.array([[5.0, 6.0, 5.0, 0.0], [1.0, 9.0, 9.0, 9.0]]), price=4.0).astype(int).tolist()
    [[1, 0, 0, 1], [1, 1, 0, 0]]
    """
    size = int(values.shape[-1])
    if values.ndim == 1 or size > EXACT:
        rows = [np.isin(np.arange(size), segment(row, price)) for row in values.reshape(-1, size)]
        return np.stack(rows).reshape(values.shape)
    sums = np.zeros((len(values), size + 1))
    np.cumsum(values - values.mean(axis=1, keepdims=True), axis=1, out=sums[:, 1:])
    counts = np.broadcast_to(np.arange(size + 1.0), sums.shape)
    return _traced(_best_starts(counts, sums, price))[:, :size]


def _merge(atoms: _Atoms, price: float, width: int, offset: int) -> _Atoms:
    """One exact run in every block of ``width`` atoms; the first block holds ``offset`` places that are empty."""
    size = atoms.starts.size
    blocks = -(-(size + offset) // width)
    counts = _blocked(atoms.counts, offset, blocks, width)
    sums = _blocked(atoms.sums, offset, blocks, width)
    begins = _traced(_best_starts(counts, sums, price))
    flags = begins[:, :width].reshape(-1)[offset : offset + size]
    flags[0] = True
    starts = np.flatnonzero(flags)
    return _Atoms(atoms.starts[starts], np.add.reduceat(atoms.counts, starts), np.add.reduceat(atoms.sums, starts))


def _traced(before: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where stretches begin in each block, back from its end."""
    begins = np.zeros(before.shape, dtype=np.bool_)
    rows = np.arange(len(before))
    at = np.full(rows.size, before.shape[1] - 1)
    while at.any():
        at = before[rows, at]
        begins[rows, at] = True
    return begins


def _blocked(parts: NDArray[np.float64], offset: int, blocks: int, width: int) -> NDArray[np.float64]:
    """Running totals within each block, from 0."""
    flat = np.zeros(blocks * width)
    flat[offset : offset + parts.size] = parts
    running = np.zeros((blocks, width + 1))
    np.cumsum(flat.reshape(blocks, width), axis=1, out=running[:, 1:])
    return running


def _best_starts(counts: NDArray[np.float64], sums: NDArray[np.float64], price: float) -> NDArray[np.int64]:
    """For every end, where the last stretch begins. Σv² is the same for all partitions and left out."""
    blocks, places = int(counts.shape[0]), int(counts.shape[1])
    best = np.zeros((places, blocks))
    before = np.zeros((blocks, places), dtype=np.int64)
    counts, sums = np.ascontiguousarray(counts.T), np.ascontiguousarray(sums.T)
    rows = np.arange(blocks)
    for end in range(1, places):
        gain = sums[end] - sums[:end]
        gain *= gain
        # An empty stretch gains nothing, so that any divisor will do.
        gain /= np.maximum(counts[end] - counts[:end], 1.0)
        np.subtract(best[:end], gain, out=gain)
        chosen = gain.argmin(axis=0)
        before[:, end] = chosen
        best[end] = gain[chosen, rows] + price
    return before
