"""Quantiles that lean on earlier releases: nearer the truth, within their intervals, in order, page by page alike."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.data.cells import CellColumn
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.jobs.model import Job
from veilstream.release import smoothing
from veilstream.release.estimates import estimates_of_all, learn
from veilstream.release.smoothing import BLOCK, Smoothing, first_step_needed
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values

ASKED = ValueMeasures.of({"quantiles": {"minutes": (0, 100)}}, QuantileOptions(cells=64))
COLUMN = ASKED.columns[0]
SCALE = 10.0


Reals = NDArray[np.float64]


def releases(rows: int = 100, steps: int = 60) -> tuple[list[Release], Reals]:
    draw = np.random.default_rng(1)  # noqa: TID251
    found: list[Release] = []
    truth: list[Reals] = []
    assert isinstance(COLUMN, CellColumn)
    for t in range(steps):
        minutes = np.minimum(draw.gamma(4, 5, rows), 99.9)
        cells = np.bincount((minutes * 0.64).astype(int), minlength=64)
        parts = COLUMN.strategy() @ cells + draw.laplace(0, SCALE, COLUMN.parts)
        values = Values(parts, SCALE * 2**0.5, NoiseLaw.LAPLACE)
        found.append(Release("trips", t, t, values, Fraction(0), Fraction(0)))
        truth.append(np.quantile(minutes, [0.1, 0.5, 0.9]) if rows else np.full(3, np.nan))
    return found, np.array(truth)


def table(found: list[Release], past: Smoothing | None) -> Reals:
    return np.array(
        [[(e.value[0], e.low[0], e.high[0]) for e in of] for of in estimates_of_all(found, ASKED, smoothing=past)]
    )


def changed(release: Release, **changes: Any) -> Release:
    assert isinstance(release.payload, Values)
    return replace(release, payload=replace(release.payload, **changes))


def test_smoothed_quantiles_are_nearer_inside_their_intervals_and_in_order() -> None:
    found, truth = releases(rows=300)
    single, smoothed = table(found, None), table(found, Smoothing())
    values = smoothed[..., 0]
    later = slice(10, None)
    errors = [np.sqrt(np.nanmean((one[later, :, 0] - truth[later]) ** 2, axis=0)) for one in (smoothed, single)]
    # The seed is fixed.
    assert (errors[0] < 0.6 * errors[1]).all()
    assert (smoothed[..., 1:] == single[..., 1:]).all()
    assert ((smoothed[..., 1] <= values) & (values <= smoothed[..., 2]))[later].all()
    assert (np.diff(values[later], axis=1) >= 0).all()


def test_pages_give_what_one_call_gives() -> None:
    found, _ = releases(steps=12)
    past = Smoothing()
    pages = np.concatenate([table(found[:5], past), table(found[5:], past)])
    np.testing.assert_array_equal(pages, table(found, Smoothing()))


def test_steps_without_rows_have_no_value() -> None:
    empty, _ = releases(rows=0, steps=30)
    assert np.isnan(table(empty, Smoothing())[..., 0]).mean() > 0.9
    many, _ = releases(rows=3000, steps=10)
    after = table([*many, *empty], Smoothing())[..., 0]
    assert not np.isnan(after[:10]).any()
    assert np.isnan(after[10:14]).all()


def test_values_that_jump_are_followed_at_once() -> None:
    draw = np.random.default_rng(2)  # noqa: TID251
    assert isinstance(COLUMN, CellColumn)
    found: list[Release] = []
    for t in range(40):
        cells = np.zeros(64)
        cells[10 if t < 30 else 50] = 5000
        values = Values(COLUMN.strategy() @ cells + draw.laplace(0, 1, COLUMN.parts), 2**0.5, NoiseLaw.LAPLACE)
        found.append(Release("trips", t, t, values, Fraction(0), Fraction(0)))
    smoothed, single = table(found, Smoothing())[..., 0], table(found, None)[..., 0]
    np.testing.assert_allclose(smoothed, single, atol=0.1)


def test_repeated_steps_have_the_values_of_the_step_they_repeat() -> None:
    found, _ = releases(steps=6)
    repeated = [replace(changed(found[3], fresh=False), t=t) for t in (4, 5, 6)]
    with_them = table([*found[:4], *repeated, replace(found[4], t=7)], Smoothing())
    np.testing.assert_array_equal(with_them[4:7], np.repeat(with_them[3:4], 3, axis=0))
    np.testing.assert_array_equal(with_them[7], table(found[:5], Smoothing())[4])


def test_a_value_is_found_from_a_bounded_number_of_releases() -> None:
    found, _ = releases(steps=2 * BLOCK + 40)
    everything = table(found, Smoothing())
    for step in (BLOCK - 1, BLOCK, 2 * BLOCK + 30):
        past = Smoothing()
        for release in found[first_step_needed(step) : step]:
            learn(release, ASKED, past)
        np.testing.assert_array_equal(table(found[step : step + 2], past), everything[step : step + 2])


def test_bins_are_smoothed_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = releases(steps=5)
    wide = [changed(release, numbers=np.tile(np.asarray(release.values), 3)) for release in found]
    monkeypatch.setattr(smoothing, "BINS_AT_ONCE", 2)
    values = [of_step[0].value for of_step in estimates_of_all(wide, ASKED, smoothing=Smoothing())]
    np.testing.assert_allclose(values, np.repeat(table(found, Smoothing())[:, :1, 0], 3, axis=1))


def test_models_and_other_laws_stay_as_they_are() -> None:
    found, _ = releases(steps=5)
    others = [changed(release, law=NoiseLaw.MIXED) for release in found]
    np.testing.assert_array_equal(table(others, Smoothing()), table(others, None))


def test_it_is_for_quantiles_from_cells() -> None:
    common = {"file": "x.csv", "user": "id", "time": "t", "every": "1h", "epsilon": 1, "window": 1, "between": (0, 9)}
    assert Job(**common, median=("fare",), smooth=False).smooth is False  # type: ignore[arg-type]
    for asked in ({"mean": ("fare",)}, {"median": ("fare",), "quantiles_by": "choice"}):
        for given in (True, False):
            with pytest.raises(ValueError, match="smooth: it is for quantiles and medians"):
                Job(**common, **asked, smooth=given)  # type: ignore[arg-type]
