"""Checked parameters: exact rational scales and shapes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from operator import index
from typing import Final, SupportsIndex, TypeAlias

import numpy as np

from veilstream.errors import InvalidInput

RationalLike: TypeAlias = int | str | float | Fraction | Decimal
Size: TypeAlias = int | tuple[int, ...]

SMALLEST_SCALE: Final = Fraction(1, 1 << 20)
LARGEST_SCALE: Final = Fraction(10**12)
LARGEST_RATE: Final = Fraction(10**12)
_LONGEST_TEXT: Final = 1000
_LARGEST_EXPONENT: Final = 1000


def exact(name: str, value: object) -> Fraction:
    """``value`` as a fraction; a float stands for its shortest decimal.

    >>> exact("scale", 0.1), exact("scale", "7/3")
    (Fraction(1, 10), Fraction(7, 3))
    """
    try:
        match value:
            case bool() | np.bool_():
                pass
            case Fraction():
                return value
            case float():
                return _parsed(repr(float(value)))
            case str() | Decimal():
                return _parsed(str(value))
            case SupportsIndex():
                return Fraction(index(value))
            case _:
                pass
    except (TypeError, ValueError, ArithmeticError):
        pass
    raise InvalidInput(
        f"{name} {_shown(value)}: it must be a finite int, Fraction, Decimal, decimal str or float; nothing was drawn"
    )


def _parsed(text: str) -> Fraction:
    """A fraction, refusing decimals whose exponent alone would fill the memory."""
    if len(text) > _LONGEST_TEXT:
        raise ValueError
    if "/" not in text and not -_LARGEST_EXPONENT <= Decimal(text).adjusted() <= _LARGEST_EXPONENT:
        raise ValueError
    return Fraction(text)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= 40 else text[:37] + "..."


def checked_scale(name: str, value: object) -> Fraction:
    """An exact scale between 2^-20 and 10^12."""
    scale = exact(name, value)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InvalidInput(f"{name} {_shown(value)}: it must lie between 2^-20 and 10^12; nothing was drawn")
    return scale


def checked_rate(value: object) -> Fraction:
    """An exact rate between 0 and 10^12."""
    rate = exact("rate", value)
    if not 0 <= rate <= LARGEST_RATE:
        raise InvalidInput(f"rate {_shown(value)}: it must lie between 0 and 10^12; nothing was drawn")
    return rate


def checked_length(size: object, length: object) -> int:
    """One length of ``size``."""
    try:
        if isinstance(length, SupportsIndex) and not isinstance(length, bool) and index(length) >= 0:
            return index(length)
    except TypeError:
        pass
    raise InvalidInput(f"size {_shown(size)}: it must be an int or a tuple of ints, at least 0; nothing was drawn")


def checked_shape(size: Size) -> tuple[int, ...]:
    """``size`` as a tuple of lengths."""
    if isinstance(size, tuple):
        return tuple(checked_length(size, length) for length in size)
    return (checked_length(size, size),)
