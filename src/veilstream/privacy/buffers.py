"""Weights of rows that a few decaying buffers can follow: c_0 = 1 and c_k = Σ ω_i·θ_i^(k−1).

Rates are θ_i = 1 − 2^−j and factors ω_i = a·2^−r, so that whole numbers, shifts and small factors are enough. With a
horizon of n rows position s is read with d_s·c_k, where d_s² ≤ P(n)/P(n − s) and P(u) is the sum of the first u
squares of c: a late position has fewer rows to come, and is read with more weight in each. PROOF.md, "Rows by decaying
buffers", has the theorem.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

Reals = NDArray[np.float64]

SCALE_BITS: Final = 10
"""Factors d_s are multiples of 2⁻¹⁰."""
PRECISION: Final = 96
SQUARE_BITS: Final = 32
"""Sums of squares are rounded up to multiples of 2⁻³², in which the accountant counts."""
LEADING_BITS: Final = 7
"""Numbers of rows are rounded up to so many leading bits before what they cost is looked up."""
MOST_BUFFERS: Final = 24
MOST_BITS: Final = 40


@dataclass(frozen=True, slots=True)
class Buffers:
    """c_k = Σ a·2^−r·(1 − 2^−j)^(k−1) over ``rates`` j, ``factors`` a and ``shifts`` r; c_0 is 1.

    >>> halves = Buffers(rates=(1,), factors=(1,), shifts=(1,))
    >>> halves.coefficients(4).tolist(), halves.squares(3)
    ([1.0, 0.5, 0.25, 0.125], Fraction(21, 16))
    """

    rates: tuple[int, ...]
    factors: tuple[int, ...]
    shifts: tuple[int, ...]
    horizon: int | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.rates), len(self.factors), len(self.shifts)}
        bits = (*self.rates, *self.shifts)
        if (
            len(sizes) != 1
            or not 1 <= len(self.rates) <= MOST_BUFFERS
            or not all(0 <= bit <= MOST_BITS for bit in bits)
            or not all(factor >= 1 for factor in self.factors)
            or sum(Fraction(a, 1 << r) for a, r in zip(self.factors, self.shifts, strict=True)) > 1
        ):
            raise InvalidInputError(
                name="buffers",
                value=f"{self.rates}, {self.factors}, {self.shifts}",
                limit=f"1 to {MOST_BUFFERS}, rates and shifts from 0 to {MOST_BITS}, factors that add up to 1 at most",
            )

    def coefficients(self, count: int) -> Reals:
        """The weights of the first ``count`` ages, d left out."""
        ages = np.arange(count - 1, dtype=np.float64)
        rest = sum((w * np.power(theta, ages) for theta, w in zip(self.thetas, self.omegas, strict=True)), ages * 0)
        return np.concatenate([[1.0], rest])

    @property
    def thetas(self) -> list[float]:
        """By how much each buffer falls in a step."""
        return [1 - 2.0**-rate for rate in self.rates]

    @property
    def omegas(self) -> list[float]:
        """With which factor a row reads each buffer."""
        return [a * 2.0**-r for a, r in zip(self.factors, self.shifts, strict=True)]

    @property
    def rounding(self) -> int:
        """By how many steps of its grid a row may differ from the exact one, more for one stream than for another.

        A buffer is rounded down in every step, and 2^j steps of that are left after any time; a row reads it with ω,
        after it was rounded down once more and multiplied.
        """
        exact = sum(
            (Fraction(a << j, 1 << r) + a for j, a, r in zip(self.rates, self.factors, self.shifts, strict=True)),
            Fraction(0),
        )
        return -(-exact.numerator // exact.denominator)

    def squares(self, count: int | None) -> Fraction:
        """The sum of the first ``count`` squares, rounded up; of all of them for None."""
        return _squares(self.rates, self.factors, self.shifts, count)

    def cost(self, rows: int | None) -> Fraction:
        """The most that the squares of the weights of one position add up to over so many rows; None for ever."""
        return self.squares(rows)

    def spent(self, rows: int) -> Fraction:
        """What the first ``rows`` rows cost any position, rounded up: no more than all rows of the horizon do."""
        coarse = _few_bits(rows)
        return self.squares(coarse if self.horizon is None else min(coarse, self.horizon))

    def scale(self, position: int) -> int:
        """The factor d of a position in multiples of 2⁻¹⁰, rounded down; it never falls.

        >>> Buffers((1,), (1,), (1,), horizon=3).scale(0), Buffers((1,), (1,), (1,), horizon=3).scale(2)
        (1024, 1173)
        """
        if self.horizon is None:
            return 1 << SCALE_BITS
        left = self.horizon - position
        if left < 1:
            raise InvalidInputError(
                name="row", value=position, limit=f"the buffers are planned for {self.horizon} rows"
            )
        return _scale(self, min(_few_bits(left), self.horizon))

    def encoded(self) -> list[int]:
        """As whole numbers, for the record of a charge."""
        return [self.horizon or 0, *self.rates, *self.factors, *self.shifts]

    @classmethod
    def decoded(cls, numbers: list[int]) -> Buffers:
        horizon, rest = numbers[0] or None, numbers[1:]
        size = len(rest) // 3
        return cls(tuple(rest[:size]), tuple(rest[size : 2 * size]), tuple(rest[2 * size :]), horizon)


def _few_bits(count: int) -> int:
    """The next whole number with few leading bits.

    >>> _few_bits(100), _few_bits(1001)
    (100, 1008)
    """
    dropped = max(0, count.bit_length() - LEADING_BITS)
    return -(-count >> dropped) << dropped


@lru_cache(maxsize=4096)
def _scale(buffers: Buffers, left: int) -> int:
    # The sum above is rounded up by less than 2⁻³⁰ of itself; d² must not pass the true quotient.
    most = buffers.squares(buffers.horizon) * (1 - Fraction(1, 1 << 30)) / buffers.squares(left)
    return max(1 << SCALE_BITS, isqrt(most.numerator * (1 << (2 * SCALE_BITS)) // most.denominator))


@lru_cache(maxsize=4096)
def _squares(rates: tuple[int, ...], factors: tuple[int, ...], shifts: tuple[int, ...], count: int | None) -> Fraction:
    """1 + Σ_ij ω_i·ω_j·(1 − (θ_i·θ_j)^(count−1))/(1 − θ_i·θ_j) in whole numbers, each part rounded up."""
    if count is not None and count < 1:
        return Fraction(0)
    one = total = 1 << PRECISION
    each = list(zip(rates, factors, shifts, strict=True))
    for rate, factor, shift in each:
        for other_rate, other_factor, other_shift in each:
            bottom = 1 << (rate + other_rate)
            top = ((1 << rate) - 1) * ((1 << other_rate) - 1)
            left = 0 if count is None else _power(top * one // bottom, count - 1)
            part = factor * other_factor * (one - left) * bottom
            total -= -part // ((bottom - top) << (shift + other_shift))
    return Fraction(-(-total >> (PRECISION - SQUARE_BITS)), 1 << SQUARE_BITS)


def _power(base: int, exponent: int) -> int:
    """A power of a number below 1 in multiples of 2⁻⁹⁶, rounded down."""
    result = 1 << PRECISION
    while exponent:
        if exponent & 1:
            result = result * base >> PRECISION
        base = base * base >> PRECISION
        exponent >>= 1
    return result
