"""Whole series by Fourier coordinates: the bound attacked on neighbours, the noise as calibrated, the inverse exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.series.fourier import FourierSeries, from_coordinates
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_counts
from veilstream.trusted.spectrum import FOURIER_GRID
from veilstream.trusted.statistics.fourier_series import series_coordinates


def sealed_steps(counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], l1: int = 1) -> list[Sealed]:
    return [seal(row, t, l1) for t, row in enumerate(counts)]


def a_meter(guarantee: Guarantee, t: int, seed: int = 1) -> Meter:
    return Meter(Accountant(guarantee, 1), ExactSampler(SeededSource(seed)), t)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_neighbour_moves_the_coordinates_further_than_the_meter_thinks(data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, 30), "steps")
    bins = data.draw(st.integers(1, 3), "bins")
    kept = data.draw(st.integers(1, steps), "kept")
    l1 = data.draw(st.integers(1, 3), "l1")
    w = data.draw(st.sampled_from([None, 1, 4, 100]), "w")
    appearances = data.draw(st.one_of(st.none(), st.integers(1, 40)), "appearances")
    guarantee = Guarantee(1, w=w)
    n = guarantee.steps_at_once(steps)
    counts = np.array(data.draw(st.lists(st.integers(0, 9_000), min_size=steps * bins, max_size=steps * bins)))
    counts = counts.reshape(steps, bins)
    other = counts.copy()
    first = data.draw(st.integers(0, steps - n), "first")
    touched = list(range(first, first + n))[: n if appearances is None else appearances]
    for t in touched:
        other[t, data.draw(st.integers(0, bins - 1))] += data.draw(st.integers(0, l1))
    one, two = (series_coordinates(sealed_steps(c, l1), kept, guarantee, appearances) for c in (counts, other))
    moved = np.abs(open_counts(one) - open_counts(two))
    assert Fraction(int(moved.sum()), 1 << FOURIER_GRID) <= one.l1 * n
    assert Fraction(int((moved.astype(object) ** 2).sum()), 1 << (2 * FOURIER_GRID)) <= (one.l2 * n) ** 2


def test_the_bound_is_the_one_of_the_text_and_nearly_reached() -> None:
    """√(K·T), where T times √K would be the bound of one coordinate at a time; a constant series comes near for K=1."""
    steps = sealed_steps(np.zeros((400, 1), dtype=np.int64))
    bound = float(series_coordinates(steps, 39, Guarantee(1, w=None)).l1 * 400)
    assert bound == pytest.approx((39 * 400) ** 0.5, rel=2e-3)
    few = float(series_coordinates(steps, 39, Guarantee(1, w=None), appearances=25).l1 * 400)
    assert few == pytest.approx((39 * 25) ** 0.5, rel=2e-3)
    ones = series_coordinates(sealed_steps(np.ones((400, 1), dtype=np.int64)), 1, Guarantee(1, w=None))
    assert open_counts(ones)[0] / (1 << FOURIER_GRID) == pytest.approx(20)


def test_noise_is_as_calibrated() -> None:
    """The standard deviation of 100 × 400 values, of which 39 × 100 are independent; 6 standard errors of 2.6 %."""
    steps, g = sealed_steps(np.full((400, 1), 1_000)), Guarantee(1, w=None)
    runs = [FourierSeries().estimate(steps, Fraction(1), a_meter(g, 399, seed)) for seed in range(100)]
    errors = np.stack([run.numbers - 1_000 for run in runs])
    scale = (39 * 400) ** 0.5
    assert float(runs[0].std) == pytest.approx(2**0.5 * scale * (39 / 400) ** 0.5, rel=0.01)
    assert errors.std() == pytest.approx(float(runs[0].std), rel=0.16)


def test_slow_series_come_back_whole() -> None:
    t = np.arange(365)
    slow = np.rint(5_000 + 2_000 * np.sin(2 * np.pi * t / 365) + 500 * np.cos(6 * np.pi * t / 365)).astype(np.int64)
    counts = np.stack([slow, 9_000 - slow], axis=1)
    y = FourierSeries(4).estimate(sealed_steps(counts), Fraction(10_000), a_meter(Guarantee(10_000, w=None), 364))
    assert y.numbers.shape == (365, 2)
    assert np.abs(y.numbers - counts).max() < 5


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 9])
def test_all_coordinates_give_the_series_back(steps: int) -> None:
    counts = np.arange(steps, dtype=np.int64)[:, None] ** 2
    kept = steps if steps % 2 else steps - 1
    spectrum = open_counts(series_coordinates(sealed_steps(counts), kept, Guarantee(1, w=None)))
    back = from_coordinates(spectrum[None] / (1 << FOURIER_GRID), steps)[0]
    # Of an even number of steps one coordinate, the fastest alternation, has no partner and is left out.
    left_out = (-1.0) ** np.arange(steps) * ((-1.0) ** np.arange(steps) @ counts[:, 0]) / steps if steps != kept else 0
    assert back + left_out == pytest.approx(counts[:, 0].astype(float), abs=1e-3)


def test_one_charge_covers_all_steps() -> None:
    meter = a_meter(Guarantee(1, w=None), 29)
    steps = sealed_steps(np.ones((30, 1), dtype=np.int64))
    FourierSeries(3).estimate(steps, Fraction(3, 4), meter)
    assert [(c.epsilon, c.span.first, c.span.last) for c in meter.charges] == [(Fraction(3, 4), 0, 29)]
    with pytest.raises(BudgetExceededError):
        FourierSeries(3).estimate(steps, Fraction(1, 2), meter)


def test_bad_input_is_refused() -> None:
    meter = a_meter(Guarantee(1, w=None), 9)
    steps = sealed_steps(np.ones((10, 1), dtype=np.int64))
    with pytest.raises(InvalidInputError) as refused:
        FourierSeries(6).estimate(steps, Fraction(1), meter)
    assert (refused.value.name, refused.value.value) == ("coefficients", 6)
    with pytest.raises(InvalidInputError, match="without gaps"):
        FourierSeries(1).estimate([*steps[:3], *steps[4:]], Fraction(1), meter)
    for name, value in (("coefficients", 0), ("appearances", -1)):
        with pytest.raises(InvalidInputError) as refused:
            FourierSeries(**{name: value})
        assert (refused.value.name, refused.value.value) == (name, value)
    assert not meter.charges


def test_many_simulated_runs_are_series_of_their_own() -> None:
    """Each of 500 runs has noise of its own: standard error a twentieth of the deviation, false alarm below 1e-9."""
    counts, guarantee = np.arange(15).reshape(5, 3) * 40, Guarantee(2, w=None)
    series = FourierSeries(coefficients=2)
    noise = ExactSampler(SeededSource(1))
    many = series.estimate(
        sealed_steps(counts), Fraction(2), BatchMeter(Accountant(guarantee, 3), noise, 4, batch=(500,))
    )
    one = series.estimate(sealed_steps(counts), Fraction(2), a_meter(guarantee, 4))
    assert many.numbers.shape == (500, *one.numbers.shape)
    assert many.std == one.std
    spread = many.numbers.std(axis=0)
    assert (abs(spread / one.std - 1) < 0.5).all()
    assert (abs(many.numbers.mean(axis=0) - one.numbers) < 7 * one.std).all()
