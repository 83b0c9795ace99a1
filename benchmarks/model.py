"""The model-based release against Uniform and Sample: errors, coverage, stress, ablations, speed.

All streams of ``model_streams``, five runs, 24 settings: about twenty minutes of one core. Finished runs are recorded
outside of version control, so that an interrupted suite goes on where it was as long as the code is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from benchmarks import model_figure, model_tables
from benchmarks.model_speed import speed
from benchmarks.model_streams import TUNED, UNTOUCHED, stress
from benchmarks.model_tables import BASELINES, Means, Setting
from benchmarks.model_trials import WITHOUT, trial
from benchmarks.report import Table, progress
from veilstream.evaluate.pages import with_section
from veilstream.evaluate.runner import Label, Measurement, run_measurements

ROOT: Final = Path(__file__).resolve().parent.parent
RECORDS: Final = ROOT / "docs" / "experiments" / "runs" / "model"
PAGE: Final = ROOT / "docs" / "model.md"
"""Its section ``model`` holds the tables that sum up."""
EPSILONS: Final = ("1", "1/10")
WINDOWS: Final = (1, 10, 40, 120, 400, None)
PURE: Final[tuple[Setting, ...]] = tuple((epsilon, w, "0") for epsilon in EPSILONS for w in WINDOWS)
GAUSSIAN: Final[tuple[Setting, ...]] = tuple((epsilon, w, "1e-6") for epsilon in EPSILONS for w in WINDOWS)
QUICK: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 40, "1e-6"))
ABLATED: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 120, "0"))
STRESSED: Final[tuple[Setting, ...]] = (("1", 40, "0"), ("1", 120, "0"), ("1/10", 40, "0"), ("1", 40, "1e-6"))
PACED_AT: Final[tuple[Setting, ...]] = (("1", 10, "0"), ("1", 40, "0"), ("1", 120, "0"))
USER: Final[tuple[Setting, ...]] = (("1", None, "0"), ("1", None, "1e-6"))
RUNS: Final = 5
FEW_RUNS: Final = 2
PACED: Final = ("FAST", "FAST, few looks", "DSAT", "DSAT, few releases")
PARTS: Final = ("gaps", "seasons", *WITHOUT)


def run(quick: bool = False, finished: bool = False) -> Sequence[Table]:
    """All tables; ``quick`` makes one run at two settings, ``finished`` leaves empty what is not measured yet."""
    runs = 1 if quick else RUNS
    settings = QUICK if quick else (*PURE, *GAUSSIAN)
    streams, stressed = [*TUNED, *UNTOUCHED], [stream.name for stream in stress()]
    stressed_at = QUICK if quick else STRESSED
    wanted = _wanted(["model", *BASELINES], streams, settings, runs)
    wanted += _wanted(["model", "safe", *BASELINES], stressed, stressed_at, runs)
    wanted += _wanted(["model revised"], streams, QUICK, 1)
    if not quick:
        wanted += _wanted(["model", *(f"model without {part}" for part in PARTS), *BASELINES], TUNED, ABLATED, FEW_RUNS)
        wanted += _wanted(["model", "model without a horizon"], streams, USER, FEW_RUNS)
        wanted += _wanted([*PACED, "uniform"], streams, PACED_AT, 1)
    distinct = list({measurement.digest(): measurement for measurement in wanted}.values())
    found = _recorded(distinct) if finished else run_measurements(distinct, RECORDS, workers=1, progress=_progress)
    measured = Means(found)
    few, one = measured.of(FEW_RUNS), measured.of(1)
    means = measured.of(runs)
    summaries = [model_tables.summary(means, settings)]
    tables = [table for part in _halves(settings) for table in model_tables.by_stream(means, part)]
    tables += [model_tables.other_errors(means, settings), model_tables.stressed(means, stressed, stressed_at)]
    tables += [model_tables.revisions(one, QUICK)]
    if not quick:
        summaries.append(model_tables.ablations(few, ["", *PARTS], ABLATED))
        tables += [model_tables.endless(few, USER), model_tables.paced(one, PACED, PACED_AT)]
        model_figure.draw()
    summaries.append(speed(quick))
    if not quick:
        text = "\n\n".join(table.markdown() for table in summaries)
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), "model", text), encoding="utf-8")
    return [*summaries, *tables]


def _recorded(wanted: Sequence[Measurement]) -> pl.DataFrame:
    """What earlier runs have recorded of some measurements, by this version of the code or another."""
    lines = (RECORDS / "finished.ndjson").read_text(encoding="utf-8").splitlines()
    known = {row["measurement"]: row["measures"] for row in map(json.loads, lines)}
    rows = [
        {**measurement.labels, "metric": metric, "value": value}
        for measurement in wanted
        for metric, value in known.get(measurement.digest(), {}).items()
    ]
    progress(f"{sum(each.digest() in known for each in wanted)} of {len(wanted)} measurements are recorded")
    return pl.DataFrame(rows, infer_schema_length=None)


def _halves(settings: Sequence[Setting]) -> list[list[Setting]]:
    parts = [[setting for setting in settings if (setting[2] == "0") is pure] for pure in (True, False)]
    return [part for part in parts if part]


def _progress(done: int, of: int) -> None:
    if done % 20 == 0 or done == of:
        progress(f"{done} of {of} measurements")


def _wanted(names: Iterable[str], streams: Iterable[str], settings: Iterable[Setting], runs: int) -> list[Measurement]:
    found: list[Measurement] = []
    for stream in streams:
        for epsilon, w, delta in settings:
            for name in names:
                used = "0" if name in BASELINES else delta
                labels: dict[str, Label] = {
                    "mechanism": name,
                    "stream": stream,
                    "epsilon": epsilon,
                    "w": w or 0,
                    "delta": used,
                    "runs": runs,
                }
                found.append(Measurement(labels, trial, (name, stream, epsilon, w, used, runs)))
    return found
