"""How many rows each part of a table has: a total that is not lost in the noise of many small parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.synthesis.margins import shares
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows
from veilstream.values.projection import onto_simplex

Reals = NDArray[np.float64]


def questions_of_sizes(split: Sequence[int]) -> int:
    """How many questions ``private_sizes`` asks about parts by these attributes."""
    return 1 if not split else 2 if len(split) == 1 else 3


def private_sizes(rows: SealedRows, split: Sequence[int], epsilon: Fraction, meter: Meter) -> tuple[Reals, float]:
    """The noisy sizes of the parts by the attributes ``split``, row-major, and the standard deviation of their noise.

    The sum of noisy parts has the noise of all of them: with 64 parts, eight times that of one count. So ε is divided
    equally among the total, the margins of ``split`` (if there are several) and the parts. Each of the three gives an
    estimate of the total, and they are averaged by their variances. Margins are then drawn towards even ones, and
    sizes towards what the margins say under independence, by the positive-part rule of James and Stein: as far as the
    noisy numbers deviate no more from it than noise does. So small parts survive, where projecting noise on counts ≥ 0
    would leave a few large ones.
    """
    share = epsilon / questions_of_sizes(split)
    counted = meter.laplace(rows.counts(()), share, "total")
    if not split:
        return np.maximum(np.asarray(counted.numbers, dtype=np.float64), 0.0), float(np.max(counted.std))
    totals, variances = [float(counted.numbers[0])], [float(np.max(counted.std)) ** 2]
    margins, deviations = list[Reals](), list[float]()
    for axis in split if len(split) > 1 else ():
        noisy = meter.laplace(rows.margin(axis), share / len(split), "margin of parts")
        deviation = float(np.max(noisy.std))
        margins.append(np.asarray(noisy.numbers, dtype=np.float64))
        deviations.append(deviation)
        totals.append(float(noisy.numbers.sum()))
        variances.append(deviation**2 * noisy.numbers.size)
    cells = meter.laplace(rows.counts(split), share, "sizes")
    sizes, std = np.asarray(cells.numbers, dtype=np.float64), float(np.max(cells.std))
    totals.append(float(sizes.sum()))
    variances.append(std**2 * sizes.size)
    weights = 1 / np.maximum(variances, 1e-100)
    total = max(float(weights @ totals / weights.sum()), 0.0)
    expected = np.full(sizes.size, total / sizes.size)
    if margins:
        product = np.ones(1)
        for margin, deviation in zip(margins, deviations, strict=True):
            even = np.full(margin.size, total / margin.size)
            product = np.outer(product, shares(onto_simplex(shrunk(margin, even, deviation), total))).reshape(-1)
        expected = total * product
    return onto_simplex(shrunk(sizes, expected, std), total), std


def shrunk(noisy: Reals, expected: Reals, std: float, sigmas: float = 0.0) -> Reals:
    """Noisy numbers drawn towards expected ones: all the way where they differ no more than noise of ``std`` does.

    Squares of k Laplace noises add up to kσ² with a standard deviation of √(5k)·σ²: with ``sigmas`` of these on top,
    noise alone is taken for more than noise only as often as so many standard deviations are passed.

    >>> shrunk(np.array([9.0, -7.0, 5.0, 1.0]), np.full(4, 2.0), std=10.0).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    excess = float(np.square(noisy - expected).sum())
    if excess == 0 or math.isinf(excess):
        return noisy
    explained = max(noisy.size - 2, 1) + sigmas * math.sqrt(5 * noisy.size)
    kept = 1 - explained * std**2 / excess
    return expected + kept * (noisy - expected) if kept > 0 else expected
