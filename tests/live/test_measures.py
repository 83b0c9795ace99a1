"""Live streams of measured columns: the sums of one machine, the same refusals, and estimates with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.data import Calendar, read_events
from veilstream.data.bounding import bound
from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.live import StreamDefinition, open_stream
from veilstream.live.closing import sealed_step
from veilstream.trusted.opening import opened

STEPS = 3
PLACES = {"place": ["a", "b"]}
MEASURED = {"mean": "fare", "sum": ["tip"], "quantiles": "fare", "between": [0, 100], "cells": 8}


def definition(**changes: Any) -> dict[str, Any]:
    return {
        "user": "id",
        "time": "step",
        "domain": PLACES,
        "start": 0,
        "every": 1,
        "epsilon": 10,
        "window": 1,
        "clock": "manual",
        "counts_per_user": 2,
        "bins_per_user": 2,
        **MEASURED,
        **changes,
    }


def trips(rows: int = 600) -> pl.DataFrame:
    rng = np.random.default_rng(4)  # noqa: TID251 (public example data)
    return pl.DataFrame(
        {
            "id": [f"p{number}" for number in rng.integers(0, 60, rows)],
            "step": rng.integers(0, STEPS, rows),
            "place": rng.choice(["a", "b"], rows),
            "fare": rng.uniform(-5, 120, rows),
            "tip": rng.uniform(0, 10, rows),
        }
    )


@pytest.mark.parametrize("changes", [{}, {"sum": "tip", "mean": None, "quantiles": None, "most_per_user": 20}])
def test_a_live_step_has_the_sums_of_one_machine(tmp_path: Path, changes: dict[str, Any]) -> None:
    table, given = trips(), definition(**changes)
    with open_stream(tmp_path / "b.db", "s", given) as stream:
        for piece in table.iter_slices(70):
            stream.add(piece)
        known = stream.spool.stream("s")
        assert known is not None
        measures, most = known.definition.measures, known.definition.most
        assert measures is not None
        live = [np.asarray(opened(sealed_step(stream.spool, known, step))) for step in range(STEPS)]
        events = read_events(table, user="id", time="step", by=["place", *measures.names])
        with bound(
            events,
            known.definition.bound_domain,
            Calendar(0, STEPS, 1),
            bins_per_user=2,
            counts_per_user=2,
            key=getattr(known.key, "_secret"),  # noqa: B009
            measures=measures,
            most=most,
        ) as held:
            for step, snapshot in enumerate(held.snapshots()):
                assert np.array_equal(live[step], np.asarray(opened(snapshot)))
                assert live[step].any()


def test_estimates_come_with_intervals(tmp_path: Path) -> None:
    table = trips()
    with open_stream(tmp_path / "b.db", "s", definition()) as stream:
        stream.add(table)
        stream.close_until(STEPS + 1)
        found = list(stream.estimates())
        assert [release.t for release, _ in found] == [0, 1, 2, 3]
        labels = [estimate.label for estimate in found[0][1]]
        assert labels == ["sum tip", "mean fare", "quantile 0.1 fare", "median fare", "quantile 0.9 fare"]
        mean = found[1][1][1]
        # Some 60 people with two rows each: noise of the mean below 1, and what was left out moves it by less than 25.
        assert np.abs(mean.value - 55).max() < 40
        assert (mean.low <= mean.value).all()
        # Nobody was there in the last step: no mean, but an interval that says so.
        nothing = found[3][1][1]
        assert np.isnan(nothing.value).all() or (nothing.high - nothing.low > 50).all()


def test_rows_without_a_value_are_bad_rows(tmp_path: Path) -> None:
    rows = {"id": [1, 2, 3], "step": [0, 0, 0], "place": ["a"] * 3, "fare": ["7", "x", None], "tip": ["1", "x", None]}
    with open_stream(tmp_path / "b.db", "s", definition()) as stream:
        stream.add(rows)
        assert (stream.fates.rows, stream.fates.unknown) == (3, 2)
    with (
        open_stream(tmp_path / "c.db", "s", definition(bad_rows="refuse")) as stream,
        pytest.raises(UnknownValueError),
    ):
        stream.add(rows)


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    for changes in (
        {"between": None},
        {"mean": "id"},
        {"most_per_user": 5},
        {"mean": None, "sum": None, "quantiles": None},
        {"quantiles": "fare", "at": [2]},
    ):
        with pytest.raises(InvalidInputError):
            StreamDefinition.from_json({**definition(**changes), "name": "s"})
    measured = StreamDefinition.from_json({**definition(), "name": "s"})
    assert StreamDefinition.from_json(measured.to_json()) == measured
    counts = definition(mean=None, sum=None, quantiles=None, between=None, cells=None)
    with open_stream(tmp_path / "b.db", "other", counts) as stream, pytest.raises(InvalidInputError):
        next(stream.estimates())
