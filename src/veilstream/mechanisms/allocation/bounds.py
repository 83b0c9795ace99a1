"""Roots and logarithms of exact numbers with a known side."""

from __future__ import annotations

from fractions import Fraction

LN2_UP = Fraction(6243314768165359, 1 << 53) + Fraction(1, 1 << 52)
"""Above ln 2, by less than 2⁻⁵¹."""
TERMS = 20


def log_up(value: Fraction) -> Fraction:
    """A rational at or above ln(value), for value ≥ 1, at most about 10⁻¹³·(1 + log₂ value) above it.

    With value = 2^k·m, 1 ≤ m < 2 and z = (m−1)/(m+1) ≤ 1/3: ln m = 2(z + z³/3 + z⁵/5 + ...), and what follows the last
    term t·z² is below t·z²/(1−z²) as the terms fall faster than z². z is rounded up to 2⁻⁶⁰, which only raises the sum.

    >>> import math
    >>> 0 <= float(log_up(Fraction(10)) - Fraction(math.log(10))) < 1e-12, log_up(Fraction(1))
    (True, Fraction(0, 1))
    """
    doublings = (value.numerator // value.denominator).bit_length() - 1
    rest = value / (1 << doublings)
    z = (rest - 1) / (rest + 1)
    z = Fraction(-((-z.numerator << 60) // z.denominator), 1 << 60)
    total, power = Fraction(0), z
    for odd in range(1, 2 * TERMS, 2):
        total += power / odd
        power *= z * z
    total += power / (1 - z * z)
    exact = doublings * LN2_UP + 2 * total
    return Fraction(-((-exact.numerator << 60) // exact.denominator), 1 << 60)


def whole_root(value: int, degree: int) -> int:
    """The largest whole number whose ``degree``-th power is at most ``value``.

    >>> whole_root(1000, 3), whole_root(999, 3), whole_root(2**96, 3) == 2**32
    (10, 9, True)
    """
    if value < 2:
        return value
    guess = 1 << -(-value.bit_length() // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better
