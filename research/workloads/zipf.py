"""Events of a few popular and many rare items, whose popularity changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from research.workloads.base import Counts, at_least, generator


@dataclass(frozen=True, slots=True)
class Zipf:
    """``events`` per step over ``bins`` items, the item of rank k with probability ∝ k^(−``exponent``).

    At every step a fraction ``churn`` of the items exchange their ranks among themselves; 0 keeps the law as it is.
    The order of items is random, so that neighbouring bins have nothing in common.

    >>> [int(c.sum()) for c in Zipf(steps=2, bins=100, events=500).snapshots(seed=1)]
    [500, 500]
    """

    steps: int = 1000
    bins: int = 1000
    events: int = 10_000
    exponent: float = 1.0
    churn: float = 0.0

    def __post_init__(self) -> None:
        for name in ("steps", "bins", "events"):
            at_least(getattr(self, name), 1, name)
        for name in ("exponent", "churn"):
            at_least(getattr(self, name), 0, name)
        at_least(1 - self.churn, 0, "1 - churn")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.bins,)

    def snapshots(self, seed: int) -> Iterator[Counts]:
        rng = generator(seed)
        weights = np.arange(1, self.bins + 1, dtype=np.float64) ** -self.exponent
        chances = weights / weights.sum()
        rank = rng.permutation(self.bins)
        for step in range(self.steps):
            if step and self.churn:
                chosen = rng.choice(self.bins, round(self.churn * self.bins), replace=False)
                rank[chosen] = rng.permutation(rank[chosen])
            yield rng.multinomial(self.events, chances[rank]).astype(np.int64)
