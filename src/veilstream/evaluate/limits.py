"""From a released histogram of rows per person and step to limits: what each keeps, and what noise it costs.

Everything here is post-processing of a release. A level whose count is within its noise of zero is taken as empty, for
one noisy count among people with 2¹⁹ rows would outweigh all others. Within a level rows are taken as spread evenly on
a logarithmic scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.random import Generator, Philox  # noqa: TID251 (error bars of a release, not a release)
from numpy.typing import NDArray

from veilstream.data.bounding.frequency import LEVELS
from veilstream.evaluate.advise import Facts, uniform_choice
from veilstream.values.release import Release
from veilstream.values.values import half_width

DRAWS: Final = 2000
ENOUGH: Final = 3
"""How many times the people that noise may hide in a level must be seen in all."""
KEPT: Final = 0.95
"""A limit that keeps this part of the rows is suggested where nothing is known about noise."""


@dataclass(frozen=True, slots=True)
class RowLevels:
    """Noisy numbers of people by how many rows they have in a step, and how far each may be off."""

    counts: NDArray[np.float64]
    half_width: float
    std: float

    @classmethod
    def of_release(cls, release: Release) -> RowLevels:
        """The levels of a release; they are looked at together, so each is given its part of the level 0.95."""
        counts = np.asarray(release.values, dtype=np.float64)
        std = float(np.max(release.std))
        width = float(half_width(1 - 0.05 / LEVELS, std, release.law, integer=release.values.dtype.kind == "i"))
        return cls(counts, width, std)

    @property
    def blind(self) -> bool:
        """Whether noise may hide nearly as many people as it shows, so that no limit can be derived.

        >>> RowLevels(np.array([61.0] + [0] * 20), half_width=60.0, std=20.0).blind
        True
        """
        return float(self.seen.sum()) < ENOUGH * self.half_width

    @property
    def seen(self) -> NDArray[np.float64]:
        """The counts that cannot be noise alone; others are zero."""
        return np.where(self.counts > self.half_width, self.counts, 0.0)


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """A limit with the part of the rows that it keeps (estimate and 95 % interval) and, where facts about the stream
    were given, the mean errors of a bin by noise and by rows left out."""

    limit: int
    kept: float
    low: float
    high: float
    noise: float | None
    lost: float | None

    @property
    def error(self) -> float | None:
        return None if self.noise is None or self.lost is None else self.noise + self.lost


def mean_rows() -> NDArray[np.float64]:
    """Expected rows of a person and step in each level.

    >>> mean_rows()[:4].round(2).tolist()
    [1.0, 2.0, 3.43, 6.3]
    """
    means = [1.0, 2.0]
    for level in range(2, LEVELS):
        values = np.arange(2 ** (level - 1) + 1, 2**level + 1, dtype=np.float64)
        means.append(len(values) / float(np.sum(1 / values)))
    return np.array(means)


def kept_shares(counts: NDArray[np.float64], limits: Sequence[int]) -> NDArray[np.float64]:
    """The part of the rows within each limit (powers of two), for counts of people by level (… × levels)."""
    means = mean_rows()
    total = counts @ means
    kept = np.stack([counts @ np.minimum(means, limit) for limit in limits], axis=-1)
    return np.asarray(np.where(total[..., None] > 0, kept / np.maximum(total, 1e-300)[..., None], 1.0))


def limit_choices(levels: RowLevels, facts: Facts | None, epsilon: Fraction | None) -> list[LimitChoice]:
    """Limits up to the first that keeps all that is seen.

    ``facts`` tell the stream that is to be published with ``epsilon``; their ``count`` is what a bin would hold in a
    step without a limit.

    >>> levels = RowLevels(np.array([800.0, 100, 50, 50] + [0] * 17), half_width=10.0, std=3.0)
    >>> [(choice.limit, round(choice.kept, 2)) for choice in limit_choices(levels, None, None)]
    [(1, 0.67), (2, 0.81), (4, 0.92), (8, 1.0)]
    """
    seen = levels.seen
    last = int(np.max(np.flatnonzero(seen), initial=0))
    limits = [2**level for level in range(last + 1)]
    noise = Generator(Philox(1)).laplace(0, levels.std / np.sqrt(2), (DRAWS, LEVELS))
    drawn = np.where(seen > 0, np.maximum(seen + noise, 0), 0)
    low, high = np.quantile(kept_shares(drawn, limits), (0.025, 0.975), axis=0)
    shares = kept_shares(seen, limits)
    choices: list[LimitChoice] = []
    for number, limit in enumerate(limits):
        error: tuple[float | None, float | None] = None, None
        if facts is not None and epsilon is not None:
            bounded = Facts(facts.count, facts.bins, facts.w, facts.steps, per_person=limit)
            error = uniform_choice(bounded, epsilon).mean_error, facts.count * (1 - float(shares[number]))
        choices.append(LimitChoice(limit, float(shares[number]), float(low[number]), float(high[number]), *error))
    return choices


def suggested(choices: Sequence[LimitChoice]) -> LimitChoice:
    """The least sum of noise and rows left out, or without facts the least limit that keeps 95 % of the rows."""
    known = [choice for choice in choices if choice.error is not None]
    if known:
        return min(known, key=lambda choice: choice.error or 0.0)
    return next(choice for choice in choices if choice.kept >= KEPT or choice is choices[-1])
