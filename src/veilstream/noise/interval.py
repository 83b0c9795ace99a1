"""Numbers known to any precision: fixed-point intervals, e^-x, and a uniform number whose bits are drawn when
asked.

An :data:`Interval` ``(low, high)`` at ``bits`` stands for a real c with low <= c * 2^bits <= high. Everything
here is integer arithmetic rounded outwards, so an interval always holds its number; more bits only make it
narrower.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

from veilstream.noise.source import BitSource

Interval: TypeAlias = tuple[int, int]
WORD_BITS: Final = 64
_FIRST_COMPARISON_BITS: Final = 128


def exp_neg(x: Fraction, bits: int) -> Interval:
    """e^-x for rational x >= 0, by halving the argument, an alternating Taylor sum, and squaring back.

    With y = x / 2^h < 2^-8, a term computed from its predecessor is off by less than 1/256 of the
    predecessor's error plus three units (one each for y rounded down and the two floors), hence by less than
    4; the terms left out add less than 8. Each squaring is rounded outwards.

    >>> low, high = exp_neg(Fraction(1), 64)
    >>> low / 2**64 <= 0.36787944117144233 <= high / 2**64, high - low <= 2
    (True, True)
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x >= bits:
        return 0, 1
    halvings = int(x).bit_length() + 8
    work = bits + halvings + 16
    y = (x.numerator << work) // (x.denominator << halvings)
    total = term = 1 << work
    terms = 0
    while term:
        terms += 1
        term = (term * y >> work) // terms
        total += -term if terms % 2 else term
    error = 4 * terms + 8
    low, high = total - error, total + error
    for _ in range(halvings):
        low, high = low * low >> work, (high * high >> work) + 1
    return rescale((low, high), work, bits)


def rescale(number: Interval, bits: int, fewer: int) -> Interval:
    """The same number at a lower precision."""
    shift = bits - fewer
    return number[0] >> shift, -(-number[1] >> shift)


def add(a: Interval, b: Interval) -> Interval:
    """a + b."""
    return a[0] + b[0], a[1] + b[1]


def complement(a: Interval, bits: int) -> Interval:
    """1 - a."""
    return (1 << bits) - a[1], (1 << bits) - a[0]


def multiply(a: Interval, b: Interval, bits: int) -> Interval:
    """a * b for numbers >= 0."""
    return a[0] * b[0] >> bits, -(-a[1] * b[1] >> bits)


def divide(a: Interval, b: Interval, bits: int) -> Interval:
    """a / b for 0 <= a <= b; all of [0, 1] while the precision cannot tell b from 0."""
    if b[0] <= 0:
        return 0, 1 << bits
    return (max(a[0], 0) << bits) // b[1], -((-a[1] << bits) // b[0])


class LazyUniform:
    """A uniform number on [0, 1) of which ``known`` leading bits have been seen; the others are drawn when
    needed."""

    __slots__ = ("_known", "_source", "_value")

    def __init__(self, source: BitSource, value: int = 0, known: int = 0) -> None:
        self._source = source
        self._value = value
        self._known = known

    def _leading(self, bits: int) -> int:
        missing = bits - self._known
        if missing > 0:
            for word in self._source.words(-(-missing // WORD_BITS)).tolist():
                self._value = self._value << WORD_BITS | word
                self._known += WORD_BITS
        return self._value >> (self._known - bits)

    def below(self, threshold: Callable[[int], Interval]) -> bool:
        """Whether U < c, where ``threshold(bits)`` encloses c: both are refined until the answer is certain.

        Certain means that the whole cell of numbers that start with the bits seen lies on one side of the
        whole interval. Each doubling of the precision p leaves a tie with probability about 2^-p.
        """
        bits = _FIRST_COMPARISON_BITS
        while True:
            low, high = threshold(bits)
            seen = self._leading(bits)
            if seen + 1 <= low:
                return True
            if seen >= high:
                return False
            bits *= 2
