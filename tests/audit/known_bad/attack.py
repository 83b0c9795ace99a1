"""An attack on an example in pieces, so that memory does not limit the number of trials."""

from __future__ import annotations

import numpy as np

from veilstream.audit.bounds import Bound, bound_of, choose_event

from .example import Floats, KnownBad, Outputs, generator

PIECE = 1_000_000
LEARNING = 500_000


def attack(example: KnownBad, trials: int, seed: int) -> Bound:
    """A lower bound on ε at 99.9 %: up to half a million trials choose the event, as many again or more bound it."""
    learning = min(LEARNING, trials // 2)
    left, right = (_pieces(example.outputs, side, learning, (seed, 0)) for side in (True, False))
    rest = trials - learning
    event = choose_event(np.concatenate(left), np.concatenate(right), future=rest)
    hits = [
        sum(event.hits(example.outputs(side, size, generator(seed, 1, side, number))) for number, size in _sizes(rest))
        for side in (True, False)
    ]
    return bound_of(event, hits[0], hits[1], rest)


def _pieces(outputs: Outputs, side: bool, trials: int, seed: tuple[int, int]) -> list[Floats]:
    return [outputs(side, size, generator(*seed, side, number)) for number, size in _sizes(trials)]


def _sizes(trials: int) -> list[tuple[int, int]]:
    return [(number, min(PIECE, trials - start)) for number, start in enumerate(range(0, trials, PIECE))]
