"""How many of very many noise draws reach a level, and uniform whole numbers: what sparse releases draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import (
    WORD_BITS,
    Interval,
    add,
    complement,
    divide,
    exp_neg,
    multiply,
    rescale,
)
from veilstream.noise.inverse import BLOCK, InverseTable
from veilstream.noise.source import BitSource

_MEAN_PER_TABLE: Final = 16
_GUARD_BITS: Final = 64
_CACHED_TABLES: Final = 16


@dataclass(frozen=True, slots=True)
class ReachingCount:
    """The number among ``trials`` independent discrete Laplace variables of scale t that are >= ``level``.

    With q = e^(-1/t) and level >= 1 each is with probability p = q^level / (1 + q), so this is binomial:
    P(0) = (1 - p)^trials, P(k + 1) = P(k) · (trials - k)/(k + 1) · p/(1 - p). All numbers are intervals
    rounded outwards. The power is by repeated squaring, where an error of one unit grows to at most about
    2 · trials units; the working precision has twice the bits of ``trials`` to spare.
    """

    scale: Fraction
    level: int
    trials: int

    @property
    def first(self) -> int:
        return 0

    @property
    def last(self) -> int:
        return self.trials

    def _work(self, bits: int) -> int:
        return bits + 2 * self.trials.bit_length() + _GUARD_BITS

    def _start(self, work: int) -> tuple[Interval, Interval]:
        """P(0) and p/(1 - p)."""
        one = (1 << work, 1 << work)
        reach = divide(exp_neg(self.level / self.scale, work), add(one, exp_neg(1 / self.scale, work)), work)
        miss = complement(reach, work)
        return _power(miss, self.trials, work), divide(reach, miss, work)

    def boundary(self, k: int, bits: int) -> Interval:
        work = self._work(bits)
        weight, odds = self._start(work)
        total = weight
        for j in range(k - 1):
            weight = self._next(weight, odds, j, work)
            total = add(total, weight)
        return rescale(total, work, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        work = self._work(bits)
        weight, odds = self._start(work)
        total = weight
        sums = [total]
        while len(sums) < self.trials and complement(total, work)[1] >> (work - WORD_BITS):
            weight = self._next(weight, odds, len(sums) - 1, work)
            total = add(total, weight)
            sums.append(total)
        return 1, [rescale(boundary, work, bits) for boundary in sums]

    def _next(self, weight: Interval, odds: Interval, k: int, work: int) -> Interval:
        low, high = multiply(weight, odds, work)
        return low * (self.trials - k) // (k + 1), -(-high * (self.trials - k) // (k + 1))


def _power(base: Interval, exponent: int, bits: int) -> Interval:
    result: Interval = (1 << bits, 1 << bits)
    for digit in f"{exponent:b}":
        result = multiply(result, result, bits)
        if digit == "1":
            result = multiply(result, base, bits)
    return result


@lru_cache(maxsize=_CACHED_TABLES)
def _table(scale: Fraction, level: int, trials: int) -> InverseTable:
    return InverseTable(ReachingCount(scale, level, trials), lookup_bits=0)


def reaching_probability(scale: Fraction, level: int) -> Fraction:
    """A rational just below p = P(X >= level), for level >= 1: used to choose sizes, never to decide a draw.

    >>> float(reaching_probability(Fraction(1), 1))
    0.2689414213699951
    """
    bits = 128 + 2 * int(level / scale)
    one = (1 << bits, 1 << bits)
    low, _ = divide(exp_neg(level / scale, bits), add(one, exp_neg(1 / scale, bits)), bits)
    return Fraction(max(low, 0), 1 << bits)


def draw_reaching(source: BitSource, scale: Fraction, level: int, trials: int) -> int:
    """One exact draw of :class:`ReachingCount`, however many the trials.

    The trials are cut into equal parts with a mean of at most 16 each, and a rest: a binomial count is the sum
    of the counts of disjoint parts, which are independent. Each part is drawn by inversion from one table.
    """
    part = max(1, int(_MEAN_PER_TABLE / reaching_probability(scale, level)))
    parts, rest = divmod(trials, part)
    total = 0
    for start in range(0, parts, BLOCK):
        total += int(_table(scale, level, part).draw(source, min(BLOCK, parts - start)).sum())
    if rest:
        total += int(_table(scale, level, rest).draw(source, 1)[0])
    return total


def draw_below(source: BitSource, bound: int, count: int) -> NDArray[np.int64]:
    """``count`` independent uniform whole numbers in 0..bound-1, for bound <= 2^62, by rejection."""
    bits = (bound - 1).bit_length()
    if bits == 0:
        return np.zeros(count, dtype=np.int64)
    out = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        words = (source.words(count - done) >> np.uint64(WORD_BITS - bits)).astype(np.int64)
        accepted = words[words < bound]
        out[done : done + accepted.size] = accepted
        done += accepted.size
    return out
