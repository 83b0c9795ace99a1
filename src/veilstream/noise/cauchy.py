"""Cauchy noise around a whole number, rounded to whole numbers, with exactly the probabilities of real arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from veilstream.errors import InvalidInputError
from veilstream.noise.thinning import WordNoise

WORD_BITS: Final = 64


def rounded_cauchy(centre: int, scale: Fraction, noise: WordNoise) -> int:
    """The whole number nearest to ``centre`` + ``scale`` · C for a standard Cauchy variable C.

    If (X, Y) is uniform on the quarter disc X² + Y² ≤ 1, X, Y > 0, then X/Y is |C|, and a fair bit gives the sign. X
    and Y are binary numbers of which so many digits are drawn as it takes to know for certain whether the point lies
    in the disc and which whole number is nearest: with b digits seen, X is in [x, x+1]/2^b and Y in [y, y+1]/2^b, and
    both questions are answered by whole numbers alone. So the result is a function of a real Cauchy variable, and what
    is proved of the real law holds of it. Undecided points have probability 0.

    >>> from veilstream.noise import SecureNoise
    >>> draws = sorted(rounded_cauchy(100, Fraction(10), SecureNoise()) for _ in range(2001))
    >>> 88 < draws[1000] < 112
    True
    """
    if scale <= 0:
        raise InvalidInputError(f"scale {scale} of Cauchy noise: it must be above 0")
    x = y = bits = 0
    negative = bool(int(noise.uniform_words(1)[0]) & 1)
    while True:
        first, second = noise.uniform_words(2).tolist()
        x, y, bits = x << WORD_BITS | first, y << WORD_BITS | second, bits + WORD_BITS
        if x * x + y * y >= 1 << 2 * bits:
            x = y = bits = 0
            continue
        if (x + 1) ** 2 + (y + 1) ** 2 > 1 << 2 * bits or y == 0:
            continue
        ends = scale * Fraction(x, y + 1), scale * Fraction(x + 1, y)
        nearest = {_nearest(centre - end if negative else centre + end) for end in ends}
        if len(nearest) == 1:
            return nearest.pop()


def _nearest(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)
