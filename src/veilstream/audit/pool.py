"""Noise drawn by the thousand and handed out one by one: what makes many short runs quick."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.noise import ExactSampler
from veilstream.testing.simulation import SeededSource

FIRST: Final = 64
"""The size of the first draw of a pool; requests for more are drawn by themselves."""
LARGEST: Final = 1 << 16
"""The size that draws grow up to."""
GROWTH: Final = 4
"""How many times larger each draw of a pool is than the one before."""


class PooledNoise(ExactSampler):
    """The exact sampler, drawing ahead: each request for a few numbers is served from a larger draw of the same law.

    Every number drawn is handed out once, so that what a Meter receives has exactly the law of separate draws.

    >>> noise = PooledNoise(7)
    >>> pooled = np.concatenate([noise.laplace(3, 1) for _ in range(20_000)])
    >>> bool(abs(pooled.mean()) < 0.15), bool(4 < pooled.std() < 4.4)
    (True, True)
    """

    __slots__ = ("_pools",)

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        super().__init__(_PooledWords(seed))
        self._pools: dict[tuple[str, Any], _Pool] = {}

    def laplace(self, scale: Any, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._pooled("laplace", scale, size)

    def gaussian(self, sigma: Any, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return self._pooled("gaussian", sigma, size)

    def _pooled(self, law: str, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        count = size if isinstance(size, int) else math.prod(size)
        if count > FIRST:
            return self._drawn(law, scale, size)
        pool = self._pools.setdefault((law, scale), _Pool())
        if pool.at + count > pool.numbers.size:
            pool.numbers = self._drawn(law, scale, pool.next_size)
            pool.at, pool.next_size = 0, min(pool.next_size * GROWTH, LARGEST)
        numbers = pool.numbers[pool.at : pool.at + count]
        pool.at += count
        return numbers.reshape(size)

    def _drawn(self, law: str, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        return super().laplace(scale, size) if law == "laplace" else super().gaussian(scale, size)


class _Pool:
    __slots__ = ("at", "next_size", "numbers")

    def __init__(self) -> None:
        self.numbers = np.empty(0, dtype=np.int64)
        self.at = 0
        self.next_size = FIRST


class _PooledWords:
    """Random words from larger requests, for choices that ask for a few at a time."""

    def __init__(self, seed: int | tuple[int, ...]) -> None:
        self._source = SeededSource(seed)
        self._words = np.empty(0, dtype=np.uint64)
        self._at = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        if count > FIRST * FIRST:
            return self._source.words(count)
        if self._at + count > self._words.size:
            self._words, self._at = self._source.words(LARGEST), 0
        words = self._words[self._at : self._at + count]
        self._at += count
        return words
