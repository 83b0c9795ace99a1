"""The nearest counts that are possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def onto_simplex(values: NDArray[np.float64], total: ArrayLike) -> NDArray[np.float64]:
    """The nearest vector (in the L2 norm) with entries ≥ 0 and sum ``total``: max(v − θ, 0) for one θ.

    Clipping negative counts at zero adds all the noise that is above it; subtracting θ takes that away. Vectors lie
    along the last axis; ``total`` is one for all or one for each, and a total of 0 or less gives zeros.

    >>> onto_simplex(np.array([5.0, 2.0, -1.0]), 6.0).tolist()
    [4.5, 1.5, 0.0]
    >>> onto_simplex(np.array([[5.0, 2.0], [1.0, 1.0]]), [[6.0], [0.0]]).tolist()
    [[4.5, 1.5], [0.0, 0.0]]
    """
    sums = np.asarray(total, dtype=np.float64)
    falling = -np.sort(-values, axis=-1)
    counted = np.arange(1, int(values.shape[-1]) + 1)
    surplus: NDArray[np.float64] = (np.cumsum(falling, axis=-1) - sums) / counted
    last = np.sum(falling > surplus, axis=-1, keepdims=True)
    theta = np.take_along_axis(surplus, np.maximum(last, 1) - 1, axis=-1)
    return np.where(sums > 0, np.maximum(values - theta, 0.0), 0.0)
