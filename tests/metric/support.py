"""Small point sets, and the statistics of their neighbours by brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import SIDE, Metric, SealedPoints

NOW = Span(0, 0)


def line(coordinates: Sequence[int], reach: int, side: int = SIDE) -> SealedPoints:
    """Points on a line of ``side`` units."""
    return SealedPoints(np.array(coordinates)[:, None], (side,), Fraction(reach), Metric.EUCLIDEAN, NOW)


def meter(epsilon: Any = 1, seed: int = 1, batch: tuple[int, ...] = ()) -> Meter:
    accountant, source = Accountant(Guarantee(epsilon, None), 1), ExactSampler(SeededSource(seed))
    return BatchMeter(accountant, source, 0, batch) if batch else Meter(accountant, source, 0)


def moves(x: tuple[int, ...], reach: int, side: int) -> Iterator[tuple[int, ...]]:
    """Every set that one move makes of ``x``, sorted."""
    for index, place in enumerate(x):
        for to in range(max(place - reach, 0), min(place + reach, side) + 1):
            yield tuple(sorted((*x[:index], to, *x[index + 1 :])))


def smooth_by_definition(x: Sequence[int], rank: int, reach: int, side: int, rate: float) -> float:
    """max over all sets of e^{−rate·moves} · local sensitivity, by walking to every set there is; at least 1."""
    frontier = {tuple(sorted(x))}
    seen = set(frontier)
    found, distance = 1.0, 0
    while frontier:
        following: set[tuple[int, ...]] = set()
        for state in frontier:
            around = set(moves(state, reach, side))
            local = max(abs(state[rank - 1] - other[rank - 1]) for other in around)
            found = max(found, local * float(np.exp(-rate * distance)))
            following |= around
        frontier = following - seen
        seen |= frontier
        distance += 1
    return found


def uniform_points(count: int, axes: int, seed: int) -> NDArray[np.float64]:
    words = SeededSource(seed).words(count * axes)
    return np.ldexp((words >> np.uint64(11)).astype(np.float64), -53).reshape(count, axes)
