"""The first hour of a new user in figures: starting, real files to pictures, a finished stream, forecasts, mistakes.

Written to docs/first-hour.md. Four of the real files are read from the directory that VEILSTREAM_DATA names; files that
are not there are left out, and the table says so.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import veilstream as vs
from benchmarks.first_hour_files import HOURS, LONG, RealFile, real_files
from benchmarks.ledger import disk_folder, hourly
from benchmarks.report import PAGE, Table, machine, progress
from veilstream.evaluate.pages import with_section
from veilstream.jobs.call import prepare_call
from veilstream.jobs.preview import preview
from veilstream.testing.simulation import simulate_many

OWN_PAGE: Final = PAGE.with_name("first-hour.md")
SECTION: Final = "first-hour"
STARTS: Final = 9
START_AIM: Final = 0.25
FINISHED_AIM: Final = 2.0
RUNS: Final = 2_000
COMMAND: Final = "from veilstream.cli import main; main()"
TABLES: Final = {"to look at": [], "with its table and picture": ["--out", "releases.csv", "--plot", "releases.png"]}


def run(*, quick: bool = False) -> Sequence[Table]:
    """The tables of the page."""
    with disk_folder() as folder:
        files = [file for file in real_files() if file.there and not (quick and file.name == LONG)]
        tables = [_starts(), _pictures(folder, files), _forecasts()]
        finished = [file for file in files if file.name == LONG]
        if finished:
            tables.append(_finished(folder, finished[0]))
        tables.append(hourly(folder, 1_000 if quick else HOURS))
    if not quick:
        body = "\n\n".join([machine(), *(table.markdown(level=2) for table in tables)])
        page = with_section(OWN_PAGE.read_text(encoding="utf-8"), SECTION, body)
        OWN_PAGE.write_text(page, encoding="utf-8")
    return tables


def _processor_seconds(words: Sequence[str], folder: Path | None = None) -> tuple[float, str]:
    """Seconds of the processor that a process took, and what it wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, cwd=folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _starts() -> Table:
    lines = {
        "`python -c pass`": ["-c", "pass"],
        "`import veilstream`": ["-c", "import veilstream"],
        "`veilstream --help`": ["-c", COMMAND, "--help"],
        "`veilstream version`": ["-c", COMMAND, "version"],
        "`veilstream publish --help`": ["-c", COMMAND, "publish", "--help"],
    }
    seconds = {name: min(_processor_seconds(words)[0] for _ in range(STARTS)) for name, words in lines.items()}
    progress(f"first hour: starts {seconds}")
    bare = seconds["`python -c pass`"]
    return Table(
        "Starting",
        f"Seconds of processor time, best of {STARTS} processes. Aim: {START_AIM} s for the import and for `--help`.",
        ["command", "s", "times an empty Python"],
        [[name, f"{each:.2f}", f"{each / bare:.1f}"] for name, each in seconds.items()],
    )


def _pictures(folder: Path, files: Sequence[RealFile]) -> Table:
    rows: list[list[str]] = []
    for file in files:
        seconds, out = _processor_seconds(["-c", COMMAND, *file.words(folder), "--json"])
        told: dict[str, Any] = json.loads(out)
        job = vs.publish(file.path, **file.call(folder))
        drawn = job.plot()
        assert drawn is not None
        assert len(job.releases) == told["steps"]
        size = file.picture(folder).stat().st_size
        shape = f"{told['steps']:,} × {told['bins']:,}"
        rows.append(
            [file.name, shape, told["measure"], f"{seconds:.1f}", f"{size / 1e3:.0f}", f"`{file.shown(folder)}`"]
        )
        progress(f"first hour: {rows[-1][:5]}")
    missing = [file.name for file in real_files() if not file.there]
    left_out = f" Not there, and left out: {', '.join(missing)}." if missing else ""
    return Table(
        "Real files to pictures, one command each",
        "Each also runs as one call, `vs.publish(file, ...).plot()` with the same settings, and gives as many releases "
        "(the call of the bicycles reads what the command has released)."
        f" Seconds of processor time include drawing.{left_out}",
        ["file", "steps × bins", "each number counts", "s", "picture, kB", "command"],
        rows,
    )


def _finished(folder: Path, file: RealFile) -> Table:
    rows: list[list[str]] = []
    for name, outputs in TABLES.items():
        words = ["-c", COMMAND, *file.words(folder)[:-2], *outputs, "--json"]
        taken = [_processor_seconds(words, folder) for _ in range(3)]
        assert json.loads(taken[0][1])["released_now"] == 0
        rows.append([name, f"{min(seconds for seconds, _ in taken):.2f}"])
        progress(f"first hour: nothing new {rows[-1]}")
    return Table(
        "Publishing nothing new",
        f"The command of the bicycles again, on its finished stream of {HOURS:,} steps: best of 3, with the start of "
        f"Python. Aim: {FINISHED_AIM:g} s to look at.",
        ["again", "s of processor"],
        rows,
    )


def _forecasts() -> Table:
    """What a dry run says of noise against simulations with other seeds."""
    rows: list[list[str]] = []
    for mechanism, bins, settings in (
        ("uniform", 6, {}),
        ("uniform", 200, {}),
        ("fixed-rate", 6, {"interval": 6}),
        ("sliding-window", 6, {"window": 4}),
    ):
        prepared = prepare_call(None, mechanism, None, {
            "time": "t", "user": "id", "every": "1h", "start": "2024-01-01", "end": "2024-01-05", "epsilon": 1,
            "window": 24, "domain": {"bin": [str(number) for number in range(bins)]}, "set": settings,
        })  # fmt: skip
        told = preview(prepared)
        zeros = np.zeros((48, bins), dtype=np.int64)
        runs = simulate_many(prepared.mechanism, prepared.guarantee, zeros, seed=20_26, runs=max(50, RUNS // bins))
        noise, fresh = np.asarray(runs), np.atleast_2d(runs.fresh)
        sums = np.abs(noise.sum(axis=-1))[np.broadcast_to(fresh, noise.shape[:2])]
        found = float(np.quantile(sums, 0.95))
        assert told.sum_error is not None
        mean = float(np.abs(noise).mean())
        rows.append([
            f"`{mechanism}`", str(bins), f"{told.mean_absolute_error:.1f}", f"{mean:.1f}", f"±{told.sum_error:.0f}",
            f"±{found:.0f}", f"{told.sum_error / found:.2f}",
        ])  # fmt: skip
        progress(f"first hour: forecast {rows[-1]}")
    return Table(
        "The dry run against simulation",
        "`veilstream publish ... --dry-run` of 96 hours at epsilon 1, window 24: the mean error of a bin and what "
        "holds the error of the sum of all bins 95 % of the time, against simulations with other seeds.",
        ["mechanism", "bins", "mean error told", "simulated", "sum told", "simulated", "ratio"],
        rows,
    )
