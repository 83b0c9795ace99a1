"""Groups of people with similar budgets, chosen from the public roster alone.

A group is a run of levels; everybody in it is charged the lowest budget of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.personalised.monotone import cheapest_cuts
from veilstream.personalised.roster import UNIT, Levels
from veilstream.privacy.rationals import rational

Floats: TypeAlias = NDArray[np.float64]
Loss: TypeAlias = Callable[[Floats, Floats], Floats]
"""(people, epsilon) -> expected squared error or loss of one group, above 0; it takes arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The ``people`` of some ``levels`` of a roster, each of whom is charged ``epsilon``."""

    levels: NDArray[np.int64] = field(repr=False)
    people: int
    epsilon: Fraction


def groups_from_cuts(roster: Levels, cuts: list[int]) -> list[Group]:
    """Groups between successive cuts; ``cuts`` are level numbers, rising."""
    return [
        Group(np.arange(first, last), int(roster.sizes[first:last].sum()), Fraction(int(roster.units[first]), UNIT))
        for first, last in pairwise(cuts)
    ]


def everybody(roster: Levels) -> list[Group]:
    """One group with the lowest budget of all: the mechanism *Minimum*."""
    return groups_from_cuts(roster, [0, roster.levels])


def at_least(roster: Levels, threshold: object) -> list[Group]:
    """One group of those with at least ``threshold``; the others are left out: the mechanism *Threshold*."""
    limit = rational(threshold, "threshold")
    first = int(np.searchsorted(roster.units, math.ceil(limit * UNIT)))
    if first == roster.levels:
        raise InvalidInputError(
            name="threshold", value=threshold, limit=f"nobody has so much, the highest budget is {roster.highest}"
        )
    return groups_from_cuts(roster, [first, roster.levels])


def wasted(roster: Levels, groups: list[Group]) -> float:
    """Σ over people of (own budget − charged budget)²."""
    budgets = roster.units / UNIT
    parts = ((roster.sizes[g.levels] * (budgets[g.levels] - float(g.epsilon)) ** 2).sum() for g in groups)
    return float(sum(parts))


def privacy_aware(roster: Levels, k: int | None = None, minimum: int = 1, most: int = 64) -> list[Group]:
    """The partition into ``k`` groups of at least ``minimum`` people that wastes least budget (see ``wasted``).

    The waste w(i, j) of one group of the levels i..j obeys w(i, j) + w(i', j') ≤ w(i, j') + w(i', j) for
    i ≤ i' ≤ j ≤ j', since what level l > j adds, m_l(ε_l − ε_i)², falls in i; groups that are too small cost infinity,
    which keeps the inequality. So the best last cut never moves left as j grows, and one more group costs
    O(g log g) steps for g levels.

    Without ``k`` every number of groups up to ``most`` is tried and the one with the smallest Σ waste/people is taken
    (eq. 5.2.3; it is 0 when every level is a group, hence ``minimum``).

    >>> from veilstream.personalised.roster import Roster
    >>> roster = Roster.of_budgets([0.1, 0.11, 0.12, 0.5, 0.52, 0.9])
    >>> [(group.people, float(group.epsilon)) for group in privacy_aware(roster, k=3)]
    [(3, 0.0999...), (2, 0.5), (1, 0.8999...)]

    Li, Xiong, Ji, Jiang: Partitioning-based mechanisms under personalized differential privacy, PAKDD 2017, and thesis
    ch. 5, Algorithm 10. Its recursion ends at k = 0 without assigning anybody; here a prefix without groups must be
    empty. It runs over distinct budgets, not people: equal budgets are never parted, and some best partition never
    parts them.
    """
    _check_sizes(roster, k, minimum)
    budgets = roster.units / UNIT
    weight = np.concatenate([[0.0], np.cumsum(roster.sizes.astype(np.float64))])
    first = np.concatenate([[0.0], np.cumsum(roster.sizes * budgets)])
    second = np.concatenate([[0.0], np.cumsum(roster.sizes * budgets**2)])

    def waste(start: NDArray[np.int64], end: NDArray[np.int64]) -> Floats:
        low = budgets[start]
        spread = second[end] - second[start] - 2 * low * (first[end] - first[start])
        total: Floats = np.maximum(spread + low * low * (weight[end] - weight[start]), 0.0)
        return total

    wanted = min(most, roster.levels, roster.people // minimum) if k is None else k
    partitions = cheapest_cuts(waste, roster.sizes, wanted, minimum)
    choices = [groups_from_cuts(roster, cuts) for cuts in partitions]
    if k is not None:
        if len(choices) < k:
            raise InvalidInputError(
                f"{k} groups of at least {minimum} people: the levels of the roster allow {len(choices)}"
            )
        return choices[-1]
    scores = [sum(wasted(roster, [group]) / group.people for group in groups) for groups in choices]
    return choices[int(np.argmin(scores))]


def utility_based(roster: Levels, loss: Loss, minimum: int = 1) -> list[Group]:
    """The partition, into any number of groups of at least ``minimum`` people, with the largest Σ 1/loss.

    For numbers combined with inverse-variance weights, 1/loss is a group's precision and the sum that of the result:
    the best partition for the estimate that will be made of it.

    Thesis ch. 5, Algorithm 11, prints "maximise Σ U" with U a variance or a loss, and meaning "minimise" does not
    mend it: the group with the lowest budget alone has U(n₁, ε_min) ≥ U(n, ε_min), so that one group of everybody
    would always win and the mechanism would be *Minimum*. Precision is what adds up. It is not monotone in
    the sense of ``privacy_aware``, so all pairs of cuts are looked at: O(g²) simple steps for g levels.

    >>> from veilstream.personalised.roster import Roster
    >>> roster = Roster.of_budgets([0.01] * 10 + [0.5] * 500 + [0.6] * 500)
    >>> [(group.people, float(group.epsilon)) for group in utility_based(roster, count_loss())]
    [(10, 0.0099...), (1000, 0.5)]
    """
    _check_sizes(roster, None, minimum)
    budgets = roster.units / UNIT
    below: Floats = np.concatenate([[0], np.cumsum(roster.sizes)]).astype(np.float64)
    g = roster.levels
    best = np.full(g + 1, -np.inf)
    best[0] = 0.0
    cut: NDArray[np.int64] = np.zeros(g + 1, dtype=np.int64)
    possible = np.searchsorted(below, below - minimum, side="right").tolist()
    for end, starts in enumerate(possible):
        if end == 0 or starts == 0:
            continue
        gain = best[:starts] + 1 / loss(below[end] - below[:starts], budgets[:starts])
        start = int(np.argmax(gain))
        cut[end], best[end] = start, gain[start]
    cuts = [g]
    while cuts[-1] > 0:
        cuts.append(int(cut[cuts[-1]]))
    return groups_from_cuts(roster, cuts[::-1])


Rule: TypeAlias = Callable[[Levels], list[Group]]
"""How a round of ``rounds`` parts the people who have something left."""


def rounds(roster: Levels, rule: Rule, count: int) -> list[list[Group]]:
    """Groups of ``count`` rounds: after each, everybody keeps what they were not charged, and ``rule`` parts them anew.

    Nobody's charges add up to more than their budget, by construction, and the accounts check it. The leftovers shrink
    quickly: Σ leftover² after T rounds of ``privacy_aware`` with k groups is at most (n/(n − 1 + k²))^T · Σ ε²
    (thesis ch. 5, 5.2.3). Rounds end early when nobody has anything left, or too few for the rule's minimum.

    >>> from veilstream.personalised.roster import Roster
    >>> roster = Roster.of_budgets(["1/4", "1/2", "1/2", "1"])
    >>> [[(g.people, str(g.epsilon)) for g in groups] for groups in rounds(roster, everybody, 3)]
    [[(4, '1/4')], [(3, '1/4')], [(1, '1/2')]]
    """
    left = roster.units.copy()
    finished: list[list[Group]] = []
    while len(finished) < count and (left > 0).any():
        units, which = np.unique(left, return_inverse=True)
        sizes = np.zeros(units.size, dtype=np.int64)
        np.add.at(sizes, which, roster.sizes)
        empty = int(units[0] == 0)
        try:
            groups = rule(Levels(units[empty:], sizes[empty:]))
        except InvalidInputError:
            if not finished:
                raise
            break
        named = [
            Group(np.flatnonzero(np.isin(which - empty, group.levels)), group.people, group.epsilon) for group in groups
        ]
        for group in named:
            left[group.levels] -= int(group.epsilon * UNIT)
        finished.append(named)
    return finished


def count_loss(spread: float = 0.0) -> Loss:
    """The variance of a group's frequency: 2/(nε)² of noise, and ``spread``/n since a group is a sample of all.

    ``spread`` is p(1 − p) for a frequency p, at most 1/4; 0 counts noise alone, as the thesis does.
    """

    def loss(people: Floats, epsilon: Floats) -> Floats:
        return 2 / (people * epsilon) ** 2 + spread / people

    return loss


def risk_loss(dimensions: int, regularisation: float, smoothness: float = 0.25) -> Loss:
    """The bound of eq. 5.2.5 on the excess loss of a private classifier, as a function of people and epsilon.

    16 d² ln²(d/σ)(c + e_g)/(n ε e_g)² + ln(1/σ)/(n e_g) + e_g/2 with ‖f₀‖ = 1, σ = 0.05, and e_g set by the
    regularisation Λ it asks for, Λ = e_g/2 (Chaudhuri et al. 2011, theorem 18): a loss, so smaller is better.
    """
    target, confidence = 2 * regularisation, 0.05
    numerator = 16 * dimensions**2 * np.log(dimensions / confidence) ** 2 * (smoothness + target)

    def loss(people: Floats, epsilon: Floats) -> Floats:
        of_sample = np.log(1 / confidence) / (people * target)
        bound: Floats = numerator / (people * epsilon * target) ** 2 + of_sample + target / 2
        return bound

    return loss


def _check_sizes(roster: Levels, k: int | None, minimum: int) -> None:
    if type(minimum) is not int or not 1 <= minimum <= roster.people:
        raise InvalidInputError(
            name="minimum", value=minimum, limit=f"a group has from 1 to the {roster.people} people there are"
        )
    if k is not None and (type(k) is not int or not 1 <= k <= roster.levels):
        raise InvalidInputError(
            name="k", value=k, limit=f"a whole number of groups from 1 to the {roster.levels} levels there are"
        )
