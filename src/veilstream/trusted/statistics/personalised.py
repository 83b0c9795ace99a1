"""Statistics of people with personal budgets, each with its bound for every single person proved where it stands.

All read a sealed table of counts, level after level (``levels`` · ``bins`` numbers): how many people of each budget are
in each bin. A person is in one cell of the rows of their own level, or in none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.noise.interval import Interval, complement, divide, exp_neg, multiply
from veilstream.noise.thinning import WordNoise
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.base import Scores

PROBABILITY_BITS = 32
"""Probabilities of being drawn are multiples of 2⁻³²."""
PROOF_BITS = 96
"""The precision of the whole numbers that enclose a probability."""
PIECE = 1 << 20
"""Cells whose people are drawn at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PersonalScores:
    """Scores of which a person of level ℓ moves none by more than units[ℓ]; only this module makes them."""

    scores: Scores
    units: NDArray[np.int64] = field(repr=False)

    @property
    def size(self) -> int:
        return self.scores.size


@hide_frames
def weighted_counts(table: Sealed, weights: NDArray[np.int64]) -> Sealed:
    """Σ over levels of weight · counts, bin by bin.

    A person of level ℓ is in one cell of that level, so they move the sum by exactly weights[ℓ] in the L1 norm; the
    largest weight is what the result says of itself, and Laplace noise of scale max(weights)/ε costs a person of
    level ℓ ε·weights[ℓ]/max(weights), the movement over the scale.

    >>> from veilstream.trusted.counts import seal
    >>> weighted_counts(seal(np.array([5, 5, 1, 1]), t=0), np.array([1, 3]))
    Sealed(size=2, span=0..0, l1=3)
    """
    counts = _by_level(table, weights.size)
    if int(weights.min(initial=0)) < 0:
        raise InvalidInputError("weights: one is negative")
    l1 = Fraction(int(weights.max(initial=0))) * table.l1
    return Sealed((counts * weights[:, None]).sum(axis=0), table.span, l1)


def sampling_rates(units: NDArray[np.int64], threshold: int, unit: int) -> NDArray[np.int64]:
    """Multiples of 2⁻³² not above (e^ε − 1)/(e^T − 1) for each ε = units/unit below T = threshold/unit, else 2³².

    Rounding down is safe: a person who is drawn with probability p into data that are measured with T loses
    ln(1 + p(e^T − 1)), which rises with p. The quotient is e^(ε−T)·(1 − e^−ε)/(1 − e^−T), enclosed in whole numbers.

    >>> (sampling_rates(np.array([1, 2, 3]), threshold=2, unit=2) / 2**32).round(4)
    array([0.3775, 1.    , 1.    ])
    """
    scale = PROOF_BITS - PROBABILITY_BITS
    whole = complement(exp_neg(Fraction(threshold, unit), PROOF_BITS), PROOF_BITS)

    def rate(budget: int) -> int:
        if budget >= threshold:
            return 1 << PROBABILITY_BITS
        own: Interval = complement(exp_neg(Fraction(budget, unit), PROOF_BITS), PROOF_BITS)
        gap = exp_neg(Fraction(threshold - budget, unit), PROOF_BITS)
        return divide(multiply(gap, own, PROOF_BITS), whole, PROOF_BITS)[0] >> scale

    return np.asarray([rate(budget) for budget in units.tolist()], dtype=np.int64)


@hide_frames
def sampled_counts(table: Sealed, rates: NDArray[np.int64], noise: WordNoise) -> Sealed:
    """Counts, bin by bin, of a secret sample into which a person of level ℓ is drawn with probability rates[ℓ]·2⁻³².

    Everybody is drawn on their own, so a person moves the sampled counts by at most 1 in the L1 norm, however many
    others are drawn. The sample stays sealed.
    """
    counts = np.maximum(_by_level(table, rates.size), 0)
    bins = counts.shape[1]
    sampled = np.zeros(bins, dtype=np.int64)
    certain = rates == 1 << PROBABILITY_BITS
    sampled += counts[certain].sum(axis=0)
    cells = np.flatnonzero(counts[~certain].reshape(-1))
    people = counts[~certain].reshape(-1)[cells]
    thresholds = np.repeat(rates[~certain], bins)[cells]
    for start in range(0, cells.size, PIECE):
        part = slice(start, start + PIECE)
        limit = np.repeat(thresholds[part], people[part])
        drawn = (noise.uniform_words(limit.size) >> np.uint64(64 - PROBABILITY_BITS)).astype(np.int64) < limit
        bin_of = np.repeat(cells[part] % bins, people[part])
        sampled += np.bincount(bin_of[drawn], minlength=bins)
    return Sealed(sampled, table.span, table.l1)


