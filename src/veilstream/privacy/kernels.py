"""Weights with which rows of a running sum read the past, in whole numbers and in groups of timestamps.

A kernel gives every age k a weight c_k, not above 1. Row r of a running sum reads position s ≤ r with the mean weight
of the group that s lies in. Groups are dyadic: [a·2^j, (a+1)·2^j) is one as soon as its newest position has the age
``detail``·2^j or more. So groups only ever merge, there are about ``detail`` of them for every doubling of the length,
and the weights in a group differ by a factor of about √(1 + 1/detail) at most.

Weights are whole multiples of 2⁻¹⁶, rounded down, and made by whole numbers alone: they are the same everywhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Integers = NDArray[np.int64]

WEIGHT_BITS: Final = 16
FINE_BITS: Final = 40
SLOPE: Final = Fraction(11, 64)
"""By how much a doubling of the age lowers the weights of an endless kernel: 1/(1 + 11/64·log₂(age + 1))."""
MOST_ROWS: Final = 1 << 24
LONG: Final = 1 << 16
"""Rows of which an endless kernel's cost is summed one by one; the rest is bounded."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The weights c_k = binom(2k, k)/4^k of the square root of prefix sums, or of decayed ones: times decay^k.

    ``endless`` weights fall a little faster, so that all rows together read a position with a bounded sum of squares.

    >>> firsts, weights = Kernel(detail=1).pieces(6)
    >>> firsts.tolist(), (weights / 2**16).round(2).tolist()
    ([0, 2, 4, 5, 6], [0.24, 0.29, 0.38, 0.5, 1.0])
    """

    decay: Fraction = Fraction(1)
    endless: bool = False
    detail: int = 8

    def __post_init__(self) -> None:
        if not (0 < self.decay <= 1 and type(self.detail) is int and 1 <= self.detail <= 1024):
            raise InvalidInputError(
                name="kernel", value=f"{self.decay}, {self.detail}", limit="a decay up to 1, a detail from 1 to 1024"
            )

    def boundaries(self, row: int) -> Integers:
        """Where the groups of a row begin, in order."""
        return _boundaries(row, self.detail)

    def joined(self, row: int) -> tuple[int, ...]:
        """Which groups of the row before, with one for the newest position after them, join the one before them.

        The last come first, so that groups can be joined one after the other.

        >>> Kernel(detail=1).boundaries(3).tolist(), Kernel(detail=1).boundaries(4).tolist(), Kernel(detail=1).joined(4)
        ([0, 2, 3], [0, 2, 3, 4], ())
        """
        return _joined(self.detail, row)

    def pieces(self, row: int) -> tuple[Integers, Integers]:
        """Where the groups of a row begin, and their weights in multiples of 2⁻¹⁶."""
        return _pieces(self, row)

    def cost(self, rows: int | None) -> Fraction:
        """The most that the squares of the weights of one position can add up to over so many rows; None for ever.

        The first position has the most rows and is the oldest of its groups, whose mean weight is above its own: no
        other has a larger sum.
        """
        if rows is not None:
            return _first_column(self, rows)
        if self.decay < 1:
            # What is left after K rows falls with decay^2K: at 2⁻⁶⁴ no weight of 2⁻¹⁶ is left.
            return _first_column(self, _decayed_rows(self))
        if not self.endless:
            raise InvalidInputError(
                name="kernel", value="square root", limit="without a decay it needs a horizon or to be endless"
            )
        # c_k² ≤ 1/(πk), the weight falls by 1/(1 + a·(log₂ n − 0.0861)) at n = k + 1, and a group's mean is at most the
        # weight of its newest position, whose age is at least detail/(detail + 1) of any other's.
        slope, start = float(SLOPE) / np.log(2), np.log(LONG * self.detail / (self.detail + 1)) - 0.06
        tail = (1 + 1 / self.detail) / np.pi / (slope * (1 + slope * start))
        return _first_column(self, LONG) + Fraction(float(tail)).limit_denominator(1 << 20) + Fraction(1, 1 << 16)

    def encoded(self) -> list[int]:
        """As whole numbers, for the record of a charge."""
        return [self.detail, int(self.endless), self.decay.numerator, self.decay.denominator]

    @classmethod
    def decoded(cls, numbers: list[int]) -> Kernel:
        detail, endless, numerator, denominator = numbers
        return cls(Fraction(numerator, denominator), bool(endless), detail)


@lru_cache(maxsize=64)
def _pieces(kernel: Kernel, row: int) -> tuple[Integers, Integers]:
    firsts = kernel.boundaries(row)
    ends = np.append(firsts[1:], row + 1)
    running = _running(kernel, row + 1)
    sums = running[row + 1 - firsts] - running[row + 1 - ends]
    weights = (sums // (ends - firsts)) >> (FINE_BITS - WEIGHT_BITS)
    weights.flags.writeable = False
    return firsts, weights


@lru_cache(maxsize=64)
def _joined(detail: int, row: int) -> tuple[int, ...]:
    starts, after = np.append(_boundaries(row - 1, detail), row), _boundaries(row, detail)
    stays = np.zeros(len(starts), dtype=np.bool_)
    stays[np.searchsorted(starts, after)] = True
    return tuple(np.flatnonzero(~stays)[::-1].tolist())


@lru_cache(maxsize=64)
def _boundaries(row: int, detail: int) -> Integers:
    """Groups of 2^j cover what ends (⌊(row+1)/2^j⌋ − detail)·2^j, and smaller ones the rest."""
    count = row + 1
    parts: list[Integers] = []
    size, end = 1, count
    while True:
        start = max(0, (count // (2 * size) - detail) * 2 * size)
        parts.append(np.arange(start, end, size, dtype=np.int64))
        if start == 0:
            firsts = np.concatenate(parts[::-1])
            firsts.flags.writeable = False
            return firsts
        size, end = 2 * size, start


@dataclass(frozen=True, slots=True)
class _Sums:
    """Running sums of a kernel's weights in multiples of 2⁻⁴⁰, as far as they were needed."""

    last: int = 1 << FINE_BITS
    values: Integers = field(default_factory=lambda: np.array([0, 1 << FINE_BITS], dtype=np.int64))


