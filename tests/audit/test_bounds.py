"""The bound is sound whatever the event, and close where the truth is known."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from veilstream.audit import EVENTS, choose_event, lower_bound
from veilstream.audit.bounds import proportion_high, proportion_low
from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler
from veilstream.testing.simulation import SeededSource

SURE = 1 - 1e-7
"""A bound above the truth at this confidence is a false alarm of probability 1e-7."""


def laplace(seed: int, scale: Fraction, shape: tuple[int, ...]) -> NDArray[np.int64]:
    return ExactSampler(SeededSource(seed)).laplace(scale, shape)


def test_proportions_are_those_of_clopper_and_pearson() -> None:
    hits, trials = np.array([0, 1, 50, 99, 100]), 100
    low, high = proportion_low(hits, trials, 0.01), proportion_high(hits, trials, 0.01)
    assert low[0] == 0
    assert high[-1] == 1
    assert np.allclose(low[1:], beta.ppf(0.01, hits[1:], trials - hits[1:] + 1))
    assert np.allclose(high[:-1], beta.isf(0.01, hits[:-1] + 1, trials - hits[:-1]))


@pytest.mark.parametrize("kind", EVENTS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)], ids=str)
def test_every_kind_of_event_finds_most_of_a_known_loss_and_never_more(kind: str, epsilon: Fraction) -> None:
    """One Laplace number; the truth is epsilon. False alarm 1e-7 each."""
    trials = 100_000
    left, right = laplace(1, 1 / epsilon, (trials, 1)) + 1, laplace(2, 1 / epsilon, (trials, 1))
    bound = lower_bound(left, right, events={kind: EVENTS[kind]}, confidence=SURE)
    assert bound.epsilon <= epsilon
    assert bound.epsilon > 0.75 * float(epsilon)
    assert bound.trials == trials // 2


def test_losses_of_several_numbers_add_up() -> None:
    """Four numbers of 1/2 each: no single one shows more than 1/2, all together show most of 2. False alarm 1e-7."""
    left, right = laplace(3, Fraction(2), (200_000, 4)) + 1, laplace(4, Fraction(2), (200_000, 4))
    bound = lower_bound(left, right, confidence=SURE)
    assert 1.2 < bound.epsilon <= 2


def test_patterns_of_answers_are_seen_together() -> None:
    """Two fair coins that agree on one side and are independent on the other: the truth is ln 2 from right to left
    and infinite from left to right on unequal pairs. False alarm none: the bound is of a positive probability."""
    bits = laplace(5, Fraction(50), (100_000, 3)) % 2
    same, free = bits[:, [0, 0]], bits[:, [1, 2]]
    assert lower_bound(same, free).epsilon > 4


def test_the_same_law_on_both_sides_gives_nothing() -> None:
    """100 pairs at 99.9 %: the bound is above 0 with probability at most 1e-3 each, in six or more below 1e-8."""
    found = [
        lower_bound(laplace(2 * k, Fraction(3), (400, 2)), laplace(2 * k + 1, Fraction(3), (400, 2)))
        for k in range(100)
    ]
    assert sum(bound.epsilon > 0 for bound in found) < 6


def test_delta_is_subtracted() -> None:
    """A mechanism that shows the person outright with probability δ has ε = 0 for that δ."""
    left = (laplace(7, Fraction(1000), (200_000, 1)) % 100 == 0).astype(float)
    right = np.zeros((200_000, 1))
    assert lower_bound(left, right).epsilon > 4
    assert lower_bound(left, right, delta=0.011).epsilon == 0


def test_the_event_is_chosen_before_it_is_counted() -> None:
    """What the second half holds has no influence on the event."""
    left, right = laplace(8, Fraction(2), (4_000, 2)) + 1, laplace(9, Fraction(2), (4_000, 2))
    changed = left.copy()
    changed[2_000:] += 1_000
    assert lower_bound(left, right).event == lower_bound(changed, right).event
    assert str(choose_event(left[:2_000], right[:2_000])) == lower_bound(left, right).event


def test_constant_and_one_dimensional_outputs_are_taken() -> None:
    assert lower_bound(np.zeros(1_000), np.zeros(1_000)).epsilon == 0
    apart = lower_bound(np.zeros(1_000), np.ones(1_000), confidence=0.999)
    assert math.isclose(apart.epsilon, math.log(0.0005 ** (1 / 500) / (1 - 0.0005 ** (1 / 500))), rel_tol=1e-6)


@pytest.mark.parametrize(("trials", "confidence", "delta"), [(10, 0.9, 0), (1_000, 1.0, 0), (1_000, 0.9, 1.0)])
def test_impossible_questions_are_refused(trials: int, confidence: float, delta: float) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        lower_bound(np.zeros(trials), np.zeros(trials), confidence=confidence, delta=delta)


def test_a_value_that_comes_too_often_is_seen_among_others() -> None:
    """One value within a continuum is four times as likely on the left: the truth is ln 4. False alarm 1e-7."""
    values, coins = laplace(11, Fraction(5000), (2, 100_000)), laplace(12, Fraction(10**6), (2, 100_000)) % 100
    left, right = (np.where(coins[side] < share, 137, values[side]) for side, share in ((0, 20), (1, 5)))
    bound = lower_bound(left, right, confidence=SURE)
    assert 1.2 < bound.epsilon <= math.log(4) + 0.01


def test_rare_events_are_tried() -> None:
    """The sides differ only beyond a value that 0.4 % reach on one side and 0.04 % on the other. False alarm 1e-7."""
    values, coins = laplace(13, Fraction(50), (2, 400_000)), laplace(14, Fraction(10**6), (2, 400_000)) % 10_000
    left, right = (np.where(coins[side] < share, 10_000, values[side]) for side, share in ((0, 40), (1, 4)))
    assert 1.3 < lower_bound(left, right, confidence=SURE).epsilon <= math.log(10)


def test_numbers_are_judged_within_what_was_decided() -> None:
    """A number moves up after one decision and down after the other; 8 numbers besides say nothing. The truth is 1."""
    flags = laplace(15, Fraction(10**6), (2, 60_000)) % 2
    sides: list[NDArray[np.int64]] = []
    for side, shift in ((0, 1), (1, 0)):
        moved = laplace(16 + side, Fraction(1), (60_000,)) + shift * (2 * flags[side] - 1)
        rest = laplace(18 + side, Fraction(3), (60_000, 8))
        sides.append(np.column_stack([flags[side], moved, rest]))
    found = {kind: lower_bound(*sides, confidence=SURE, events={kind: EVENTS[kind]}).epsilon for kind in EVENTS}
    assert found["threshold count"] < 0.5
    assert 0.85 < found["likelihood ratio"] <= 1
