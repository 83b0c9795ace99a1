"""P-HP, NoiseFirst and StructureFirst: they find the steps in stepwise data, and average over them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.mechanisms.histograms import PHP, Geometric, NoiseFirst, StructureFirst
from veilstream.mechanisms.histograms.segments import segment
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import seal

from .support import new_meter, release

STEPS = np.repeat([0, 40, 7, 7, 100], [3, 5, 2, 1, 5]).astype(np.int64)


@pytest.mark.parametrize("histogram", [PHP(), NoiseFirst(), StructureFirst(buckets=4)], ids=lambda h: type(h).__name__)
def test_steps_come_back_when_there_is_no_noise(histogram: HistogramMechanism) -> None:
    assert np.allclose(release(histogram, STEPS, "100", NoNoise()).numbers, STEPS)


def test_php_pays_a_share_per_level_and_gives_the_rest_to_the_counts() -> None:
    meter = new_meter("1", 16, NoNoise())
    PHP(depth=2, structure=Fraction(1, 2)).estimate(seal(STEPS, 0), Fraction(1), meter)
    assert [(charge.purpose, charge.epsilon) for charge in meter.charges] == [
        ("bisection", Fraction(1, 4)),
        ("bisection", Fraction(1, 4)),
        ("publish", Fraction(1, 2)),
    ]


def test_php_that_stops_early_does_not_waste_its_budget() -> None:
    meter = new_meter("1", 16, NoNoise())
    PHP(depth=4).estimate(seal(np.full(16, 9), 0), Fraction(1), meter)
    assert [(charge.purpose, charge.epsilon) for charge in meter.charges] == [
        ("bisection", Fraction(1, 16)),
        ("publish", Fraction(15, 16)),
    ]


def test_php_by_hand() -> None:
    noise = NoNoise()
    counts = np.array([8, 8, 8, 0, 0, 0, 0, 0])
    values = release(PHP(depth=1, structure=Fraction(1, 2)), counts, "4", noise)
    # Whole: Σ|v − 3| = 30 and one noise. Cut before bin 3: 0 and two noises of mean size 1/2.
    assert values.numbers.tolist() == [8.0] * 3 + [0.0] * 5
    assert noise.scales == [Fraction(1, 2)]
    assert np.asarray(values.std)[0] == pytest.approx(np.asarray(values.std)[-1] * 5 / 3)
    # A score moves by less than 2, rounded up by one unit of 2⁻⁸.
    assert noise.rates == [Fraction(2) / (2 * (2 * 256 + 1))]


def test_structure_first_by_hand() -> None:
    noise = NoNoise()
    values = release(StructureFirst(buckets=2), np.array([6, 6, 0, 0, 3]), "2", noise)
    # Σ|v − median| is 0 + 3 for the cut before bin 2, more elsewhere; buckets of 12/2 and 3/3.
    assert values.numbers.tolist() == [6.0, 6.0, 1.0, 1.0, 1.0]
    assert noise.rates == [Fraction(1, 2)]
    assert noise.scales == [Fraction(1)]


def test_noise_first_by_hand() -> None:
    values = release(NoiseFirst(price=1.0), np.array([10, 11, 10, 0, 1]), "1", NoNoise())
    assert values.numbers == pytest.approx([31 / 3] * 3 + [0.5] * 2)
    assert np.asarray(values.std)[0] < np.asarray(values.std)[-1]


def test_noise_first_keeps_the_total_of_the_noisy_bins() -> None:
    counts = np.repeat([0, 50, 3], 30).astype(np.int64)
    plain = release(Geometric(), counts, "1/5", 7).numbers
    assert release(NoiseFirst(), counts, "1/5", 7).numbers.sum() == pytest.approx(plain.sum())


@pytest.mark.parametrize("histogram", [PHP(), NoiseFirst(), StructureFirst()], ids=lambda h: type(h).__name__)
def test_stepwise_data_are_published_with_less_error_than_plain_noise(histogram: HistogramMechanism) -> None:
    steps = np.repeat([0, 9000, 0, 3000], 250).astype(np.int64)

    def error(method: HistogramMechanism) -> float:
        return float(np.mean([np.abs(release(method, steps, "1/20", s).numbers - steps).mean() for s in range(8)]))

    assert error(histogram) < error(Geometric()) / 2


def brute_force(values: list[float], price: float) -> float:
    """The least cost over all partitions."""
    best = float("inf")
    for cuts in itertools.product([False, True], repeat=len(values) - 1):
        starts = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(values)]
        parts = [np.array(values[a:b]) for a, b in itertools.pairwise(starts)]
        best = min(best, sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + price * len(parts))
    return best


def cost(values: np.ndarray, starts: np.ndarray, price: float) -> float:
    parts = np.split(values, starts[1:])
    return sum(float(((part - part.mean()) ** 2).sum()) for part in parts) + price * len(parts)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(-20, 20), min_size=1, max_size=9), price=st.integers(0, 200))
def test_segments_are_optimal(values: list[int], price: int) -> None:
    array = np.array(values, dtype=np.float64)
    assert cost(array, segment(array, float(price)), price) == pytest.approx(brute_force(list(array), price))


def test_long_vectors_are_segmented_nearly_as_well() -> None:
    levels = np.repeat([0.0, 300.0, 20.0, 20.0, 500.0, 0.0], [700, 900, 100, 400, 13, 3000])
    starts = segment(levels, 50.0)
    assert starts.tolist() == [0, 700, 1600, 2100, 2113]
