"""Intervals of sums, means and variances hold the truth as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.data.measures import ValueMeasures
from veilstream.release.estimates import estimates
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values
from veilstream.values.weighted import half_width_of_sum

BINS = 20_000
ASKED = ValueMeasures.of({name: {"fare": (-20, 100)} for name in ("count", "sum", "mean", "variance")})
SPREAD = 6 * math.sqrt(0.95 * 0.05 / BINS)
"""Six standard deviations of a coverage of 95 %: passed by chance with a probability below 1e-8."""


def released(truth: NDArray[np.float64], law: NoiseLaw, std: float, seed: int) -> Release:
    rng = np.random.default_rng(seed)  # noqa: TID251 (data and a picture of noise)
    draw = rng.laplace(scale=std / math.sqrt(2), size=truth.shape) if law is NoiseLaw.LAPLACE else None
    noise = rng.normal(scale=std, size=truth.shape) if draw is None else draw
    return Release("fares", 1, 0, Values((truth + noise).reshape(-1), std, law), Fraction(1), Fraction(0))


def parts(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """The parts of a bin with these rows, in every one of ``BINS`` bins."""
    one = np.array([((1 - places) ** 2).sum(), (2 * places * (1 - places)).sum(), (places**2).sum()])
    return np.broadcast_to(one, (BINS, 3))


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
@pytest.mark.parametrize("rows", [60, 2_000])
def test_intervals_cover_at_their_level(law: NoiseLaw, rows: int) -> None:
    places = np.random.default_rng(rows).beta(2, 5, size=rows)  # noqa: TID251 (data and a picture of noise)
    fares = -20 + 120 * places
    truth = {"count": rows, "sum": fares.sum(), "mean": fares.mean(), "variance": fares.var()}
    found = estimates(released(parts(places), law, 4.0, seed=rows), ASKED)
    assert [e.label for e in found] == [f"{name} fare" for name in truth]
    for estimate, value in zip(found, truth.values(), strict=True):
        covered = float(((estimate.low <= value) & (value <= estimate.high)).mean())
        # What is linear, and a mean, are exact; a variance is so up to the second order.
        slack = 0.02 if estimate.label.startswith("variance") else SPREAD
        assert abs(covered - 0.95) < slack, (estimate.label, covered)


def test_of_a_bin_without_rows_only_the_range_is_known() -> None:
    found = estimates(released(np.zeros((BINS, 3)), NoiseLaw.LAPLACE, 4.0, seed=3), ASKED)
    mean = found[2]
    unknown = np.isnan(mean.value)
    # A count of zero passes the upper end of its own 95 % interval with a probability of 2.5 %.
    assert abs(float((~unknown).mean()) - 0.025) < SPREAD
    assert (mean.low[unknown] == -20).all()
    assert (mean.high[unknown] == 100).all()


def test_values_and_intervals_stay_within_what_is_possible() -> None:
    found = estimates(released(parts(np.full(40, 0.999)), NoiseLaw.LAPLACE, 6.0, seed=5), ASKED)
    for estimate, largest in ((found[2], 100.0), (found[3], 3600.0)):
        assert np.nanmax(estimate.value) <= largest
        assert estimate.high.max() <= largest + 1e-9
        assert (estimate.low <= estimate.high).all()


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 1.0), (1.0, 0.3), (1.0, 0.5, 0.5), (2.0, 0.01, 1.9)])
def test_the_width_of_a_sum_of_laplace_noises_is_its_quantile(scales: tuple[float, ...]) -> None:
    draws = np.random.default_rng(7).laplace(size=(1_000_000, len(scales))) @ np.array(scales)  # noqa: TID251 (data and a picture of noise)
    width = half_width_of_sum(np.array(scales), np.full(len(scales), math.sqrt(2)), NoiseLaw.LAPLACE, 0.95)
    # Six standard deviations of the share of a million draws.
    assert abs(float((np.abs(draws) <= width).mean()) - 0.95) < 6 * math.sqrt(0.95 * 0.05 / 1e6) + 2e-4
