"""Live streams of measured columns: the sums of one machine, the same refusals, and estimates with intervals."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from veilstream.data import Calendar, read_events
from veilstream.data.bounding import bound
from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.jobs.model import Job
from veilstream.jobs.prepare import prepare
from veilstream.live import StreamDefinition, open_stream
from veilstream.live.closing import sealed_step
from veilstream.live.elsewhere import ELSEWHERE
from veilstream.release.estimates import Estimate, estimates_of_all
from veilstream.release.smoothing import Smoothing
from veilstream.server.board import StreamBoard, dumps, page_json
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


@pytest.mark.parametrize("asked", [{"median": "fare"}, {"quantiles": "fare", "at": ["0.2", "0.7"], "cells": 16}])
def test_quantiles_by_choice_are_those_of_a_published_file(tmp_path: Path, asked: dict[str, Any]) -> None:
    given = definition(**{"mean": None, "sum": None, "quantiles": None, "cells": None, **asked}, quantiles_by="choice")
    shared = {name: value for name, value in given.items() if name in Job.model_fields and value is not None}
    of_file = prepare(Job.build({**shared, "end": STEPS}))
    with open_stream(tmp_path / "b.db", "s", given) as stream:
        assert stream.definition.make_mechanism() == of_file.mechanism
        assert stream.definition.measures == of_file.measures
        stream.add(trips())
        stream.close_until(STEPS)
        for _, found in stream.estimates():
            for one in found:
                assert ((one.low == 0) & (one.high == 100)).all()
                assert ((one.value >= 0) & (one.value <= 100)).all()
            assert all((one.value <= other.value).all() for one, other in pairwise(found))
        board = StreamBoard(stream.definition, stream.ledger, 0)
        board.advance(0)
        page = json.loads(dumps(page_json(board, list(board.read(0, STEPS)), STEPS)))
        assert (np.array(page["low"]) == 0).all()
        assert len(page["values"]) == STEPS
        # Edges that were chosen in each of two places say nothing of both together.
        assert all(np.isnan(total) for _, total, _ in board.totals())
    with open_stream(tmp_path / "b.db", "s", given) as again:
        assert again.definition.quantiles_by == "choice"


def values(steps: Iterable[list[Estimate]]) -> NDArray[np.float64]:
    """Steps × statistics × bins."""
    return np.array([[one.value for one in found] for found in steps])


def test_smoothed_quantiles_are_those_of_a_published_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same from Python, from a server that keeps all steps, and from one that reads them anew."""
    with open_stream(tmp_path / "b.db", "s", definition()) as stream:
        stream.add(trips())
        stream.close_until(STEPS + 1)
        measures, releases = stream.definition.measures, list(stream.releases())
        assert measures is not None
        wanted = values(estimates_of_all(releases, measures, 0.95, Smoothing()))
        np.testing.assert_allclose(values(found for _, found in stream.estimates()), wanted, rtol=1e-6)
        np.testing.assert_allclose(
            values(found for _, found in stream.estimates(releases[-2].seq)), wanted[-1:], rtol=1e-6
        )
        kept = StreamBoard(stream.definition, stream.ledger, 0)
        monkeypatch.setattr("veilstream.server.board.CACHE_BYTES", 1)
        monkeypatch.setattr("veilstream.server.board.READ_AT_ONCE", 2)
        forgetful = StreamBoard(stream.definition, stream.ledger, 0)
        for board in (kept, forgetful):
            board.advance(0)
            for first in range(STEPS + 1):
                read = [one.values.reshape(wanted.shape[1:]) for one in board.read(first, STEPS)]
                np.testing.assert_allclose(read, wanted[first:], rtol=1e-6)
    with open_stream(tmp_path / "b.db", "s", definition(smooth=False)) as plain:
        assert not plain.definition.smooths


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"quantiles_by": "choice"}, "quantiles_by"),
        ({"quantiles_by": "guess"}, "quantiles_by"),
        ({"mean": None, "sum": None, "quantiles_by": "choice", "mechanism": "sample"}, "quantiles_by"),
        ({"mean": None, "sum": None, "quantiles_by": "choice", "smooth": True}, "smooth"),
        ({"quantiles": None, "cells": None, "smooth": True}, "smooth"),
    ],
)
def test_quantiles_that_cannot_be_are_refused_by_name(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInputError) as told:
        StreamDefinition.from_json({"name": "s", **definition(**changes)})
    assert told.value.name == name


def test_every_setting_of_a_published_file_is_one_of_a_live_stream_or_is_refused_with_a_reason() -> None:
    own = {item.name for item in fields(StreamDefinition)}
    assert set(Job.model_fields) - own == set(ELSEWHERE)
    for name, reason in ELSEWHERE.items():
        with pytest.raises(InvalidInputError) as told:
            StreamDefinition.from_json({"name": "s", **definition(), name: 1})
        assert (told.value.name, told.value.value) == ("stream setting", name)
        assert reason in str(told.value)
