"""UG, a peer: one grid whose cells are as wide as the number of records and the budget ask for."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.histogram_errors import Counts, Reals

CONSTANT = 10.0


def uniform_grid(counts: Counts, shape: tuple[int, ...], epsilon: str, seed: int) -> Reals:
    """Noisy counts of about N·ε/10 equal boxes, spread evenly; the true N is used and not paid for.

    Qardaji, Yang, Li: Differentially private grids for geospatial data, ICDE 2013.
    """
    cells = max(1.0, float(counts.sum()) * float(epsilon) / CONSTANT)
    side = max(1, round(cells ** (1 / len(shape))))
    labels = np.zeros(shape, dtype=np.int64)
    for axis, size in enumerate(shape):
        parts = min(side, size)
        along = np.arange(size, dtype=np.int64) * parts // size
        labels = labels * parts + along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    flat = labels.reshape(-1)
    boxes = math.prod(min(side, size) for size in shape)
    # The peer's noise is simulated; nothing is released.
    noise = np.random.default_rng(seed).laplace(0, 1 / float(epsilon), boxes)  # noqa: TID251
    noisy = np.bincount(flat, weights=counts, minlength=boxes) + noise
    return np.asarray((noisy / np.bincount(flat, minlength=boxes))[flat], dtype=np.float64)
