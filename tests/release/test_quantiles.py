"""Quantiles are in order, near the truth, and their intervals hold it as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.release.estimates import estimates
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values
from veilstream.values.weighted import width_of_many

BINS = 4_000
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
SPREAD = 6 * math.sqrt(0.95 * 0.05 / BINS)
"""Six standard deviations of a coverage of 95 %: passed by chance with a probability below 1e-8."""


def asked(cells: int) -> ValueMeasures:
    options = QuantileOptions(tuple(Fraction(str(share)) for share in SHARES), cells)
    return ValueMeasures.of({"count": {"minutes": (0, 100)}, "quantiles": {"minutes": (0, 100)}}, options)


def released(values: NDArray[np.float64], measures: ValueMeasures, law: NoiseLaw, std: float) -> Release:
    """The same rows in every one of ``BINS`` bins, with independent noise."""
    (column,) = measures.columns
    places = np.clip((values / 100 * column.cells).astype(np.int32), 0, column.cells - 1)  # type: ignore[union-attr]
    truth = column.sums(np.zeros(len(values), dtype=np.int64), places, 1)[0] / 2**16
    rng = np.random.default_rng(len(values))  # noqa: TID251 (data and a picture of noise)
    shape = (BINS, column.parts)
    noise = rng.laplace(scale=std / math.sqrt(2), size=shape) if law is NoiseLaw.LAPLACE else rng.normal(0, std, shape)
    return Release("waits", 1, 0, Values((truth + noise).reshape(-1), std, law), Fraction(1), Fraction(0))


def minutes(rows: int) -> NDArray[np.float64]:
    return np.clip(np.random.default_rng(rows).gamma(4, 5, rows), 0, 100)  # noqa: TID251 (data)


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
@pytest.mark.parametrize(("rows", "cells"), [(150, 32), (2_000, 64)])
def test_quantiles_are_in_order_and_covered(law: NoiseLaw, rows: int, cells: int) -> None:
    values = minutes(rows)
    count, *quantiles = estimates(released(values, asked(cells), law, 2.0), asked(cells))
    covered = float(((count.low <= rows) & (rows <= count.high)).mean())
    assert abs(covered - 0.95) < SPREAD + 0.001
    found = np.stack([each.value for each in quantiles])
    assert (np.diff(found, axis=0) >= 0).all()
    for each, share in zip(quantiles, SHARES, strict=True):
        truth = float(np.quantile(values, share, method="inverted_cdf"))
        held = float(((each.low <= truth) & (truth <= each.high)).mean())
        # Ends at the edges of cells make intervals wider than the level asks, never narrower.
        assert held > 0.95 - SPREAD, (share, held)
        assert ((each.low <= each.value) & (each.value <= each.high)).all()


def test_without_noise_quantiles_are_those_of_the_rows_up_to_a_cell() -> None:
    values = minutes(5_000)
    for estimate, share in zip(
        estimates(released(values, asked(64), NoiseLaw.GAUSSIAN, 1e-6), asked(64))[1:], SHARES, strict=True
    ):
        truth = np.quantile(values, share)
        assert np.abs(estimate.value - truth).max() < 100 / 64
        assert (estimate.high - estimate.low).max() <= 2 * 100 / 64 + 1e-9


def test_of_a_bin_without_rows_only_the_range_is_known() -> None:
    measures = asked(64)
    nothing = released(np.zeros(0), measures, NoiseLaw.LAPLACE, 2.0)
    median = estimates(nothing, measures)[3]
    unknown = np.isnan(median.value)
    # A number of zero passes the upper end of its own 95 % interval with a probability of 2.5 %.
    assert abs(float((~unknown).mean()) - 0.025) < SPREAD
    assert (median.low[unknown] == 0).all()
    assert (median.high[unknown] == 100).all()


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_width_of_a_sum_of_many_laplace_noises_is_its_quantile(level: float) -> None:
    rng = np.random.default_rng(3)  # noqa: TID251 (a picture of noise)
    weights = np.array([[1.0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [5, 1, 1, 0.5, 0.1]])
    draws = np.abs(rng.laplace(scale=1 / math.sqrt(2), size=(400_000, 5)) @ weights.T)
    missed = (draws > width_of_many(weights, NoiseLaw.LAPLACE, level)).mean(axis=0)
    # Six standard deviations of the share of the draws, and what the series leaves out.
    assert np.abs(missed - (1 - level)).max() < 6 * math.sqrt(level * (1 - level) / 4e5) + 2e-4
