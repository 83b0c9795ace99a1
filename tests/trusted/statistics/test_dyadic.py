"""Costs of blocks and the partition chosen by them: what one count moves, and what the choice tells of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.meter.choosing import PARTITION_GRID
from veilstream.trusted.opening import opened
from veilstream.trusted.statistics.dyadic import cheapest_partition, deviation_costs


@given(st.lists(st.integers(0, 50), min_size=1, max_size=24), st.data())
@settings(max_examples=80, deadline=None)
def test_costs_of_a_partition_move_by_no_more_than_the_counts(values: list[int], data: st.DataObject) -> None:
    moved = list(values)
    for place in data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=3)):
        moved[place] += 1
    distance = sum(abs(a - b) for a, b in zip(values, moved, strict=True))
    one, two = (opened(deviation_costs(seal(np.array(each), 0, max_contribution=3))) for each in (values, moved))
    # Blocks of one level are disjoint: a level is a partition, and so is any mixture of levels.
    for a, b in zip(one, two, strict=True):
        assert int(np.abs(a - b).sum()) <= distance
    chosen = cheapest_partition([level + data.draw(st.integers(-9, 9)) for level in one])
    assert chosen[0]


def test_costs_are_the_sums_of_distances_from_the_median() -> None:
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5])
    levels = opened(deviation_costs(seal(values, 0)))
    padded = np.concatenate([values, np.zeros(7, dtype=np.int64)])
    assert len(levels) == 5
    for k, level in enumerate(levels):
        blocks = padded.reshape(-1, 1 << k)
        assert level.tolist() == np.abs(blocks - np.median(blocks, axis=1, keepdims=True)).sum(axis=1).tolist()


@given(st.lists(st.integers(0, 9), min_size=8, max_size=8), st.lists(st.integers(-5, 5), min_size=15, max_size=15))
@settings(max_examples=60, deadline=None)
def test_no_partition_is_cheaper_than_the_one_found(values: list[int], noise: list[int]) -> None:
    exact = opened(deviation_costs(seal(np.array(values), 0)))
    ends = np.cumsum([0, *(level.size for level in exact)])
    noisy = [level + np.array(noise[a:b]) for level, a, b in zip(exact, ends[:-1], ends[1:], strict=True)]

    def least(depth: int, at: int) -> int:
        whole = int(noisy[depth][at])
        return whole if depth == 0 else min(whole, least(depth - 1, 2 * at) + least(depth - 1, 2 * at + 1))

    begins = np.flatnonzero(cheapest_partition(noisy))
    lengths = np.diff(begins, append=8)
    assert all(begin % length == 0 for begin, length in zip(begins, lengths, strict=True))
    found = sum(int(noisy[int(n).bit_length() - 1][b // n]) for b, n in zip(begins, lengths, strict=True))
    assert found == least(3, 0)


@pytest.mark.parametrize("difference", [0, 1, 2, 7])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_a_partition_loses_at_most_epsilon(difference: int, epsilon: Fraction) -> None:
    """Two bins, whole or not: the exact chance of either answer on neighbouring counts, by convolution."""
    unit = 1 << PARTITION_GRID
    rate = float(epsilon) / (2 * unit)
    reach = math.ceil(40 / rate)
    law = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    law /= law.sum()
    # Whole iff cost + price + n0 <= 2·price + n1 + n2: n0 − n1 − n2 ≤ price − cost.
    total = np.convolve(np.convolve(law, law), law)
    below = np.cumsum(total)

    def whole(cost: int, price: int) -> float:
        return float(below[min(max(price - cost * unit + 3 * reach, 0), below.size - 1)])

    for price in (0, 3 * unit):
        for cost, other in ((difference, difference + 1), (difference + 1, difference)):
            p, q = whole(cost, price), whole(other, price)
            for a, b in ((p, q), (1 - p, 1 - q)):
                assert a <= math.exp(float(epsilon)) * b + 1e-9


def test_the_meter_charges_once_and_finds_clear_steps() -> None:
    meter = Meter(Accountant(Guarantee(1, w=1), 16), ExactSampler(SeededSource(1)), 0)
    steps = np.repeat([0, 900, 0, 0], 4)
    begins = meter.partition(deviation_costs(seal(steps, 0)), Fraction(20), Fraction(1), "blocks")
    assert begins[[0, 4, 8]].all()
    assert begins.sum() <= 5
    assert [charge.epsilon for charge in meter.charges] == [1]
