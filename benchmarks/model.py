"""The model-based release against Uniform and Sample: errors, coverage, stress, ablations, speed.

All streams of ``model_streams``, five runs, 24 settings. Finished measurements are recorded outside of version control
by the code that they depend on, so that an interrupted suite goes on where it was, and a change elsewhere in the
package measures nothing again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks import model_figure, model_tables
from benchmarks.model_speed import speed
from benchmarks.model_streams import TUNED, UNTOUCHED, stress
from benchmarks.model_tables import BASELINES, Setting, known_as
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
PACED: Final = ("FAST", "FAST, few looks", "DSAT", "DSAT, few releases")
PARTS: Final = ("gaps", "seasons", *WITHOUT)
SOURCES: Final = ("benchmarks/model_runs.py", "benchmarks/model_trials.py", "benchmarks/model_streams.py")
STREAMS: Final = "src/veilstream/mechanisms/streams"
LIBRARY: Final = ("src/veilstream/noise", "src/veilstream/trusted/meter", "src/veilstream/trusted/block_noise.py")
DEPENDS: Final[dict[str, tuple[str, ...]]] = {
    "uniform": ("uniform.py", "plain_release.py", "horizons.py"),
    "sample": ("sample.py", "plain_release.py"),
    "FAST": ("fast.py", "sampling.py", "controller.py", "filters"),
    "DSAT": ("by_distance.py", "dissimilarity.py", "decision.py", "usefulness.py"),
}
"""Mechanism -> its files among those of all stream mechanisms; every other is a model."""


def run(quick: bool = False, finished: bool = False) -> Sequence[Table]:
    """All tables; ``quick`` makes one run at two settings, ``finished`` leaves empty what is not measured yet."""
    runs = 1 if quick else RUNS
    settings = QUICK if quick else (*PURE, *GAUSSIAN)
    streams, stressed = [*TUNED, *UNTOUCHED], [stream.name for stream in stress()]
    stressed_at = QUICK if quick else STRESSED
    wanted = _wanted(["model", *BASELINES], streams, settings, runs)
    wanted += _wanted(["model", "safe", *BASELINES], stressed, stressed_at, runs)
    wanted += _wanted(["model revised"], streams, QUICK, runs)
    if not quick:
        wanted += _wanted([f"model without {part}" for part in PARTS], TUNED, ABLATED, runs)
        wanted += _wanted(["model without a horizon"], streams, USER, runs)
        wanted += _wanted(PACED, streams, PACED_AT, 1)
    distinct = list({measurement.digest(): measurement for measurement in wanted}.values())
    if finished:
        distinct = _recorded(distinct)
    found = run_measurements(distinct, RECORDS, workers=1, progress=_progress, any_code=True)
    means = model_tables.known(found)
    summaries = [model_tables.summary(means, settings)]
    tables = [table for part in _halves(settings) for table in model_tables.by_stream(means, part)]
    tables += [model_tables.other_errors(means, settings), model_tables.stressed(means, stressed, stressed_at)]
    tables += [model_tables.revisions(means, QUICK)]
    if not quick:
        summaries.append(model_tables.ablations(means, ["", *PARTS], ABLATED))
        tables += [model_tables.endless(means, USER), model_tables.paced(means, PACED, PACED_AT)]
        model_figure.draw()
    summaries.append(speed(quick))
    if not quick:
        text = "\n\n".join(table.markdown() for table in summaries)
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), "model", text), encoding="utf-8")
    return [*summaries, *tables]


def _recorded(wanted: Sequence[Measurement]) -> list[Measurement]:
    """Those that earlier runs have recorded."""
    lines = (RECORDS / "finished.ndjson").read_text(encoding="utf-8").splitlines()
    known = {json.loads(line)["measurement"] for line in lines}
    return [measurement for measurement in wanted if measurement.digest() in known]


def _halves(settings: Sequence[Setting]) -> list[list[Setting]]:
    parts = [[setting for setting in settings if (setting[2] == "0") is pure] for pure in (True, False)]
    return [part for part in parts if part]


def _progress(done: int, of: int) -> None:
    if done % 20 == 0 or done == of:
        progress(f"{done} of {of} measurements")


def _wanted(names: Iterable[str], streams: Iterable[str], settings: Iterable[Setting], runs: int) -> list[Measurement]:
    found: list[Measurement] = []
    for stream in streams:
        for setting in settings:
            for name in names:
                epsilon, w, delta = known_as(name, stream, setting)
                labels: dict[str, Label] = {
                    "mechanism": name,
                    "stream": stream,
                    "epsilon": epsilon,
                    "w": w or 0,
                    "delta": delta,
                    "runs": runs,
                    "code": _code(name.partition(",")[0]),
                }
                found.append(Measurement(labels, trial, (name, stream, epsilon, w, delta, runs)))
    return found


@cache
def _code(mechanism: str) -> str:
    """A digest of the files that decide what a mechanism publishes, and what is measured of it."""
    own = [f"{STREAMS}/{name}" for name in DEPENDS.get(mechanism, ("model",))]
    digest = hashlib.blake2b(digest_size=8)
    for name in [*own, *SOURCES, *LIBRARY]:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()
