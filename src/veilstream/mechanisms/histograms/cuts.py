"""Quantiles chosen by the exponential mechanism on public edges."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import Exact, rational
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.statistics import cut_scores
from veilstream.values.values import Values

Question: TypeAlias = tuple[int, int, int]
"""The place of a share, and those of its neighbours that were chosen before: the ends are 0 and one after the last."""


@dataclass(frozen=True, slots=True)
class QuantileCuts:
    """Chooses for every group of ``cells`` successive numbers the cuts that leave given ``shares`` of it below.

    The middle share is chosen first, with probability ∝ exp(ε·score/(2·sensitivity)), score = −|below − share·all|.
    Those on either side of it are then chosen from the cells on their side, and so on: ⌈log₂(m + 1)⌉ levels with an
    equal part of ε each, because the stretches of a level have no cell in common. So cuts are never out of order. What
    is published are shares of cells with these quantiles; the number of rows is not measured, and the noise has no
    standard deviation.

    >>> from veilstream.mechanisms.session import Session
    >>> from veilstream.noise import SecureNoise
    >>> from veilstream import Guarantee
    >>> from veilstream.privacy.accountant import Accountant
    >>> from veilstream.trusted.counts import seal
    >>> meter = Session(Accountant(Guarantee(50, w=1), 4), SecureNoise()).at(0)
    >>> crowd = seal(np.array([900, 1000, 50, 50]), 0)
    >>> QuantileCuts(4, ("1/4", "9/10")).estimate(crowd, Fraction(50), meter).numbers.round(2).tolist()
    [0.25, 0.65, 0.0, 0.1]

    Smith: Privacy-preserving statistical estimation with optimal convergence rates, STOC 2011 (one quantile); Kaplan,
    Schnapp, Stemmer: Differentially private approximate quantiles, ICML 2022 (recursion, here on public cells).
    """

    cells: int
    shares: tuple[Exact, ...] = (Fraction(1, 2),)

    def __post_init__(self) -> None:
        exact = tuple(rational(share, "shares") for share in self.shares)
        rising = all(one < other for one, other in zip((Fraction(0), *exact), (*exact, Fraction(1)), strict=True))
        if not exact or not rising or type(self.cells) is not int or self.cells < 2:
            raise InvalidInputError(
                name="shares",
                of="QuantileCuts",
                value=", ".join(map(str, exact)),
                limit="rising, above 0 and below 1, of 2 cells or more",
            )
        object.__setattr__(self, "shares", exact)

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        if x.size % self.cells:
            raise InvalidInputError(
                name="cells", of="QuantileCuts", value=self.cells, limit=f"they do not divide {x.size} numbers"
            )
        columns = x.size // self.cells
        levels = _levels(len(self.shares))
        cuts = np.zeros((columns, len(self.shares) + 2), dtype=np.int64)
        cuts[:, -1] = self.cells
        for questions in levels:
            self._choose(x, cuts, questions, epsilon / len(levels), meter)
        return Values(self._shares_of_cells(cuts).reshape(-1), math.nan)

    def _choose(
        self, x: Sealed, cuts: NDArray[np.int64], questions: list[Question], epsilon: Fraction, meter: Meter
    ) -> None:
        """Fill in the cuts of one level, in the order of the cells."""
        place, low, high = (np.array(part) for part in zip(*questions, strict=True))
        after = cuts[:, high]
        # A stretch without cells leaves nothing to choose.
        before = np.minimum(cuts[:, low], after - 1)
        firsts = (before + np.arange(len(cuts))[:, None] * self.cells).reshape(-1)
        widths = (after - before).reshape(-1)
        asked = (cuts[:, high] > cuts[:, low]).reshape(-1)
        ends = np.array([0.0, *map(float, self.shares), 1.0])
        share = np.tile((ends[place] - ends[low]) / (ends[high] - ends[low]), len(cuts))
        chosen = np.zeros(len(widths), dtype=np.int64)
        if asked.any():
            scores = cut_scores(x, firsts[asked], widths[asked], share[asked])
            chosen[asked] = meter.select_each(scores, epsilon, "cut")
        cuts[:, place] = np.where(asked.reshape(after.shape), before + 1 + chosen.reshape(after.shape), after)

    def _shares_of_cells(self, cuts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The share between two cuts lies in the last cell before the second: its quantiles are the cuts."""
        steps = np.diff(np.array([0.0, *map(float, self.shares), 1.0]))
        found = np.zeros((len(cuts), self.cells))
        rows = np.arange(len(cuts))
        for index, step in enumerate(steps.tolist(), start=1):
            np.add.at(found, (rows, np.maximum(cuts[:, index] - 1, 0)), step)
        return found


def _levels(count: int) -> list[list[Question]]:
    """Which share is chosen when, and between which others.

    >>> _levels(3)
    [[(2, 0, 4)], [(1, 0, 2), (3, 2, 4)]]
    """
    levels: list[list[Question]] = []
    stretches = [(0, count + 1)]
    while stretches:
        asked = [((low + high) // 2, low, high) for low, high in stretches if high - low > 1]
        if asked:
            levels.append(asked)
        stretches = [part for middle, low, high in asked for part in ((low, middle), (middle, high))]
    return levels
