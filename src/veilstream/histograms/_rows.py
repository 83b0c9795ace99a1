"""Functions of one public vector, for many runs at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

D = TypeVar("D", np.bool_, np.int64)


def each_row(function: Callable[[NDArray[np.float64]], NDArray[D]], values: NDArray[np.float64]) -> NDArray[D]:
    """``function`` of a vector; of many runs, of the values of each. Equal rows are looked at once.

    >>> each_row(lambda row: row > row.mean(), np.array([[1.0, 3.0], [1.0, 3.0], [5.0, 0.0]])).tolist()
    [[False, True], [False, True], [True, False]]
    """
    if values.ndim == 1:
        return function(values)
    distinct, place = np.unique(values, axis=0, return_inverse=True)
    return np.stack([function(row) for row in distinct])[place.reshape(-1)]
