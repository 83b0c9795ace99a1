"""Streams shaped like those of the paper on retroactive grouping."""

from __future__ import annotations

import numpy as np
import pytest

from research.workloads import StationVisits, WebRequests, as_array
from veilstream.errors import InvalidInputError


def test_requests_keep_the_totals_of_the_series_they_are_cut_from() -> None:
    series = np.arange(1000)[:, None]
    cut = WebRequests.cut(series, 7, urls=50)
    counts = as_array(cut, seed=3)
    assert (cut.steps, counts.shape) == (7, (7, 50))
    assert counts.sum(axis=1).tolist() == cut.totals.tolist()
    assert counts.sum() == series.sum()
    assert np.array_equal(counts, as_array(cut, seed=3))
    shares = counts.sum(axis=0) / counts.sum()
    assert shares[0] / shares[9] == pytest.approx(10, rel=0.05)


def test_stations_are_busy_at_rush_hours_of_working_days() -> None:
    week = as_array(StationVisits(steps=168), seed=1).sum(axis=1).reshape(7, 24)
    assert week.sum() == 8_107_643
    working, weekend = week[:5].mean(axis=0), week[5:].mean(axis=0)
    assert min(working[8], working[17]) > 3 * max(working[3], working[12])
    assert weekend[8] < working[8] / 3


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"units 11 .* 1 to 10 .*nothing was released"):
        WebRequests.cut(np.ones(10, dtype=np.int64), 11)
    with pytest.raises(InvalidInputError, match="stations 0"):
        StationVisits(stations=0)
