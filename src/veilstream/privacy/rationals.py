"""Exact rational numbers: reading them, rounding them the safe way, square roots with a known side."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import index
from typing import Final, SupportsIndex, TypeAlias

import numpy as np

from veilstream.arguments import IN_RANGE, is_extreme
from veilstream.errors import InvalidInputError

Exact: TypeAlias = str | int | float | Fraction | Decimal

GRID = 1 << 30
"""Budgets that would never end (repeated halving, square roots) are rounded down to multiples of 1/GRID."""

_LONGEST_TEXT: Final = 1000
_LARGEST_EXPONENT: Final = 1000


def rational(value: object, name: str, error: type[InvalidInputError] = InvalidInputError) -> Fraction:
    """``value`` as an exact fraction; a float is taken at its shortest decimal.

    >>> rational(0.1, "epsilon"), rational("3/8", "epsilon"), rational("1e-6", "delta")
    (Fraction(1, 10), Fraction(3, 8), Fraction(1, 1000000))
    >>> rational("0,5", "epsilon")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: epsilon '0,5': a decimal point is needed; nothing was released
    """
    exact = _exact(value)
    if exact is not None:
        if is_extreme(exact):
            raise error(name=name, value=value, limit=IN_RANGE)
        return exact
    if isinstance(value, str) and re.fullmatch(r"\d*,\d+", value):
        raise error(
            name=name, value=value, limit="a decimal point is needed", next_step=f"write {value.replace(',', '.')}"
        ) from None
    raise error(
        name=name, value=value, limit="it must be a finite int, Fraction, Decimal, decimal str or float"
    ) from None


def _exact(value: object) -> Fraction | None:
    """The number that a value is or says; None if it is or says none."""
    try:
        match value:
            case bool() | np.bool_():
                return None
            case Fraction():
                return value
            case float() | np.floating():
                return _parsed(repr(float(value)))
            case str() | Decimal():
                return _parsed(str(value))
            case int():
                return Fraction(value)
            case SupportsIndex():
                return Fraction(index(value))
            case _:
                return None
    except (TypeError, ValueError, ArithmeticError):
        return None


@lru_cache(maxsize=256)
def _parsed(text: str) -> Fraction:
    """A fraction, refusing decimals whose exponent alone would fill the memory."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError
    if "/" not in text and not -_LARGEST_EXPONENT <= Decimal(text).adjusted() <= _LARGEST_EXPONENT:
        raise ValueError
    return Fraction(text)


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
