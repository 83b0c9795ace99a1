"""The types beside dataclasses and plain values that a state may hold, and how each is taken apart."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple


class Coder(NamedTuple):
    """How a type becomes plain values (numbers, text, tuples, lists, dicts, arrays) and returns."""

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]


def _from_fraction(x: Fraction) -> tuple[int, int]:
    return x.numerator, x.denominator


def _to_fraction(plain: tuple[int, int]) -> Fraction:
    return Fraction(*plain)


CODERS: Final[dict[type[Any], Coder]] = {
    Fraction: Coder(_from_fraction, _to_fraction),
}
