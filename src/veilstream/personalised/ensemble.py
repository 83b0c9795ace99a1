"""One answer from the answers of several groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilstream.personalised.partition import Group
from veilstream.personalised.roster import Levels
from veilstream.values.values import NoiseLaw, Values


def frequency_weights(roster: Levels, groups: Sequence[Group], spread: float) -> NDArray[np.float64]:
    """Weights, of sum 1, with which the frequencies of groups estimate the frequency of all with the least variance.

    Group k, of n_k people, has noise of variance v_k = 2/(n_k ε_k)² on its frequency. With weights ω the result
    counts person i with Σ ω_k/n_k over the groups that i is in, where 1/n would be right: if budgets have nothing to do
    with the data, that adds ``spread`` times the sum of squared differences. The total

        Σ ω_k² v_k + spread · (ωᵀMω − 1/n),     M_kl = |G_k ∩ G_l|/(n_k n_l),

    is least at ω ∝ (diag v + spread·M)⁻¹ 1; for disjoint groups that is 1/(v_k + spread/n_k), inverse variance.
    """
    people = np.asarray([group.people for group in groups], dtype=np.float64)
    noise = 2 / (people * np.asarray([float(group.epsilon) for group in groups])) ** 2
    member = np.zeros((len(groups), roster.levels))
    for row, group in enumerate(groups):
        member[row, group.levels] = 1
    overlap = (member * roster.sizes) @ member.T / np.outer(people, people)
    solved = np.linalg.solve(np.diag(noise) + spread * overlap, np.ones(len(groups)))
    weights: NDArray[np.float64] = np.asarray(solved / solved.sum(), dtype=np.float64)
    return weights


def combine_counts(roster: Levels, groups: Sequence[Group], values: Sequence[Values], spread: float) -> Values:
    """Counts of everybody from noisy counts of groups, by ``frequency_weights``."""
    weights = frequency_weights(roster, groups, spread)
    factors = weights * roster.people / np.asarray([group.people for group in groups])
    numbers = sum(factor * one.numbers for factor, one in zip(factors, values, strict=True))
    variance = sum((factor * np.asarray(one.std)) ** 2 for factor, one in zip(factors, values, strict=True))
    std = float(np.sqrt(np.asarray(variance).max()))
    return Values(np.asarray(numbers, dtype=np.float64), std, values[0].law if len(values) == 1 else NoiseLaw.MIXED)


def undominated(groups: Sequence[Group]) -> list[int]:
    """The positions of groups to which no other is at least equal in both people and epsilon and better in one.

    >>> [undominated([Group(np.arange(1), n, e) for n, e in sizes]) for sizes in [[(5, 1), (9, 2), (10, 1)]]]
    [[1, 2]]
    """
    pairs = [(group.people, group.epsilon) for group in groups]
    return [
        at
        for at, (people, epsilon) in enumerate(pairs)
        if not any(n >= people and e >= epsilon and (n, e) != (people, epsilon) for n, e in pairs)
    ]


def majority(votes: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of weighted votes for class 1, for classifiers × rows of votes 0 or 1.

    >>> majority(np.array([[1, 0], [1, 0], [0, 1]]), np.ones(3)).round(2)
    array([0.67, 0.33])
    """
    result: NDArray[np.float64] = weights @ votes / weights.sum()
    return result