@hide_frames
def personal_count_scores(table: Sealed, sizes: NDArray[np.int64], units: NDArray[np.int64]) -> PersonalScores:
    """How little budget of how few people would have to be given up for each count 0, 1, ..., n to be the true one.

    ``table`` has one bin: who is counted. Going from the true count c down to r needs c − r people to leave, up to r
    needs r − c people of the roster to join; the score of r is minus the sum of their budgets if the cheapest do it.
    That is minus the distance from the data to the nearest data with count r, where adding or removing a person costs
    their budget: a metric. By the triangle inequality a person moves no score by more than their own budget, so
    choosing r with probability ∝ exp(score/2) costs nobody more than that.

    >>> from veilstream.trusted.counts import seal
    >>> personal_count_scores(seal(np.array([1, 1]), t=0), np.array([2, 1]), np.array([5, 7])).size
    4
    """
    present = np.clip(_by_level(table, sizes.size)[:, 0], 0, sizes)
    leave = np.cumsum(np.repeat(units, present))
    join = np.cumsum(np.repeat(units, sizes - present))
    exact = -np.concatenate([leave[::-1], [0], join])
    return PersonalScores(Scores(exact, table.span, Fraction(int(units.max(initial=1))) * table.l1), units)


@hide_frames
def personal_median_scores(table: Sealed, sizes: NDArray[np.int64], units: NDArray[np.int64]) -> PersonalScores:
    """How little budget would have to be given up for each bin to hold a median.

    Bin v holds a median if neither side outweighs the rest: below ≤ at + above and above ≤ at + below. If one side
    exceeds by e, then e times somebody of that side leaves or somebody without a record joins the rest: each
    of these closes the gap by one, nothing closes it faster. Who left a side can join the rest for the same price once
    more, so everybody there counts twice. The cheapest e of them are the nearest data that have a median at v in the
    metric of ``personal_count_scores``. So again nobody moves a score by more than their budget.

    >>> from veilstream.trusted.counts import seal
    >>> personal_median_scores(seal(np.array([3, 0, 4, 1, 2, 2]), t=0), np.array([9, 6]), np.array([1, 2])).size
    3
    """
    counts = np.maximum(_by_level(table, sizes.size), 0)
    absent = np.maximum(sizes - counts.sum(axis=1), 0)
    below = np.cumsum(counts, axis=1) - counts
    above = counts.sum(axis=1, keepdims=True) - below - counts
    everyone = int(counts.sum())
    exact = np.zeros(counts.shape[1], dtype=np.int64)
    for side in (below, above):
        heavy = side.sum(axis=0)
        for v in np.flatnonzero(2 * heavy > everyone).tolist():
            exact[v] = -_cheapest(2 * int(heavy[v]) - everyone, 2 * side[:, v] + absent, units)
    return PersonalScores(Scores(exact, table.span, Fraction(int(units.max(initial=1))) * table.l1), units)


def _cheapest(needed: int, people: NDArray[np.int64], units: NDArray[np.int64]) -> int:
    """The sum of the ``needed`` smallest budgets, of which ``people`` have each of the rising ``units``."""
    before = np.cumsum(people) - people
    taken = np.clip(needed - before, 0, people)
    return int((taken * units).sum())


def _by_level(table: Sealed, levels: int) -> NDArray[np.int64]:
    if levels == 0 or table.size % levels or table.grid:
        raise InvalidInputError(f"table of {table.size} counts for {levels} levels of budgets")
    return open_counts(table).reshape(levels, -1)
