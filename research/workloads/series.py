"""Synthetic count series of Fan and Xiong (TKDE 2014, section 5), drawn again with a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from veilstream.testing.simulation import SeededSource

STEPS = 1000
PROCESS_VARIANCE = 1e5


def linear(
    seed: int, steps: int = STEPS, series: int = 1, variance: float = PROCESS_VARIANCE, start: float = 2e4
) -> NDArray[np.int64]:
    """Random walks with steps of N(0, variance), the model that the filters assume; steps × series.

    The paper gives no starting level; walks that reach 0 stay there until they rise.

    >>> linear(seed=1, steps=3, series=2).shape
    (3, 2)
    """
    return _counts(start + np.cumsum(_normal(seed, steps, series) * np.sqrt(variance), axis=0))


def logistic(
    seed: int, steps: int = STEPS, series: int = 1, variance: float = PROCESS_VARIANCE, height: float = 5000.0
) -> NDArray[np.int64]:
    """height/(1 + e^{−k}) with fluctuations of N(0, variance); steps × series."""
    curve = height / (1 + np.exp(-np.arange(steps, dtype=np.float64)))
    return _counts(curve[:, None] + _normal(seed, steps, series) * np.sqrt(variance))


def sinusoidal(
    seed: int, steps: int = STEPS, series: int = 1, variance: float = PROCESS_VARIANCE, height: float = 5000.0
) -> NDArray[np.int64]:
    """height·(2 + sin(πk/6 + π/2)) with fluctuations of N(0, variance); steps × series.

    The paper's sinusoid is negative half of the time; raised by twice its height it is a count well above 0.
    """
    curve = height * (2 + np.sin(np.pi / 6 * np.arange(steps) + np.pi / 2))
    return _counts(curve[:, None] + _normal(seed, steps, series) * np.sqrt(variance))


def _normal(seed: int, steps: int, series: int) -> NDArray[np.float64]:
    words = SeededSource(seed).words(steps * series)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    normal: NDArray[np.float64] = ndtri(uniform)
    return normal.reshape(steps, series)


def _counts(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(np.maximum(values, 0.0)).astype(np.int64)
