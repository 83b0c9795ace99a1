"""Noise on whole blocks whose largest row decides: P(z) ∝ e^(-rate · max ‖z_t‖₁), exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, Interval, add, complement, divide, exp_neg, multiply
from veilstream.noise.inverse import BLOCK, InverseTable
from veilstream.noise.plans import LARGEST_DRAW, grain_for, laplace_plan
from veilstream.noise.selection import below_each
from veilstream.noise.source import BitSource

MAX_LENGTH: Final = 1 << 8
"""The longest vector: tables of radii grow with the square of the length."""
MAX_ENTRIES: Final = 1 << 5
"""The widest row of a block."""
SMALLEST_CUBE_RATE: Final = Fraction(1, 10**9)
LARGEST_CUBE_RATE: Final = Fraction(1 << 20)
_CACHED_TABLES: Final = 16
_GUARD_BITS: Final = 64
_SHORT_TABLE: Final = 1 << 12
_LIKELY: Final = 8
"""Up to this length · rate at least about one in e^4 proposed radii is accepted."""


@dataclass(frozen=True, slots=True)
class CubeRadius:
    """P(R = r) ∝ q^r · D(r)^m for r = 0, 1, 2, ..., with q = e^-rate: the law of the radius of a block of m rows.

    D(r) is the number of whole rows of b entries with ‖z‖₁ <= r, Σ_k C(b, k) C(r, k) 2^k (k entries are not 0; 2r + 1
    for one entry). A block drawn uniformly from the D(R)^m with max ‖z_t‖₁ <= R has

        P(z) ∝ Σ over r >= max ‖z_t‖₁ of q^r = q^max‖z_t‖₁ / (1 - q),

    which is the law that is wanted. C(r+1, k)/C(r, k) = (r+1)/(r+1-k) gives D(r+1)/D(r) <= 1 + b/(r+1-b), so that from
    r >= 2mb/rate + b on each weight is at most e^(-rate/2) times the one before it; what lies beyond n is thus at most
    w(n) · (1 + 2/rate). All sums are intervals rounded outwards, with enough bits to spare for the powers of D.
    """

    rate: Fraction
    length: int
    entries: int = 1

    @property
    def first(self) -> int:
        return 0

    @property
    def last(self) -> int:
        return LARGEST_DRAW

    def boundary(self, k: int, bits: int) -> Interval:
        sums, total = self._sums(bits, k)
        return divide(sums[k - 1], total, bits)

    def boundaries(self, bits: int) -> tuple[int, list[Interval]]:
        sums, total = self._sums(bits, 1)
        shares: list[Interval] = []
        for part in sums:
            shares.append(divide(part, total, bits))
            if complement(shares[-1], bits)[1] >> (bits - WORD_BITS) == 0:
                break
        return 1, shares

    def _sums(self, bits: int, at_least: int) -> tuple[list[Interval], Interval]:
        """The sums of the first 1, 2, 3, ... weights, and that of all, in the same unit."""
        longest = max(at_least, self._falling) + ceil(bits / self.rate)
        while True:
            work = bits + _GUARD_BITS + self.length * rows_within(longest, self.entries).bit_length()
            sums, weight = self._weighed(bits, at_least, longest, work)
            if len(sums) <= longest:
                return sums, (sums[-1][0], sums[-1][1] + self._beyond(weight))
            longest *= 2

    @property
    def _falling(self) -> int:
        """From this radius on weights fall by e^(-rate/2) at least."""
        return ceil(2 * self.length * self.entries / self.rate) + self.entries

    def _beyond(self, weight: Interval) -> int:
        """At least w · (1 + 2/rate), for a weight w."""
        p, d = self.rate.numerator, self.rate.denominator
        return -(-weight[1] * (p + 2 * d) // p)

    def _weighed(self, bits: int, at_least: int, longest: int, work: int) -> tuple[list[Interval], Interval]:
        """Sums of weights up to where the rest is below 2^-bits of them, or of more than ``longest``; the next one."""
        ratio = exp_neg(self.rate, work)
        power: Interval = (1 << work, 1 << work)
        sums: list[Interval] = []
        total: Interval = (0, 0)
        enough = max(at_least, self._falling)
        while True:
            cube = rows_within(len(sums), self.entries) ** self.length
            weight = power[0] * cube, power[1] * cube
            if len(sums) >= enough and (self._beyond(weight) < total[0] >> bits or len(sums) > longest):
                return sums, weight
            total = add(total, weight)
            sums.append(total)
            power = multiply(power, ratio, work)


def rows_within(radius: int, entries: int) -> int:
    """How many whole rows of ``entries`` numbers have ‖z‖₁ <= ``radius``.

    >>> [rows_within(r, 2) for r in range(4)]
    [1, 5, 13, 25]
    """
    return sum(comb(entries, k) * comb(radius, k) << k for k in range(entries + 1))


@lru_cache(maxsize=_CACHED_TABLES)
def _table(rate: Fraction, length: int, entries: int = 1) -> InverseTable:
    return InverseTable(CubeRadius(rate, length, entries), lookup_bits=0)


def draw_cube(source: BitSource, rate: Fraction, length: int, count: int) -> NDArray[np.int64]:
    """``count`` independent vectors of ``length`` entries, one per row, with P(z) ∝ e^(-rate · max|z_t|).

    First the radius of a cube (:class:`CubeRadius`), then a uniform vector of that cube, whose entries are independent
    and uniform on -R..R. Radii come by inversion from a table, or, where that would be long and rejection succeeds
    often, by :func:`_accepted_radii`. Every decision compares whole numbers, so every vector has its exact
    probability.
    """
    long = (length + WORD_BITS) / rate > _SHORT_TABLE
    propose = long and length * rate <= _LIKELY
    radii = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        part = min(BLOCK, count - done)
        drawn = _accepted_radii(source, rate, length, part) if propose else _table(rate, length).draw(source, part)
        radii[done : done + drawn.size] = drawn
        done += drawn.size
    each = np.repeat(radii, length)
    return (below_each(source, 2 * each + 1) - each).reshape(count, length)


def draw_blocks(source: BitSource, rate: Fraction, length: int, entries: int, count: int) -> NDArray[np.int64]:
    """``count`` independent blocks, count × length × entries, with P(z) ∝ e^(-rate · max ‖z_t‖₁).

    First the radius (:class:`CubeRadius`), then rows that are independent and uniform among those within it.
    """
    radii = np.empty(count, dtype=np.int64)
    table = _table(rate, length, entries)
    for done in range(0, count, BLOCK):
        part = min(BLOCK, count - done)
        radii[done : done + part] = table.draw(source, part)
    each = np.repeat(radii, length)
    rows = np.zeros((each.size, entries), dtype=np.int64)
    waiting = np.flatnonzero(each > 0)
    while waiting.size:
        drawn, valid = _row_proposals(source, each[waiting], entries)
        rows[waiting[valid]] = drawn[valid]
        waiting = waiting[~valid]
    return rows.reshape(count, length, entries)


def _row_proposals(
    source: BitSource, radii: NDArray[np.int64], entries: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A row within each radius, and whether it counts: uniform among the rows within, given that it does.

    b different whole numbers below r + b, in order, are b magnitudes of sum at most r by their gaps: all sets, hence
    all magnitudes, are equally likely once repeats are rejected. Each magnitude gets a sign; a 0 that gets a minus is
    rejected, so that every row has exactly one way to come about.
    """
    bounds = np.repeat(radii + entries, entries)
    chosen = np.sort(below_each(source, bounds).reshape(-1, entries), axis=1)
    magnitudes = np.diff(chosen, axis=1, prepend=-1) - 1
    negative = below_each(source, np.full(bounds.size, 2)).reshape(-1, entries) == 1
    valid = (magnitudes >= 0).all(axis=1) & ~(negative & (magnitudes == 0)).any(axis=1)
    return np.where(negative, -magnitudes, magnitudes), valid


def _accepted_radii(source: BitSource, rate: Fraction, length: int, count: int) -> NDArray[np.int64]:
    """What is accepted of ``count`` proposed radii.

    The sum of m + 1 independent geometric variables, P(y) ∝ q^y, is r with probability ∝ q^r · (r+1)(r+2)...(r+m).
    It is accepted with probability Π (2r + 1)/(2r + 2i) over i = 1..m, hence r with probability ∝ q^r · (2r + 1)^m.
    Each factor is a uniform whole number below 2r + 2i that must be below 2r + 1. A geometric variable is a discrete
    Laplace variable of scale 1/rate with ~x for x < 0 (:class:`~veilstream.noise.laws.SignedGeometric`).
    """
    laplace = np.empty(count * (length + 1), dtype=np.int64)
    laplace_plan(1 / rate, grain_for(laplace.size)).fill(source, laplace)
    radii: NDArray[np.int64] = (laplace ^ (laplace >> 63)).reshape(count, length + 1).sum(axis=1)
    bounds = 2 * (radii[:, None] + np.arange(1, length + 1))
    below = below_each(source, bounds.reshape(-1)).reshape(bounds.shape) <= 2 * radii[:, None]
    return radii[below.all(axis=1)]
