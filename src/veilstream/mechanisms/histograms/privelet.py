"""Noise on wavelet coefficients, so that ranges of many bins are sums of few noises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.transforms import haar_column, haar_variance, inverse_haar, padded_shape, power_of_two, unpad
from veilstream.values.values import NoiseLaw, Values


@dataclass(frozen=True, slots=True)
class Privelet:
    """Privelet+: Laplace noise on Haar coefficients along the long axes of a table, straight noise along the others.

    A count meets 1 + log₂ m coefficients along an axis of m bins (padded to a power of two), so every coefficient gets
    Lap(l1·Π(1 + log₂ m)/ε). A range along the axis is a combination of about 2·log₂ m coefficients: its variance
    grows with log³ m where independent noise grows with the number of bins in the range. Single bins pay for it.

    ``direct`` names the axes left out of the wavelet (S_A in the paper). By default an axis is left out if that
    makes the variance of a random range smaller, which depends on its length alone: both variances are averaged
    exactly over all ranges of the axis.

    >>> [privelet_axis_gains(m) > 1 for m in (2, 96, 256, 1024, 4096)]
    [False, False, False, True, True]

    >>> import numpy as np
    >>> from veilstream import Guarantee, simulate
    >>> from veilstream.mechanisms.histograms import Geometric
    >>> from veilstream.mechanisms.streams import Sample
    >>> flat, g = np.full((1, 4096), 50), Guarantee("1/10", w=1)
    >>> half = {h: np.std([simulate(Sample(h), g, flat, seed=s)[0, :2048].sum() for s in range(40)])
    ...     for h in (Privelet(), Geometric())}
    >>> bool(half[Privelet()] < half[Geometric()] / 2)
    True

    Xiao, Wang, Gehrke: Differential privacy via wavelet transforms, ICDE 2010 (Privelet+, section VI). Changed: whole
    differences of block sums instead of weighted averages, which is the same mechanism on exact integers; one
    person is added or removed rather than exchanged, which halves the noise; the rule for ``direct`` compares
    exact averages over ranges, where the paper's |A| ≤ P(A)²·H(A) compares worst cases.
    """

    direct: tuple[int, ...] | None = None
    oblivious: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.direct is not None and (len(set(self.direct)) != len(self.direct) or min(self.direct, default=0) < 0):
            raise InvalidInputError(name="direct", value=self.direct, limit="distinct axes from 0 upwards are needed")

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        axes = self._wavelet_axes(x.shape)
        if not axes:
            return meter.laplace(x, epsilon, "publish")
        noisy = meter.laplace(x.haar(axes), epsilon, "wavelet")
        batch = noisy.numbers.shape[:-1]
        coefficients = noisy.numbers.reshape(*batch, *padded_shape(x.shape, axes))
        table = inverse_haar(coefficients, [axis - len(x.shape) for axis in axes])
        spread = math.sqrt(math.prod(haar_variance(x.shape[axis]) for axis in axes))
        return Values(unpad(table, x.shape), noisy.std * spread, NoiseLaw.SUM)

    def _wavelet_axes(self, shape: tuple[int, ...]) -> list[int]:
        if self.direct is None:
            return [axis for axis, size in enumerate(shape) if privelet_axis_gains(size) > 1]
        if max(self.direct, default=-1) >= len(shape):
            raise InvalidInputError(name="direct", value=self.direct, limit=f"the table has {len(shape)} axes")
        return [axis for axis in range(len(shape)) if axis not in self.direct]


def privelet_axis_gains(size: int) -> float:
    """Variance of a random range along an axis of ``size`` bins with straight noise, over that with the wavelet.

    Both for the same epsilon, averaged over all size·(size+1)/2 ranges. On a level of blocks of s bins, cutting at
    position a gives the block's coefficient the weight f(a) = min(a mod s, s − a mod s)/s, and the range between the
    cuts a < b the squared weight f(a)² + f(b)², less 2·f(a)·f(b) if both fall into one block.
    """
    ranges = size * (size + 1) / 2
    direct = (size + 2) / 3
    cuts = np.arange(size + 1)
    padded = power_of_two(size)
    total = float(cuts**2 @ (size + 1 - cuts)) / padded**2
    block = padded
    while block > 1:
        position = cuts % block
        weight = np.minimum(position, block - position) / block
        inside = np.bincount(cuts // block, weights=weight)
        squares = float(weight @ weight)
        total += size * squares - (float(inside @ inside) - squares)
        block //= 2
    return direct / (total / ranges * haar_column(size) ** 2)
