"""Answers that choose: a candidate, a partition, the cells of a large domain."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.noise.spread import bounded_scale, laplace_std
from veilstream.privacy.charge import Charge
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter.questions import Questions
from veilstream.trusted.noisy_cells import TailNoise, noisy_cells
from veilstream.trusted.opening import open_scores, opened
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.statistics.base import JointScores, Scores, entries_of
from veilstream.trusted.statistics.dyadic import DyadicCosts, cheapest_partition
from veilstream.values.boxes import Boxes, cells_of

PARTITION_GRID = 4
"""Costs of partitions have noise on multiples of 2⁻⁴."""
MAX_LISTED = 1 << 22
"""The most empty cells that a sparse release may be expected to list."""


@runtime_checkable
class JointNoise(Protocol):
    """A source that chooses for many questions at once; others are asked question by question."""

    def select_each(
        self,
        gaps: NDArray[np.int64],
        sizes: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]: ...


class ChoosingAnswers(Questions):
    """The best of many by noisy scores, of which nothing but the choice is told."""

    @hide_frames
    def select(self, scores: Scores, epsilon: Fraction, purpose: str) -> int:
        """A candidate i with probability exactly ∝ exp(epsilon · score_i / (2 · sensitivity))."""
        self._positive(epsilon, purpose)
        if scores.size == 0:
            raise InvalidInputError(name="select for", value=purpose, limit="no candidates")
        movement = self._sensitivity(scores.span, scores.sensitivity) * (1 if scores.one_sided else 2)
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        exact = open_scores(scores)
        return self._choose(exact.max() - exact, epsilon / movement)

    @hide_frames
    def select_each(self, scores: JointScores, epsilon: Fraction, purpose: str) -> NDArray[np.int64]:
        """One candidate for every question of ``scores``, for a single charge (see ``JointScores``)."""
        self._positive(epsilon, purpose)
        rate = epsilon / (2 * self._sensitivity(scores.span, scores.sensitivity))
        self._admit([Charge(epsilon, self._until_now(scores.span), purpose, bins=self._named(scores.bins))])
        (exact, lengths), entries = opened(scores), entries_of(scores)
        ends = np.cumsum(entries)
        gaps = np.repeat(np.maximum.reduceat(exact, ends - entries), entries) - exact
        return self._choose_each(gaps, entries, rate, lengths)

    @hide_frames
    def partition(self, costs: DyadicCosts, price: Fraction, epsilon: Fraction, purpose: str) -> NDArray[np.bool_]:
        """Where the blocks of the partition begin whose costs, with noise and a public ``price`` for each, are least.

        Every block of every level gets exact discrete Laplace noise of scale 2·sensitivity/epsilon, on a grid of 2⁻⁴;
        only the best partition is told, for one charge. PROOF.md, "The cheapest partition", has the theorem.
        """
        self._positive(epsilon, purpose)
        unit = 1 << PARTITION_GRID
        moved = self._sensitivity(costs.span, costs.sensitivity)
        scale = bounded_scale(2 * moved * unit / epsilon, purpose)
        self._admit([Charge(epsilon, self._until_now(costs.span), purpose, bins=self._named(costs.bins))])
        public = round(price * unit)
        levels = [level * unit + public + self._noise.laplace(scale, level.size) for level in opened(costs)]
        return cheapest_partition(levels)[: costs.size]

    @hide_frames
    def reaching(self, records: SealedRecords, level: int, epsilon: Fraction, purpose: str) -> Boxes:
        """The cells of a domain of any size whose count plus exact discrete Laplace noise is at least ``level``.

        The law is that of noise on every cell, empty ones too, of which only those that reach the public level are
        listed (see ``noisy_cells``).
        """
        self._positive(epsilon, purpose)
        scale = bounded_scale(self._sensitivity(records.span, records.l1) / epsilon, purpose)
        if type(level) is not int or level < 1:
            raise InvalidInputError(f"level {level!r} for {purpose!r}: a whole number from 1")
        expected = math.log(cells_of(records.shape)) - float(level / scale)
        if expected > math.log(MAX_LISTED):
            raise InvalidInputError(
                f"level {level} for {purpose!r}: about e^{expected:.0f} empty cells would reach it, at most "
                f"{MAX_LISTED} are listed"
            )
        if not isinstance(self._noise, TailNoise):
            raise InvalidInputError(name="noise for", value=purpose, limit="it cannot draw for whole domains")
        self._admit([Charge(epsilon, self._until_now(records.span), purpose)])
        cells, values = noisy_cells(records, level, scale, self._noise)
        return Boxes(records.shape, cells, cells + 1, values.astype(np.float64), laplace_std(float(scale)))

    def _choose(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        """A candidate with probability ∝ e^(-rate · gap)."""
        return self._noise.select(gaps, rate)

    def _choose_each(
        self,
        gaps: NDArray[np.int64],
        entries: NDArray[np.int64],
        rate: Fraction,
        lengths: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """A candidate for each question, which has as many successive gaps as ``entries`` says."""
        if isinstance(self._noise, JointNoise):
            return self._noise.select_each(gaps, entries, rate, lengths)
        ends = np.cumsum(entries)
        parts = [slice(end - size, end) for end, size in zip(ends.tolist(), entries.tolist(), strict=True)]
        listed = [gaps[part] if lengths is None else np.repeat(gaps[part], lengths[part]) for part in parts]
        return np.array([self._noise.select(one, rate) for one in listed], dtype=np.int64)
