"""Noisy, hence public, numbers with the law and the width of their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError

Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.float64]


SMOOTHED_MISS: Final = 0.05
"""Of the level at which intervals of smoothed values are narrowest for what they promise."""


class NoiseLaw(StrEnum):
    """The law of the noise behind a value's standard deviation."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    SUM = "sum"
    """A sum of independent Laplace noises, which lies between the Laplace law and the normal one."""
    MIXED = "mixed"
    """Symmetric and unimodal, otherwise unknown: sums and averages of several noises."""
    MODEL = "model"
    """Not noise: what a model believes of the true count around the value."""
    FILTER = "filter"
    """Not noise: what a filter believes of the true count, symmetric and unimodal, otherwise unknown."""
    SMOOTHED = "smoothed"
    """Laplace noise or a sum of such, and how far each value was moved from its noisy count (``smoothed_values``)."""

    @property
    def covers(self) -> str:
        """What an interval made of the standard deviation holds: the value before noise, or the true count."""
        return "count" if self.believed or self is NoiseLaw.SMOOTHED else "value before noise"

    @property
    def believed(self) -> bool:
        """Whether the standard deviation is what a model or a filter believes of the step that a release is for."""
        return self in (NoiseLaw.MODEL, NoiseLaw.FILTER)


def half_width(level: float, std: Any, law: NoiseLaw, integer: bool) -> Any:
    """Half the width of the symmetric interval that holds the noise with probability at least ``level``.

    Laplace on the integers and in the continuum, and Gaussian, by their own quantiles; ``MIXED`` and ``FILTER`` by
    Gauss' inequality P(|X| > kσ) ≤ 4/(9k²), which any symmetric unimodal law obeys. A ``SUM`` has the quantiles of a
    single Laplace noise of its standard deviation: at usual levels those of sums are smaller (``python -m benchmarks
    coverage`` simulates them). ``SMOOTHED`` has them too, and at lower levels that of 95 %.

    >>> int(half_width(0.95, 14.13, NoiseLaw.LAPLACE, integer=True))
    30
    >>> float(half_width(0.95, 1.0, NoiseLaw.MIXED, integer=False).round(2))
    2.98
    """
    if not is_a(level, int, float, np.floating) or not 0 < level < 1:
        raise InvalidInputError(name="interval level", value=level, limit="it lies strictly between 0 and 1")
    std = np.asarray(std, dtype=np.float64)
    miss = 1 - level
    with np.errstate(divide="ignore", invalid="ignore"):
        match law:
            case NoiseLaw.LAPLACE if integer:
                rate = 2 * np.arcsinh(1 / (math.sqrt(2) * std))
                tail = np.log(2 / (miss * (1 + np.exp(-rate)))) / rate
                width = np.maximum(np.ceil(tail - 1), 0)
            case NoiseLaw.LAPLACE | NoiseLaw.SUM:
                width = std / math.sqrt(2) * math.log(1 / miss)
            case NoiseLaw.SMOOTHED:
                width = std / math.sqrt(2) * math.log(1 / min(miss, SMOOTHED_MISS))
            case NoiseLaw.GAUSSIAN:
                from scipy.special import ndtri

                width = std * float(ndtri(1 - miss / 2))
            case NoiseLaw.MIXED | NoiseLaw.FILTER:
                width = std * math.sqrt(max(4 / (9 * miss), 1.0))
            case NoiseLaw.MODEL:
                from scipy.special import ndtri

                # A count is whole, so half a count each way costs nothing and saves what rounding would lose.
                return std * float(ndtri(1 - miss / 2)) + 0.5
    return np.where(std == 0, 0.0, width)[()]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Noisy, hence public, numbers with the standard deviation of their noise.

    ``std`` is one number for all bins or one per bin. It speaks of noise alone: not of the bias of a method that
    smooths, nor of what has changed since a value was released. Under ``NoiseLaw.MODEL`` and ``FILTER`` it speaks of
    the true count, and under ``SMOOTHED`` of noise and smoothing together.

    >>> values = Values(np.array([310, 275]), std=14.1, law=NoiseLaw.LAPLACE)
    >>> values.fresh, values.repeated().fresh
    (True, False)
    """

    numbers: Numbers
    std: float | NDArray[np.float64]
    law: NoiseLaw = NoiseLaw.MIXED
    fresh: bool = True

    def __post_init__(self) -> None:
        if not is_a(self.numbers, np.ndarray) or not is_a(self.law, NoiseLaw):
            raise InvalidInputError(name="values", limit="an array of numbers and a NoiseLaw are needed")
        if not is_a(self.std, float, int, np.floating, np.ndarray):
            raise InvalidInputError(name="values", limit="std is a number or an array of numbers")

    def repeated(self) -> Values:
        """The same values, marked as republished; they are closed to writing, so that a ledger knows them again."""
        for part in (self.numbers, self.std):
            if isinstance(part, np.ndarray):
                _close(part)
        return replace(self, fresh=False)


def smoothed_values(numbers: Numbers, noisy: Values) -> Values:
    """Values made of counts with noise, with intervals that hold the counts whatever was done to the values.

    For a value v made of a noisy count y, |v − count| ≤ |v − y| + |y − count|. The last is below
    t(m) = ln(2/(m(1 + e^−r)))/r with probability at least 1 − m, if the noise has the rate r; and for m ≤ 1/20,
    t(m) ≤ t(1/20)·ln(1/m)/ln 20. So half widths of (|v − y| + t(1/20))·ln(1/m)/ln 20 hold the count of every single bin
    at every level from 95 % on, for any data; at lower levels that of 95 % does. The noise is Laplace, or a ``SUM``,
    whose tails are lighter.

    >>> noisy = Values(np.array([4, 90]), 14.13, NoiseLaw.LAPLACE)
    >>> values = smoothed_values(np.array([0.0, 88.0]), noisy)
    >>> half_width(0.95, values.std, values.law, integer=False).round(1).tolist(), values.law.covers
    ([34.4, 32.4], 'count')
    """
    std = float(np.max(noisy.std))
    if std <= 0:
        return Values(numbers, noisy.std, noisy.law)
    rate = 2 * math.asinh(1 / (math.sqrt(2) * std))
    reach = math.log(2 / (SMOOTHED_MISS * (1 + math.exp(-rate)))) / rate
    moved = np.abs(np.asarray(numbers - noisy.numbers, dtype=np.float64))
    return Values(numbers, (moved + reach) * (math.sqrt(2) / math.log(1 / SMOOTHED_MISS)), NoiseLaw.SMOOTHED)


def _close(x: NDArray[Any]) -> None:
    x.setflags(write=False)
    if isinstance(x.base, np.ndarray) and x.base.size == x.size:
        x.base.setflags(write=False)
