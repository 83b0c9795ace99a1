"""People of a census who come and go at a rate that changes from period to period."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from research.workloads.base import Counts, at_least, generator
from veilstream.errors import InvalidInputError

Reals = NDArray[np.float64]

SHAPE = (96, 2, 12, 2, 2, 3)
"""Age, gender, education, health insurance, marital status, income."""
UPDATE_STD = math.sqrt(100_000)


@dataclass(frozen=True, slots=True, eq=False)
class Census:
    """A sample of ``people`` from a population, of whom some are replaced at every step.

    The paper: 500,000 of 3,000,000 people at first; at each step m leave at random and m others come from the rest of
    the population, m ~ N(r·people/2, 100,000), with ``periods`` = 10 periods of different m; 96·2·12·2·2·3 bins.

    Assumed, as the paper is silent: those who leave return to the pool (else it would be empty after twenty steps); the
    mean of m in the periods is r·people/2 times 0, ..., 2 in equal steps and random order; a synthetic population
    (``population`` counts of your own replace it): ages fall off linearly after 60, income class 0 below 20 years, as
    in the paper, education, marriage and income grow with age, the rest is independent.

    All come from the same population, so that only chance moves the histogram, however large r is: about √(m/bins) per
    bin. ``drift`` > 0 departs from the paper: in each period ages are preferred by factors e^(drift·N(0,1)).

    >>> counts = [c.sum() for c in Census(steps=3, people=1000, size=5000).snapshots(seed=1)]
    >>> len(counts), set(counts) == {1000}
    (3, True)

    Li, Xiong, Jiang, Liu: Differentially private histogram publication for dynamic datasets: an adaptive sampling
    approach, CIKM 2015, section 7.1.
    """

    steps: int = 500
    rate: float = 0.5
    periods: int = 10
    people: int = 500_000
    size: int = 3_000_000
    drift: float = 0.0
    population: Counts | None = field(default=None, repr=False)
    shape: tuple[int, ...] = SHAPE

    def __post_init__(self) -> None:
        for name in ("steps", "periods", "people"):
            at_least(getattr(self, name), 1, name)
        at_least(self.drift, 0, "drift")
        if not 0 <= self.rate <= 1:
            raise InvalidInputError(f"rate {self.rate} of a census: between 0 and 1 is needed")
        size = self.size if self.population is None else int(self.population.sum())
        if size < 2 * self.people:
            raise InvalidInputError(f"population of {size} for {self.people} people: at least twice as many are needed")
        bins = math.prod(self.shape)
        if self.population is None and self.shape != SHAPE:
            raise InvalidInputError(f"shape {self.shape} without a population: only {SHAPE} is known")
        if self.population is not None and self.population.size != bins:
            raise InvalidInputError(
                f"population of {self.population.size} bins for shape {self.shape}: {bins} are needed"
            )

    def snapshots(self, seed: int) -> Iterator[Counts]:
        rng = generator(seed)
        if self.population is None:
            pool: Counts = rng.multinomial(self.size, synthetic_population()).astype(np.int64)
        else:
            pool = self.population.reshape(-1).copy()
        inside = rng.multivariate_hypergeometric(pool, self.people, method="marginals")
        pool -= inside
        speeds: Reals = np.linspace(0.0, 2.0, self.periods) if self.periods > 1 else np.ones(1)
        rng.shuffle(speeds)
        length = -(-self.steps // self.periods)
        liking: Reals = np.ones(self.shape[0])
        for step in range(self.steps):
            if step:
                if step % length == 0 and self.drift:
                    liking = np.exp(self.drift * rng.normal(size=self.shape[0]))
                mean = self.rate * self.people / 2 * float(speeds[step // length])
                moved = min(max(int(rng.normal(mean, UPDATE_STD)), 0), self.people) if mean else 0
                leaving = rng.multivariate_hypergeometric(inside, moved, method="marginals")
                coming = self._coming(rng, pool, moved, liking)
                inside, pool = inside - leaving + coming, pool + leaving - coming
            yield inside.copy()

    def _coming(self, rng: Any, pool: Counts, moved: int, liking: Reals) -> Counts:
        if not self.drift:
            return cast(Counts, rng.multivariate_hypergeometric(pool, moved, method="marginals"))
        wanted = pool * np.repeat(liking, pool.size // liking.size)
        # Nobody can come twice: what chance asks for beyond the pool is filled up at random.
        coming = np.minimum(rng.multinomial(moved, wanted / wanted.sum()), pool)
        more = rng.multivariate_hypergeometric(pool - coming, moved - int(coming.sum()), method="marginals")
        return cast(Counts, coming + more)


def synthetic_population() -> Reals:
    """Probabilities of the bins of ``SHAPE``."""
    age = np.arange(96)
    by_age = np.interp(age, [0, 60, 95], [1.0, 1.0, 0.05])
    grown = 1 / (1 + np.exp(-(age - 28) / 4))
    level = np.arange(12)
    schooling = np.exp(-0.5 * ((level[None, :] - np.interp(age, [0, 6, 25, 95], [0, 0.5, 8, 6])[:, None]) / 2) ** 2)
    schooling /= schooling.sum(axis=1, keepdims=True)
    earning = np.where(age >= 20, np.interp(age, [20, 45, 65, 95], [0.2, 0.7, 0.5, 0.3]), 0.0)
    income = np.stack([np.where(age < 20, 1.0, 0.0), np.where(age < 20, 0.0, 1 - earning), earning], axis=1)
    married = np.stack([1 - 0.65 * grown, 0.65 * grown], axis=1)
    insured = np.array([0.12, 0.88])
    gender = np.array([0.49, 0.51])
    joint: Reals = np.einsum("a,g,ae,i,am,ac->ageimc", by_age, gender, schooling, insured, married, income)
    flat: Reals = (joint / joint.sum()).reshape(-1)
    return flat
