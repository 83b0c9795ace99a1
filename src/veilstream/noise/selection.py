"""The exact exponential mechanism over millions of candidates, without a sum of exponentials."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, Interval, LazyUniform, exp_neg
from veilstream.noise.source import BitSource

_LOWEST_LEVEL: Final = 1024
_SAFELY_BELOW: Final = 1 - 2.0**-40


def select_index(source: BitSource, gaps: NDArray[np.int64], rate: Fraction) -> int:
    """An index i with P(i) ∝ e^(-rate · gaps[i]), exactly.

    Each candidate is covered by a power of two 2^-e >= e^(-rate · gap): e is rate · gap / ln 2 rounded down,
    and further down by far more than floating point can be wrong, because any e that is not too large is as
    good. A level e is drawn with probability ∝ (candidates at e) · 2^-e in integer arithmetic, a candidate of
    that level uniformly, and it is kept with probability 2^e · e^(-rate · gap), decided to as many bits as it
    takes; otherwise all is drawn again. A candidate is thus kept with probability ∝ e^(-rate · gap), whatever
    its e; at least about half are kept.
    """
    gaps = gaps - gaps.min()
    per_unit = float(rate) / math.log(2) * _SAFELY_BELOW
    levels = np.minimum(gaps * per_unit, _LOWEST_LEVEL).astype(np.int16)
    counts = np.bincount(levels)
    while True:
        level = _draw_level(source, counts)
        members = np.flatnonzero(levels == level)
        chosen = int(members[_below(source, members.size)])
        exponent = rate * int(gaps[chosen])

        def kept(bits: int, exponent: Fraction = exponent, level: int = level) -> Interval:
            return exp_neg(exponent, bits + level)

        if LazyUniform(source).below(kept):
            return chosen


def _draw_level(source: BitSource, counts: NDArray[np.int64]) -> int:
    """A level e with probability ∝ counts[e] · 2^-e."""
    masses = [count << (counts.size - 1 - level) for level, count in enumerate(counts.tolist())]
    place = _below(source, sum(masses))
    level = 0
    while place >= masses[level]:
        place -= masses[level]
        level += 1
    return level


def _below(source: BitSource, bound: int) -> int:
    """A uniform integer in 0..bound-1, by rejection."""
    bits = (bound - 1).bit_length()
    words = -(-bits // WORD_BITS)
    while True:
        value = 0
        for word in source.words(words).tolist():
            value = value << WORD_BITS | word
        value >>= words * WORD_BITS - bits
        if value < bound:
            return value
