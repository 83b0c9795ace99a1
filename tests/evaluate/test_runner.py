"""Measurements run once, are kept, and come back as one tidy table."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import veilstream as vs
from research.grid import stream_measurements
from research.workloads import Zipf
from veilstream.errors import InvalidInputError, UnreadableFileError, WorkerError
from veilstream.evaluate.metrics import mean_absolute_error
from veilstream.evaluate.runner import Measurement, _code_of, run_measurements  # pyright: ignore[reportPrivateUsage]


def noted(path: str, number: int) -> dict[str, float]:
    """Leaves a line for every call."""
    with Path(path).open("a", encoding="utf-8") as log:
        log.write(f"{number}\n")
    if number == 13:
        raise InvalidInputError(name="number", value=13, limit="not liked")
    return {"double": 2.0 * number, "half": number / 2}


def measurements_of(path: Path, numbers: range) -> list[Measurement]:
    return [Measurement({"number": n}, noted, (str(path / "calls"), n)) for n in numbers]


@pytest.mark.parametrize("workers", [1, 2])
def test_one_row_for_each_measurement_and_metric(tmp_path: Path, workers: int) -> None:
    seen: list[tuple[int, int]] = []
    measurements = [Measurement({"number": n}, dict, ([("double", 2 * n), ("half", n / 2)],)) for n in range(4)]
    table = run_measurements(
        measurements, tmp_path, workers=workers, progress=lambda done, total: seen.append((done, total))
    )
    assert table.select("number", "metric", "value").rows() == [
        (n, metric, value) for n in range(4) for metric, value in (("double", 2.0 * n), ("half", n / 2))
    ]
    assert seen == [(done, 4) for done in range(5)]
    assert pl.read_parquet(tmp_path / "results.parquet").equals(table)


def test_a_killed_worker_is_reported_and_finished_measurements_stay(tmp_path: Path) -> None:
    measurements = [Measurement({"n": 1}, dict, ([("a", 1)],)), Measurement({"n": 2}, os.abort, ())]
    run_measurements(measurements[:1], tmp_path, workers=2)
    with pytest.raises(WorkerError):
        run_measurements([*measurements, Measurement({"n": 3}, dict, ([("a", 3)],))], tmp_path, workers=2)
    assert run_measurements(measurements[:1], tmp_path)["value"].to_list() == [1.0]


def test_a_failed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        run_measurements(measurements_of(tmp_path, range(11, 16)), tmp_path / "out", workers=1)
    assert (refused.value.name, refused.value.value) == ("number", 13)
    run_measurements(
        [measurement for measurement in measurements_of(tmp_path, range(11, 16)) if measurement.labels["number"] != 13],
        tmp_path / "out",
        workers=1,
    )
    assert (tmp_path / "calls").read_text().split() == ["11", "12", "13", "14", "15"]


def test_a_torn_line_is_measured_again(tmp_path: Path) -> None:
    measurements = measurements_of(tmp_path, range(3))
    full = run_measurements(measurements, tmp_path / "out", workers=1)
    record = tmp_path / "out" / "finished.ndjson"
    record.write_bytes(record.read_bytes()[:-20])
    repeated = run_measurements(measurements, tmp_path / "out", workers=1)
    assert repeated.drop("seconds").equals(full.drop("seconds"))
    assert (tmp_path / "calls").read_text().split() == ["0", "1", "2", "2"]
    assert len([json.loads(line) for line in record.read_text().splitlines() if line.endswith("}")]) == 3


def test_changed_arguments_are_another_measurement(tmp_path: Path) -> None:
    run_measurements([Measurement({"n": 1}, dict, ([("a", 1)],))], tmp_path, workers=1)
    assert run_measurements([Measurement({"n": 1}, dict, ([("a", 2)],))], tmp_path, workers=1)["value"].to_list() == [
        2.0
    ]


def test_what_other_code_has_measured_is_measured_again(tmp_path: Path) -> None:
    measurements = measurements_of(tmp_path, range(2))
    run_measurements(measurements, tmp_path / "out", workers=1)
    record = tmp_path / "out" / "finished.ndjson"
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    other = [
        {**rows[0], "code": "other", "measures": {"double": 99.0}},
        {k: rows[1][k] for k in rows[1] if k != "code"},
    ]
    record.write_text("".join(json.dumps(row) + "\n" for row in other))
    assert run_measurements(measurements, tmp_path / "out", workers=1, any_code=True)["value"].to_list() == [
        99.0,
        2.0,
        0.5,
    ]
    assert run_measurements(measurements, tmp_path / "out", workers=1)["value"].to_list() == [0.0, 0.0, 2.0, 0.5]
    run_measurements(measurements, tmp_path / "out", workers=1)
    assert (tmp_path / "calls").read_text().split() == ["0", "1", "0", "1"]


def test_bad_measurements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as refused:
        run_measurements([Measurement({}, dict, ()), Measurement({}, dict, ())], tmp_path)
    assert (refused.value.name, refused.value.value) == ("different measurements", 1)
    with pytest.raises(InvalidInputError) as refused:
        Measurement({"value": 1}, dict, ())
    assert (refused.value.name, refused.value.value) == ("label", "value")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnreadableFileError) as unreadable:
        run_measurements([Measurement({}, dict, ())], tmp_path / "file")
    assert unreadable.value.name == "record"
    assert unreadable.value.outcome == "finished measurements are kept"


def test_the_code_of_a_measurement_covers_what_its_module_imports(tmp_path: Path, monkeypatch: Any) -> None:
    """A change in a module beside the call's own is another version of the code; one that it does not use is not."""
    package = tmp_path / "trials_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("FACTOR = 2\n")
    (package / "other.py").write_text("UNUSED = 1\n")
    (package / "trial.py").write_text("from trials_of_a_test.helper import FACTOR\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import_module("trials_of_a_test.trial")

    def code() -> str:
        _code_of.cache_clear()
        return _code_of("trials_of_a_test.trial")

    first = code()
    (package / "other.py").write_text("UNUSED = 2\n")
    assert code() == first
    (package / "helper.py").write_text("FACTOR = 3\n")
    assert code() != first


def test_a_grid_runs_every_combination(tmp_path: Path) -> None:
    measurements = stream_measurements(
        {name: vs.STREAMS[name]() for name in ("uniform", "sample")},
        [vs.Guarantee(1, w=4), vs.Guarantee("1/2", w=4)],
        {"zipf": Zipf(steps=8)},
        range(2),
        {"mae": mean_absolute_error},
    )
    table = run_measurements(measurements, tmp_path, workers=1)
    assert table.height == 2 * 2 * 2 * 2
    shares = (
        table.filter(pl.col("metric") == "fresh").group_by("mechanism").agg(pl.col("value").mean()).sort("mechanism")
    )
    assert shares.rows() == [("sample", 0.25), ("uniform", 1.0)]
    with pytest.raises(InvalidInputError):
        stream_measurements({}, [], {}, [], {})


def test_seeds_share_realisations_of_a_workload_in_turn() -> None:
    measurements = stream_measurements(
        {"uniform": vs.STREAMS["uniform"]()},
        [vs.Guarantee(1, w=4)],
        {"zipf": Zipf(steps=2)},
        range(5),
        {"mae": mean_absolute_error},
        realisations=2,
    )
    assert [measurement.labels["seed"] for measurement in measurements] == [0, 2, 4, 1, 3]
    assert [measurement.arguments[3:5] for measurement in measurements] == [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3)]
