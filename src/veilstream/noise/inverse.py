"""Sampling by inversion: a uniform number looked up among exact cumulative probabilities, as few bits at a
time as do."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise.interval import WORD_BITS, LazyUniform
from veilstream.noise.laws import IntegerLaw
from veilstream.noise.source import BitSource

BLOCK: Final = 1 << 16
"""Draws handled at once: their temporaries stay in the processor's cache and do not grow with the request."""

_SHORT_BITS: Final = 16
_REST_BITS: Final = WORD_BITS - _SHORT_BITS
_UNDECIDED: Final = np.iinfo(np.int16).min
_TOP_WORD: Final = (1 << WORD_BITS) - 1


class InverseTable:
    """Draws Z = max{k : P(Z < k) <= U} for a uniform U on [0, 1) whose bits are revealed step by step.

    1. Sixteen bits of U are drawn, and the first ``lookup_bits`` of them name a cell. A cell that no boundary
       enters lies within one outcome, found in ``lookup``.
    2. Otherwise U is extended to 64 bits and sorted among the integer parts of B(k) · 2^64. If it equals none
       of them, then the whole cell of 2^-64 lies between two boundaries.
    3. Otherwise, about once in 2^64 / (number of outcomes) draws, bits of U and of the boundaries are
       computed to whatever precision separates them.

    Each step either returns the outcome that the infinite expansion of U would, or defers to the next; none
    rounds. Boundaries that are not stored lie within 2^-64 of 0 or 1, where the cell is always deferred to
    step 3.
    """

    __slots__ = ("_floors", "_law", "_lookup", "_lowest", "_unused")

    def __init__(self, law: IntegerLaw, *, lookup_bits: int) -> None:
        self._law = law
        key, self._floors = _floors(law)
        self._lowest = key - 1
        self._lookup: NDArray[np.int16] | None = None
        self._unused = np.uint16(_SHORT_BITS - lookup_bits)
        if lookup_bits:
            cells = (self._floors >> np.uint64(WORD_BITS - lookup_bits)).astype(np.int64)
            lookup = np.searchsorted(cells, np.arange(1 << lookup_bits)) + self._lowest
            lookup[cells] = _UNDECIDED
            self._lookup = lookup.astype(np.int16)

    def draw(self, source: BitSource, count: int) -> NDArray[np.int64]:
        """``count`` independent outcomes; callers ask for at most :data:`BLOCK`."""
        if self._lookup is None:
            return self._sort(source, source.words(count))
        short = source.words(-(-count // 4)).view(np.uint16)[:count]
        outcomes = self._lookup.take(short >> self._unused if self._unused else short)
        undecided = np.flatnonzero(outcomes == _UNDECIDED)
        result = outcomes.astype(np.int64)
        if undecided.size:
            rest = source.words(undecided.size) >> np.uint64(_SHORT_BITS)
            prefixes = short[undecided].astype(np.uint64) << np.uint64(_REST_BITS) | rest
            result[undecided] = self._sort(source, prefixes)
        return result

    def _sort(self, source: BitSource, prefixes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Outcomes of uniform numbers whose first 64 bits are given."""
        index = np.searchsorted(self._floors, prefixes)
        tied = np.flatnonzero(self._floors.take(index, mode="clip") == prefixes)
        result = index.astype(np.int64) + self._lowest
        for row in tied.tolist():
            uniform = LazyUniform(source, int(prefixes[row]), WORD_BITS)
            result[row] = self._settle(uniform, int(result[row]))
        return result

    def _settle(self, uniform: LazyUniform, guess: int) -> int:
        """The outcome of ``uniform``, by a search that doubles its stride away from ``guess`` and then
        bisects.

        Keeps B(low) <= U < B(high), where B(first) = 0 and B(last + 1) = 1 need no comparison.
        """

        def below(k: int) -> bool:
            return uniform.below(partial(self._law.boundary, k))

        first, last = self._law.first, self._law.last
        stride = 1
        low = high = guess
        while low > first and below(low):
            high = low
            low = max(first, low - stride)
            stride *= 2
        if high == low:
            high = min(last + 1, low + stride)
            while high <= last and not below(high):
                low = high
                stride *= 2
                high = min(last + 1, high + stride)
        while high - low > 1:
            middle = (low + high) // 2
            if below(middle):
                high = middle
            else:
                low = middle
        return low


def _floors(law: IntegerLaw) -> tuple[int, NDArray[np.uint64]]:
    """The first key, and the exact integer parts of B(k) · 2^64, at a precision that leaves none in doubt.

    B(k) lies strictly between 0 and 1: its integer part is below 2^64 even where an enclosure reaches 1.
    """
    bits = 2 * WORD_BITS
    while True:
        key, boundaries = law.boundaries(bits)
        shift = bits - WORD_BITS
        lows = [max(low, 0) >> shift for low, _ in boundaries]
        highs = [min(high >> shift, _TOP_WORD) for _, high in boundaries]
        if lows == highs:
            return key, np.array(lows, dtype=np.uint64)
        bits *= 2
