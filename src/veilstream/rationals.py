"""Exact rational numbers: reading them, rounding them the safe way, square roots with a known side."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TypeAlias

from veilstream.errors import InvalidInput

Exact: TypeAlias = str | int | float | Fraction | Decimal

GRID = 1 << 30
"""Budgets that would never end (repeated halving, square roots) are rounded down to multiples of 1/GRID."""


def rational(value: Exact, name: str, error: type[InvalidInput] = InvalidInput) -> Fraction:
    """``value`` as an exact fraction; a float is taken at its shortest decimal.

    >>> rational(0.1, "epsilon"), rational("3/8", "epsilon"), rational("1e-6", "delta")
    (Fraction(1, 10), Fraction(3, 8), Fraction(1, 1000000))
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Fraction | Decimal):
        raise error(f"{name} {value!r}: a number, a fraction or a decimal text is needed; nothing was done")
    try:
        if isinstance(value, float):
            value = repr(float(value))
        return Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError, InvalidOperation):
        raise error(f"{name} {value!r}: not a finite number; nothing was done") from None


def round_down(value: Fraction) -> Fraction:
    """The largest multiple of 1/GRID that is not above ``value``."""
    return Fraction(math.floor(value * GRID), GRID)


def sqrt_up(value: Fraction, bits: int = 40) -> Fraction:
    """A dyadic rational not below the square root of ``value``, at most 2^-bits above it.

    >>> sqrt_up(Fraction(9)), 0 <= sqrt_up(Fraction(2)) ** 2 - 2 < 1e-11
    (Fraction(3, 1), True)
    """
    scaled = value * (1 << (2 * bits))
    whole = math.ceil(scaled)
    root = math.isqrt(whole)
    return Fraction(root if root * root == whole else root + 1, 1 << bits)
