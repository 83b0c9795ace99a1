"""Checked parameters: exact rational scales and shapes."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from operator import index
from typing import Final, SupportsIndex, TypeAlias

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import rational

RationalLike: TypeAlias = int | str | float | Fraction | Decimal
Size: TypeAlias = int | tuple[int, ...]

SMALLEST_SCALE: Final = Fraction(1, 1 << 20)
LARGEST_SCALE: Final = Fraction(10**12)
LARGEST_RATE: Final = Fraction(10**12)
MOST_DRAWS: Final = 1 << 32
"""32 GiB of noise."""


def checked_scale(name: str, value: object) -> Fraction:
    """An exact scale between 2^-20 and 10^12."""
    scale = rational(value, name)
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InvalidInputError(name=name, value=value, limit="it must lie between 2^-20 and 10^12")
    return scale


def checked_rate(value: object) -> Fraction:
    """An exact rate between 0 and 10^12."""
    rate = rational(value, "rate")
    if not 0 <= rate <= LARGEST_RATE:
        raise InvalidInputError(name="rate", value=value, limit="it must lie between 0 and 10^12")
    return rate


def checked_length(size: object, length: object) -> int:
    """One length of ``size``."""
    if type(length) is int and length >= 0:
        return length
    try:
        if isinstance(length, SupportsIndex) and not isinstance(length, bool) and index(length) >= 0:
            return index(length)
    except TypeError:
        pass
    raise InvalidInputError(name="size", value=size, limit="it must be an int or a tuple of ints, at least 0")


def checked_shape(size: Size) -> tuple[int, ...]:
    """``size`` as a tuple of lengths."""
    if isinstance(size, tuple):
        shape = tuple(checked_length(size, length) for length in size)
    else:
        shape = (checked_length(size, size),)
    if math.prod(shape) > MOST_DRAWS:
        raise InvalidInputError(
            name="size",
            value=size,
            limit=f"at most {MOST_DRAWS:,} draws at a time",
            next_step="draw part after part",
        )
    return shape
