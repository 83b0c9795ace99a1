"""Trials of an estimate that are made together are as good as trials made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.audit.estimates import estimates
from veilstream.audit.metric_entries import LINE, Moved
from veilstream.audit.personal_entries import SampledBins
from veilstream.audit.pool import PooledNoise
from veilstream.metric import ChosenMedian, HatGrid, SmoothMedian, SortedPoints
from veilstream.metric.median import rank_of
from veilstream.personalised import Sampling
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.batch import ForkingMeter
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.trusted.opening import open_scores
from veilstream.trusted.statistics.metric import order_scores

FIVE_SIGMA = 5.0
"""A normal number is beyond it with probability 6e-7."""


@pytest.mark.parametrize("trials", [1, 70, 40_000])
def test_choices_have_the_law_of_the_exponential_mechanism(trials: int) -> None:
    """One row a trial, whatever their number; frequencies of every place within five standard deviations."""
    rows = Moved(ChosenMedian(bits=3), LINE, (0.2, 0.5, 0.8))(True, trials, 4)
    assert rows.shape == (trials, 1)
    sealed = LINE.seal([0.2, 0.6, 0.8])
    exact = open_scores(order_scores(sealed, rank_of("1/2", 3), 3))
    law = np.exp(exact / 2) / np.exp(exact / 2).sum()
    seen = np.bincount(np.rint(rows[:, 0] * 8).astype(np.int64), minlength=9)
    assert (np.abs(seen - trials * law) < FIVE_SIGMA * np.sqrt(trials * law * (1 - law)) + 1).all()


def test_runs_that_part_keep_the_draws_that_they_had() -> None:
    """A number drawn before a decision is what the decision was made on, also when the estimate is made again."""

    def estimate(source: NoiseSource, runs: int) -> NDArray[Any]:
        meter: Meter = ForkingMeter(Accountant(Guarantee(2, w=1), 1), source, 0, batch=(runs,))
        drawn = meter.laplace(seal(np.array([5]), 0), meter.left / 2, "first").numbers
        above = bool(meter.branch(drawn[..., 0] > 5))
        later = meter.laplace(seal(np.array([100 if above else 0]), 0), meter.left, "second").numbers
        return np.concatenate([drawn, later], axis=-1)

    rows = estimates(estimate, 5_000, 3)
    assert rows.shape == (5_000, 2)
    assert np.array_equal(rows[:, 0] > 5, rows[:, 1] > 50)
    assert 0.1 < (rows[:, 0] > 5).mean() < 0.9


@pytest.mark.parametrize(
    "mechanism", [SortedPoints(), SmoothMedian(), HatGrid(cells=2)], ids=lambda m: type(m).__name__
)
def test_points_together_are_those_of_runs_alone(mechanism: Any) -> None:
    """The middle half of many runs together and of runs one by one: the quartiles agree within five deviations."""
    trials, sealed = 4_000, LINE.seal([0.3, 0.5, 0.7])
    together = Moved(mechanism, LINE, (0.3, 0.5, 0.7))(False, trials, 1)
    noise, size = PooledNoise(2), mechanism.size(LINE, 3)
    alone = np.stack(
        [
            mechanism.estimate(sealed, LINE, Meter(Accountant(LINE.guarantee, size), noise, 0)).numbers
            for _ in range(trials // 4)
        ]
    )
    for column in range(size):
        for quartile in (0.25, 0.5, 0.75):
            cut = np.quantile(together[:, column], quartile)
            # An atom at the cut, such as the end of the line, is on one side for both.
            share = (together[:, column] <= cut).mean()
            slack = FIVE_SIGMA * np.sqrt(share * (1 - share) * (4 / trials + 1 / trials)) + 1 / trials
            assert abs((alone[:, column] <= cut).mean() - share) < slack


def test_sampled_bins_are_not_the_same_trial() -> None:
    """Successive bins are uncorrelated, and the person shows in the mean. False alarm below 1e-6."""
    draw = SampledBins(Sampling(), 0)
    present, absent = draw(True, 40_000, 1)[:, 0], draw(False, 40_000, 2)[:, 0]
    noise = present - present.mean()
    assert abs((noise[1:] * noise[:-1]).mean()) < FIVE_SIGMA * noise.var() / np.sqrt(noise.size)
    assert present.mean() - absent.mean() > FIVE_SIGMA * np.sqrt((present.var() + absent.var()) / 40_000)
