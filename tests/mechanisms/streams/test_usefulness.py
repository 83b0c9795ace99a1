"""Bounds and forecasts hold in simulation, and the paper's forms that were corrected do not."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import EFPA, Gaussian, Haar
from veilstream.mechanisms.streams import DSAT, DSFT, STREAMS, FixedRate, Sample, Uniform
from veilstream.mechanisms.streams.usefulness import (
    ForecastsError,
    chernoff,
    forecast,
    suggested_releases,
    sum_bound,
)
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.values.values import NoiseLaw, Values, half_width

from .adaptive import walk

SIGMA = 0.05


def at_most(hits: Any, probability: float) -> bool:
    """Whether ``hits`` agree with a probability of at most this: six standard errors, false alarm below 1e-8."""
    hits = np.asarray(hits)
    return bool(hits.mean() <= probability + 6 * math.sqrt(probability / hits.size))


@pytest.mark.parametrize(
    "mechanism",
    [Uniform(), Sample(), FixedRate(interval=4), FixedRate(interval=5, histogram=Gaussian())],
    ids=str,
)
@pytest.mark.parametrize("l1", [1, 3])
def test_expected_errors_and_bounds_hold_in_simulation(mechanism: Any, l1: int) -> None:
    guarantee = Guarantee("1/2", w=10, delta="1e-5") if "Gauss" in str(mechanism) else Guarantee("1/2", w=10)
    y = vs.simulate_many(mechanism, guarantee, np.full((1, 50), 1000), seed=2, runs=2000, max_contribution=l1)
    noise = np.asarray(y)[:, 0] - 1000
    expected = mechanism.expected_error(guarantee, 50, l1)
    assert np.abs(noise).mean() == pytest.approx(expected, abs=6 * 1.5 * expected / math.sqrt(noise.size))
    for query_bins in (1, 10, 50):
        bound = mechanism.usefulness(guarantee, 50, SIGMA, query_bins, l1).at_release
        assert at_most(np.abs(noise[:, :query_bins].sum(axis=1)) > bound, SIGMA)


@pytest.mark.parametrize("kind", [DSFT, DSAT])
def test_releases_by_distance_err_as_expected(kind: Any) -> None:
    mechanism, guarantee = kind(releases=4), Guarantee(1, w=20)
    noise = np.asarray(vs.simulate(mechanism, guarantee, np.full((1, 20_000), 100), seed=2))[0] - 100
    expected = mechanism.expected_error(guarantee, 20_000)
    assert np.abs(noise).mean() == pytest.approx(expected, abs=6 * 1.5 * expected / math.sqrt(noise.size))


def test_the_printed_bound_for_sums_fails_where_many_bins_are_added() -> None:
    """Theorem 5.1 as printed, 2√2·b·ln(2/σ), against sums of 500 noises; ours holds."""
    scale = 7
    sums = ExactSampler(SeededSource(4)).laplace(Fraction(scale), (4000, 500)).sum(axis=1)
    printed = 2 * math.sqrt(2) * scale * math.log(2 / SIGMA)
    assert (np.abs(sums) > printed).mean() > 3 * SIGMA
    ours = sum_bound(Values(np.zeros(1, dtype=np.int64), scale * math.sqrt(2), NoiseLaw.LAPLACE), 500, SIGMA)
    assert at_most(np.abs(sums) > ours, SIGMA)
    assert ours == pytest.approx(np.quantile(np.abs(sums), 1 - SIGMA), rel=0.06)


@pytest.mark.parametrize(("mechanism", "bins"), [(Uniform(), 6), (Sample(), 2), (FixedRate(interval=6), 40)], ids=str)
def test_the_forecast_of_a_sum_is_what_simulations_show(mechanism: Any, bins: int) -> None:
    """40,000 sums: the share beyond the forecast is σ within six standard errors (false alarm below 1e-8) and the
    probability of one more count, since noise is whole."""
    guarantee = Guarantee(1, w=24)
    y = vs.simulate_many(mechanism, guarantee, np.zeros((1, bins), dtype=np.int64), seed=3, runs=40_000)
    sums = np.abs(np.asarray(y)[:, 0].sum(axis=1))
    told = forecast(mechanism, guarantee, bins, steps=24).useful[-1].at_release
    error = 6 * math.sqrt(SIGMA / sums.size)
    assert (sums > told).mean() <= SIGMA + error
    assert (sums > told - 1).mean() >= SIGMA - error


def test_bounds_are_called_bounds() -> None:
    smoothing = " ".join(forecast(Uniform(histogram=EFPA()), Guarantee(1, w=4), 16).lines)
    assert "a sum of 16 bins: a bound" in smoothing
    assert "bound" not in " ".join(forecast(Uniform(), Guarantee(1, w=4), 16).lines)
    assert "a bound" in " ".join(forecast(DSAT(), Guarantee(1, w=4), 16).lines)


@pytest.mark.parametrize("query_bins", [1, 9])
def test_sums_of_smoothed_values_are_bounded_bin_by_bin(query_bins: int) -> None:
    values = Values(np.zeros(9), np.full(9, 14.0), NoiseLaw.SMOOTHED)
    single = float(half_width(1 - 0.05 / query_bins, 14.0, NoiseLaw.SMOOTHED, integer=False))
    assert sum_bound(values, query_bins, 0.05) == pytest.approx(query_bins * single)
    assert not forecast(Sample(Haar()), Guarantee(1, w=1), bins=9).quantiles


def test_the_printed_lemma_on_decisions_fails_for_many_releases() -> None:
    """Lemma 5.2 as printed, 4√2·(1 − ln σ)/ε₁, against noises of its own scale 2C/ε₁ with C = 50."""
    sampler = ExactSampler(SeededSource(4))
    difference = sampler.laplace(Fraction(100), 20_000) - sampler.laplace(Fraction(100), 20_000)
    assert (difference > 4 * math.sqrt(2) * (1 - math.log(SIGMA))).mean() > 5 * SIGMA
    assert at_most(difference > chernoff([(100, 1), (100, 1)], math.log(1 / SIGMA)), SIGMA)


@pytest.mark.parametrize(("w", "releases"), [(30, 3), (30, 9)], ids=str)
def test_after_a_negative_answer_no_range_errs_by_more_than_the_bound(w: int, releases: int) -> None:
    """A walk that spends much time near the threshold; any range errs by at most the distance checked here."""
    guarantee, bins = Guarantee(1, w=w), 40
    mechanism = DSFT(releases=releases, margin=1.0)
    bound = mechanism.usefulness(guarantee, bins, SIGMA).between
    assert bound is not None
    rng = np.random.default_rng(6)  # noqa: TID251 (data)
    misses: list[bool] = []
    for seed in range(12):
        stream = np.cumsum(rng.integers(0, 12, (100, bins)), axis=0)
        run = walk(mechanism, guarantee, stream, seed=seed)
        for t, values in enumerate(run.values):
            compared = any(charge.purpose == "decide" and charge.epsilon for charge in run.charges[t])
            if compared:
                misses.append(not values.fresh and bool(np.abs(stream[t] - values.numbers).sum() > bound))
    assert len(misses) > 200
    assert at_most(misses, SIGMA)


@pytest.mark.parametrize("releases", [2, 8])
def test_below_the_smallest_population_a_complete_change_goes_unnoticed(releases: int) -> None:
    guarantee = Guarantee("1/2", w=40)
    mechanism = DSFT(releases=releases)
    people = mechanism.smallest_population(guarantee, 2, SIGMA)
    noticed = {}
    for factor in (0.1, 2.0):
        stream = np.zeros((2, 2), dtype=np.int64)
        stream[[0, 1], [0, 1]] = int(people * factor)
        runs = [walk(mechanism, guarantee, stream, seed=seed).values[1].fresh for seed in range(150)]
        noticed[factor] = np.mean(runs)
    assert noticed[0.1] < 0.15
    assert noticed[2.0] > 0.85


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("guarantee", [Guarantee(1, w=6), Guarantee(1, w=1)], ids=str)
def test_every_stream_of_the_catalogue_can_be_forecast(name: str, guarantee: Guarantee) -> None:
    try:
        STREAMS[name]().start(guarantee, 16)
    except InvalidInputError as error:
        pytest.skip(f"{name} does not take this guarantee: {error}")
    told = forecast(STREAMS[name](), guarantee, 16, steps=18)
    assert 1 <= told.releases <= 18
    assert 0 < told.mean_error < math.inf
    assert all(line == line.strip() for line in told.lines)
    assert len(told.lines) >= 3


def test_forecasts_speak_of_the_guarantee_and_not_of_data() -> None:
    small = forecast(DSAT(), Guarantee("1/10", w=40), 1000)
    large = forecast(DSAT(), Guarantee(1, w=40), 1000)
    assert small.mean_error > 9 * large.mean_error
    assert small.smallest_population is not None
    assert large.smallest_population is not None
    assert small.smallest_population > 9 * large.smallest_population
    assert isinstance(DSAT(), ForecastsError)
    assert "people" in small.lines[-1]
    assert forecast(Uniform(), Guarantee(1, w=4), 10**6).steps == 4


@pytest.mark.parametrize(("population", "expected"), [(0, 1), (1000, 4), (10**9, 50)])
def test_suggested_releases_stay_within_their_limits(population: int, expected: int) -> None:
    assert suggested_releases(Guarantee(1, w=50), 100, population, 50) == expected


@pytest.mark.parametrize(("sigma", "query_bins"), [(0, 1), (1, 1), (float("nan"), 1), (0.1, 0)])
def test_absurd_questions_are_refused(sigma: float, query_bins: int) -> None:
    with pytest.raises(InvalidInputError):
        Uniform().usefulness(Guarantee(1, w=4), 5, sigma, query_bins)
