"""Errors of range counts: the same random boxes asked of the released and of the original stream."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.evaluate.queries import Ranges, RangeSums, random_ranges, random_ranges_of_volume

Reals = NDArray[np.float64]

PIECE: Final = 1 << 23
"""Values whose running sums are made at once: 64 MiB."""


@dataclass(frozen=True, slots=True)
class RangeError:
    """Mean of |r − x| over random range counts r, x and all steps; with a ``bound``, of |r − x| / max{x, bound}.

    Ranges are uniform among all boxes of ``shape``, or each covers about the share ``volume`` of it ("1/10"). Answers
    to an original array are cached for the next call with the same array (so do not write to it), and rows that repeat
    the one before, as a mechanism that republishes gives them, are answered once.

    >>> RangeError((4,), queries=50)(np.full((2, 4), 3.0), np.full((2, 4), 3.0))
    0.0
    >>> round(RangeError((4,), queries=50, bound=1.0)(np.full((2, 4), 3.0), np.full((2, 4), 4.0)), 6)
    0.25
    """

    shape: tuple[int, ...]
    queries: int = 500
    seed: int = 1
    volume: str | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        if self.queries < 1:
            raise InvalidInputError(name="queries", value=self.queries, limit="at least 1 is needed")
        if self.bound is not None and not self.bound > 0:
            raise InvalidInputError(name="bound", value=self.bound, limit="it must be above 0")

    def __call__(self, released: Reals, original: Reals) -> float:
        if released.shape != original.shape or original.ndim != 2 or not original.size:
            raise InvalidInputError(
                f"streams of shapes {released.shape} and {original.shape}: the same steps × bins are needed"
            )
        truth = _truth(original, self)
        gaps = np.abs(_answers(released, self.shape, self.ranges()) - truth)
        if self.bound is not None:
            gaps /= np.maximum(truth, self.bound)
        return float(gaps.mean())

    def ranges(self) -> Ranges:
        """The boxes it asks for."""
        return _ranges(self.shape, self.queries, self.seed, self.volume)


_CACHE: Final[dict[int, dict[RangeError, Reals]]] = {}
"""Answers to original arrays that are still alive, by their identity."""


def _truth(original: Reals, error: RangeError) -> Reals:
    number = id(original)
    if number not in _CACHE:
        _CACHE[number] = {}
        weakref.finalize(original, _CACHE.pop, number, None)
    asked = replace(error, bound=None)
    if asked not in _CACHE[number]:
        _CACHE[number][asked] = _answers(original, error.shape, error.ranges())
    return _CACHE[number][asked]


@lru_cache(maxsize=16)
def _ranges(shape: tuple[int, ...], queries: int, seed: int, volume: str | None) -> Ranges:
    if volume is None:
        return random_ranges(shape, queries, seed)
    return random_ranges_of_volume(shape, queries, volume, seed)


def _answers(stream: Reals, shape: tuple[int, ...], ranges: Ranges) -> Reals:
    """Steps × ranges."""
    changed = np.concatenate([[True], (stream[1:] != stream[:-1]).any(axis=1)])
    rows = stream[changed]
    height = max(1, PIECE // stream.shape[1])
    pieces = [RangeSums(rows[at : at + height], shape).answer(ranges) for at in range(0, len(rows), height)]
    answers: Reals = np.concatenate([np.atleast_2d(piece) for piece in pieces]).astype(np.float64)
    repeated: Reals = answers[np.cumsum(changed) - 1]
    return repeated