_SUMS: Final[dict[tuple[Fraction, bool], _Sums]] = {}
_LOCK: Final = threading.Lock()


def weights_of_ages(kernel: Kernel, count: int) -> Integers:
    """The weights of the first ``count`` ages, in multiples of 2⁻⁴⁰."""
    return np.diff(_running(kernel, count)[: count + 1])


def _running(kernel: Kernel, count: int) -> Integers:
    """The sums of the first 0, 1, ..., ``count`` weights."""
    with _LOCK:
        known = _SUMS.setdefault((kernel.decay, kernel.endless), _Sums())
        if known.values.size <= count:
            if count > MOST_ROWS:
                raise InvalidInputError(name="rows of a running sum", value=count, limit=f"at most {MOST_ROWS}")
            _SUMS[kernel.decay, kernel.endless] = known = _longer(known, kernel, max(count + 1, 2 * known.values.size))
        return known.values


def _longer(known: _Sums, kernel: Kernel, wanted: int) -> _Sums:
    more: list[int] = []
    weight, top, bottom = known.last, kernel.decay.numerator, kernel.decay.denominator
    for k in range(known.values.size - 1, wanted - 1):
        weight = weight * (2 * k - 1) * top // (2 * k * bottom)
        more.append(_slowed(weight, k + 1) if kernel.endless else weight)
    added = np.cumsum(np.array(more, dtype=np.int64))
    return _Sums(weight, np.concatenate([known.values, known.values[-1] + added]))


def _slowed(weight: int, n: int) -> int:
    """The weight over 1 + slope·log₂ n, the logarithm taken as linear between powers of two."""
    exponent = n.bit_length() - 1
    # slope·(exponent + n/2^e − 1) over a denominator of 64·2^e
    scaled = SLOPE.numerator * ((exponent - 1) * (1 << exponent) + n)
    bottom = SLOPE.denominator << exponent
    return weight * bottom // (bottom + scaled)


@lru_cache(maxsize=256)
def _first_column(kernel: Kernel, rows: int) -> Fraction:
    row = np.arange(rows, dtype=np.int64)
    size = np.ones(rows, dtype=np.int64)
    while True:
        larger = (row + 1) // (2 * size) >= kernel.detail + 1
        if not larger.any():
            break
        size = np.where(larger, 2 * size, size)
    running = _running(kernel, rows)
    weights = ((running[row + 1] - running[row + 1 - size]) // size) >> (FINE_BITS - WEIGHT_BITS)
    return Fraction(sum(int(part.sum()) for part in np.array_split(weights**2, 64)), 1 << (2 * WEIGHT_BITS))


def _decayed_rows(kernel: Kernel) -> int:
    """After how many rows of a decayed kernel no weight is left."""
    rows = 64
    while (int(kernel.pieces(rows - 1)[1][0])) > 0:
        rows *= 2
        if rows > MOST_ROWS:
            raise InvalidInputError(name="decay", value=kernel.decay, limit="too near to 1; give a horizon instead")
    return rows
