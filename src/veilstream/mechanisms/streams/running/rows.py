"""Running totals from rows of a running sum with Gaussian noise: a factorisation of the matrix of prefix sums.

Row r measures m_r = Σ_s C[r, s]·x_s with fresh noise of standard deviation σ. C is invertible, and the totals are
y = A·C⁻¹·m: unbiased, with noise A·C⁻¹·z. For the square root, C² = A, both factors are the same, and the error of
n totals is σ·(Σ of the squared weights of all rows/n)^½, within a small constant of the best that any factorisation
can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.kernels import FINE_BITS, WEIGHT_BITS, Kernel, weights_of_ages
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.running import SealedRunning, merged
from veilstream.values.values import NoiseLaw, Values

Reals = NDArray[np.float64]

GROUPING: Final = 0.06
"""Groups raise the noise of a total, against weights of single ages, by at most this over detail² for each doubling."""


@dataclass(frozen=True, slots=True, eq=False)
class RowsState:
    """``estimates`` are the estimated counts of every group, from what was released, and ``total`` the last total."""

    sums: SealedRunning | None = None
    estimates: list[Any] = field(default_factory=list[Any])
    total: Any = None
    last: Any = None


def next_row(state: RowsState, now: Sealed, kernel: Kernel, unit: Fraction, meter: Meter) -> tuple[RowsState, Values]:
    """The total with the present row, which costs a timestamp of weight 1 the amount ``unit`` of μ²."""
    after, std = measured_row(state, now, kernel, unit, meter, decay=float(kernel.decay))
    assert after.sums is not None
    spread = std * row_spread(kernel, after.sums.last - after.sums.start)
    return after, Values(after.total, spread, NoiseLaw.GAUSSIAN)


def measured_row(
    state: RowsState, now: Sealed, kernel: Kernel, unit: Fraction, meter: Meter, *, decay: float
) -> tuple[RowsState, float]:
    """The state with the present row, in which a total falls by ``decay`` at each step, and the row's own noise."""
    before = state.sums
    sums = SealedRunning.opened_with(now, kernel) if before is None else before.extended(now)
    noisy = meter.row_of(sums, unit, "total")
    measured: Reals = np.asarray(noisy.numbers, dtype=np.float64)
    if before is None:
        estimates: list[Reals] = [measured]
        total: Reals = measured
    else:
        estimates, total = state.estimates, state.total
        nothing: Reals = np.zeros(now.size)
        for row in range(before.last - sums.start + 1, sums.last - sums.start + 1):
            estimates, total = merged([*estimates, nothing], kernel, row), decay * total
        weights = sums.weights()[:-1] / float(1 << WEIGHT_BITS)
        newest = measured - _weighted(estimates[:-1], weights)
        estimates, total = [*estimates[:-1], newest], total + newest
    return RowsState(sums, estimates, total, total), float(noisy.std)


def _weighted(estimates: list[Reals], weights: Reals) -> Reals:
    from scipy.linalg.blas import daxpy

    shape = max((estimate.shape for estimate in estimates), key=len)
    total = np.zeros(math.prod(shape))
    for estimate, weight in zip(estimates, weights.tolist(), strict=True):
        if weight:
            alike = estimate if estimate.shape == shape else np.ascontiguousarray(np.broadcast_to(estimate, shape))
            # One pass over both, where a product and a sum would be three.
            daxpy(alike.reshape(-1), total, a=weight)
    return total.reshape(shape)


def row_spread(kernel: Kernel, row: int) -> float:
    """The standard deviation of the total's noise at a row, in units of that of a row's own noise.

    >>> round(row_spread(Kernel(), 0), 2), round(row_spread(Kernel(), 1000), 2)
    (1.0, 1.82)
    """
    size = max(64, 1 << (row + 1).bit_length())
    return float(math.sqrt(_variances(kernel, size)[row]) * raised_by_groups(kernel, row))


def raised_by_groups(kernel: Kernel, row: int) -> float:
    """By how much groups raise the noise at a row, at most."""
    return 1 + GROUPING / kernel.detail**2 * math.log2(row + 1)


@lru_cache(maxsize=16)
def _variances(kernel: Kernel, rows: int) -> Reals:
    """Σ of the squared entries of every row of A·C⁻¹, weights taken age by age."""
    return variances_of(kernel, np.power(float(kernel.decay), np.arange(rows, dtype=np.float64)))


def variances_of(kernel: Kernel, workload: Reals) -> Reals:
    """The same where a released number counts an age k with ``workload[k]``."""
    return row_variances(weights_of_ages(kernel, len(workload)) / float(1 << FINE_BITS), workload)


def row_variances(weights: Reals, workload: Reals) -> Reals:
    """The same for weights age by age."""
    return np.asarray(np.cumsum(_product(_inverse(weights), workload) ** 2))


def _inverse(series: Reals) -> Reals:
    """The reciprocal of a power series that begins with 1, by Newton's iteration."""
    found = np.ones(1)
    while found.size < series.size:
        size = min(2 * found.size, series.size)
        error = -_product(series[:size], np.pad(found, (0, size - found.size)))
        error[0] += 2
        found = _product(np.pad(found, (0, size - found.size)), error)
    return found


def _product(one: Reals, other: Reals) -> Reals:
    """The first terms of the product of two power series of one length."""
    size = one.size
    padded = 1 << (2 * size - 1).bit_length()
    spectrum = np.fft.rfft(one, padded) * np.fft.rfft(other, padded)
    return np.fft.irfft(spectrum, padded)[:size]
