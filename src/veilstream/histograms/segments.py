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


def _merge(atoms: _Atoms, price: float, width: int, offset: int) -> _Atoms:
    """One exact run in every block of ``width`` atoms; the first block holds ``offset`` places that are empty."""
    size = atoms.starts.size
    blocks = -(-(size + offset) // width)
    counts = _blocked(atoms.counts, offset, blocks, width)
    sums = _blocked(atoms.sums, offset, blocks, width)
    begins = np.zeros((blocks, width + 1), dtype=np.bool_)
    before = _best_starts(counts, sums, price)
    rows = np.arange(blocks)
    at = np.full(blocks, width)
    while at.any():
        at = before[rows, at]
        begins[rows, at] = True
    flags = begins[:, :width].reshape(-1)[offset : offset + size]
    flags[0] = True
    starts = np.flatnonzero(flags)
    return _Atoms(atoms.starts[starts], np.add.reduceat(atoms.counts, starts), np.add.reduceat(atoms.sums, starts))


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
