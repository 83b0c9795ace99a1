"""Counts: unbiased, at nobody's expense beyond their own epsilon, with the bounds attacked on neighbours."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.personalised.support import meter, seeded, town
from veilstream.errors import BudgetExceededError, InvalidInputError, SealedAccessError
from veilstream.personalised import (
    Checked,
    CountMechanism,
    ExponentialCount,
    ExponentialMedian,
    Minimum,
    Partitioned,
    Roster,
    Sampling,
    SimulatedMeter,
    Stretching,
    Threshold,
    count_levels,
)
from veilstream.trusted.counts import seal
from veilstream.trusted.opening import open_counts, open_scores
from veilstream.trusted.statistics.personalised import (
    PersonalScores,
    personal_count_scores,
    personal_median_scores,
    sampled_counts,
    sampling_rates,
    weighted_counts,
)

MECHANISMS: list[CountMechanism] = [
    Minimum(),
    Threshold("1/4"),
    Sampling(),
    Sampling("1"),
    Stretching(),
    Stretching(spread=0),
    Checked(),
    Partitioned(),
    Partitioned(by="waste", k=2),
    Partitioned(by="waste", k=2, number=3),
    Partitioned(spread=0, number=2),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_counts_are_unbiased_and_nobody_pays_more_than_their_own(mechanism: CountMechanism) -> None:
    x = town()
    runs = []
    for seed in range(100):
        m = meter(x, seed)
        runs.append(mechanism.estimate(x, m).numbers)
        assert all(left >= 0 for left in m.accounts.left())
    mean, spread = np.mean(runs, axis=0), np.std(runs, axis=0) / np.sqrt(len(runs))
    # False alarm: 3 means of 100 runs beyond 7 standard errors, below 1e-7 each for these tails.
    assert (np.abs(mean - 200) < 7 * spread + 1e-9).all()


@pytest.mark.parametrize("mechanism", [*MECHANISMS, ExponentialMedian()], ids=repr)
def test_a_second_release_is_refused(mechanism: CountMechanism) -> None:
    x = town()
    m = meter(x, 1)
    mechanism.estimate(x, m)
    with pytest.raises(BudgetExceededError, match="nothing was released"):
        Stretching(spread=0).estimate(x, m)


def test_stretching_charges_everybody_exactly_their_own() -> None:
    x = town()
    m = meter(x, 1)
    Stretching(spread=0).estimate(x, m)
    assert m.accounts.left() == [0] * 5


def test_stated_noise_is_the_noise() -> None:
    # 3000 draws each; a deviation of 12% from the standard deviation has probability below 1e-6.
    x = town(bins=100, people=500)
    for mechanism in (Minimum(), Stretching(), Partitioned()):
        values = [mechanism.estimate(x, meter(x, seed)) for seed in range(30)]
        noise = np.concatenate([one.numbers for one in values])
        assert float(noise.std()) == pytest.approx(float(values[0].std), rel=0.12)


def test_a_check_finds_budgets_that_follow_the_data() -> None:
    """Those with budget 2 are all in bin 1: stretched, 5,000 count as 9,524. The check allows 80·ln(400) = 480."""
    roster = Roster.of_budgets([Fraction(1, 10)] * 5000 + [Fraction(2)] * 5000)
    x = count_levels(roster, np.repeat([0, 1], 5000), np.repeat([0, 1], 5000), bins=2)
    assert Stretching(0).worst_bias(roster) == pytest.approx(4524, abs=1)
    paying = [meter(x, seed) for seed in range(20)]
    checked = [np.abs(Checked(Stretching(0)).estimate(x, m).numbers - 5000).max() for m in paying]
    # The noise is Lap(40/3): beyond 300 with probability e^{-22}.
    assert max(checked) < 300
    assert all(left >= 0 for m in paying for left in m.accounts.left())
    assert np.abs(Stretching(0).estimate(x, meter(x, 1)).numbers - 5000).max() > 4000
    with pytest.raises(InvalidInputError, match="check 1/2"):
        Checked(check=Fraction(1, 2))


def table_of(cells: list[tuple[int, int]], levels: int, bins: int) -> NDArray[np.int64]:
    counts = np.zeros((levels, bins), dtype=np.int64)
    for level, place in cells:
        counts[level, place] += 1
    return counts.reshape(-1)


Cells = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=10)
UNITS = np.array([1, 5, 9])


@given(Cells, st.tuples(st.integers(0, 2), st.integers(0, 3)))
def test_weighted_counts_move_by_the_weight_of_the_person(cells: list[tuple[int, int]], extra: tuple[int, int]) -> None:
    fewer = weighted_counts(seal(table_of(cells, 3, 4), 0), UNITS)
    more = weighted_counts(seal(table_of([*cells, extra], 3, 4), 0), UNITS)
    moved = int(np.abs(open_counts(more) - open_counts(fewer)).sum())
    assert moved == UNITS[extra[0]] <= more.l1


def scores_of(scores: PersonalScores) -> NDArray[np.int64]:
    return open_scores(scores.scores)


Absent = st.lists(st.integers(0, 2), min_size=3, max_size=3)
"""People of each level without a record: if there are many, the cheapest of them do all the work."""


@given(Cells, st.tuples(st.integers(0, 2), st.integers(0, 3)), Absent)
def test_nobody_moves_a_median_score_by_more_than_their_budget(
    cells: list[tuple[int, int]], extra: tuple[int, int], absent: list[int]
) -> None:
    sizes = table_of([*cells, extra], 3, 4).reshape(3, 4).sum(axis=1) + np.array(absent)
    fewer = scores_of(personal_median_scores(seal(table_of(cells, 3, 4), 0), sizes, UNITS))
    more = scores_of(personal_median_scores(seal(table_of([*cells, extra], 3, 4), 0), sizes, UNITS))
    assert int(np.abs(more - fewer).max()) <= UNITS[extra[0]]
    assert fewer.max() == 0


@pytest.mark.parametrize("budgets", [(1, 5, 5), (1, 1, 9), (5, 5, 5)])
def test_a_median_score_is_the_distance_to_the_nearest_data_with_that_median(budgets: tuple[int, int, int]) -> None:
    """All data of three people in two bins, by the cheapest chain of records that come or go."""
    units, levels = np.unique(budgets, return_inverse=True)
    sizes = np.bincount(levels)
    states = list(product((-1, 0, 1), repeat=3))
    steps = np.array(
        [
            [
                sum(b * ((x >= 0) + (y >= 0)) for b, x, y in zip(budgets, one, other, strict=True) if x != y)
                for other in states
            ]
            for one in states
        ]
    )
    assert len(states) > 0
    for one, costs in zip(states, steps, strict=True):
        table = table_of([(int(levels[i]), place) for i, place in enumerate(one) if place >= 0], units.size, 2)
        found = scores_of(personal_median_scores(seal(table, 0), sizes, units))
        for v in (0, 1):
            # Neither bin may outweigh the other where it is to hold the median.
            holds = [other.count(1 - v) <= other.count(v) for other in states]
            assert -found[v] == costs[holds].min()


@given(st.lists(st.integers(0, 2), max_size=10), st.integers(0, 2))
def test_nobody_moves_a_count_score_by_more_than_their_budget(levels: list[int], extra: int) -> None:
    sizes = np.array([11, 11, 11])

    def scores(present: list[int]) -> NDArray[np.int64]:
        table = seal(table_of([(level, 0) for level in present], 3, 1), 0)
        return scores_of(personal_count_scores(table, sizes, UNITS))

    fewer, more = scores(levels), scores([*levels, extra])
    assert fewer.size == more.size == 34
    assert int(np.argmax(fewer)) == len(levels)
    assert int(np.abs(more - fewer).max()) <= UNITS[extra]


@settings(deadline=None)
@given(st.integers(1, 3 << 24), st.integers(1, 3 << 24))
def test_sampling_never_costs_more_than_the_own_budget(budget: int, threshold: int) -> None:
    unit = 1 << 24
    (rate,) = sampling_rates(np.array([budget]), threshold, unit).tolist()
    if budget >= threshold:
        assert rate == 1 << 32
        return
    p, own, level = Fraction(rate, 1 << 32), budget / unit, threshold / unit
    assert math.log1p(float(p) * math.expm1(level)) <= own * (1 + 1e-12)
    assert float(p) == pytest.approx(math.expm1(own) / math.expm1(level), abs=2.0**-31)


def test_a_sample_draws_each_person_with_their_probability() -> None:
    rates = np.array([1 << 30, 1 << 32])
    table = seal(np.array([400_000, 0, 0, 1000]), 0)
    sample = open_counts(sampled_counts(table, rates, seeded(3)))
    # Binomial(400000, 1/4): 6 standard deviations are 1643; two-sided tail below 2e-9.
    assert abs(int(sample[0]) - 100_000) < 1643
    assert sample[1] == 1000


def test_exponential_count_and_median_follow_the_data() -> None:
    roster = Roster.of_budgets([0.5] * 500 + [2.0] * 500)
    levels = np.repeat([0, 1], 500)
    x = count_levels(roster, levels, np.where(np.arange(1000) % 5 == 0, 0, -1), bins=1)
    for seed in range(50):
        found = ExponentialCount().estimate(x, SimulatedMeter(roster, seed))
        # P(|error| > 80) ≤ 2·e^(−80·0.5/2)/(1 − e^(−1/4)) < 2e-8 for each of 50 runs.
        assert abs(int(found.numbers[0]) - 200) <= 80
    with pytest.raises(InvalidInputError, match="a personal exponential count is of one"):
        ExponentialCount().estimate(town(), meter(town(), 1))


def test_the_exponential_count_keeps_each_persons_epsilon() -> None:
    # Exact probabilities of every answer for neighbouring data: their ratio stays within e^ε of the one who differs.
    sizes, units = np.array([2, 2]), np.array([1, 3])

    def law(present: list[int]) -> NDArray[np.float64]:
        scores = scores_of(personal_count_scores(seal(np.array(present), 0), sizes, units))
        weights = np.exp(scores / 2)
        return weights / weights.sum()  # type: ignore[no-any-return]

    for present in ([0, 0], [1, 0], [0, 1], [1, 1]):
        for level in (0, 1):
            other = list(present)
            other[level] += 1
            ratio = np.abs(np.log(law(other)) - np.log(law(present))).max()
            assert ratio <= units[level] + 1e-12


def test_people_and_samples_cannot_be_read() -> None:
    x = town()
    with pytest.raises(SealedAccessError):
        np.asarray(x.table)
    assert "200" not in repr(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stretching(spread=-1),
        lambda: Partitioned(by="luck"),  # type: ignore[arg-type]
        lambda: Partitioned(by="utility", k=3),
        lambda: Partitioned(number=0),
    ],
)
def test_bad_parameters_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInputError, match="nothing was released"):
        make()


def test_a_threshold_above_everybody_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="nobody has so much"):
        Threshold(5).estimate(town(), meter(town(), 1))
