"""Run a figure's measurements, draw it, judge it, and write its section."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from research.catalogue import PAPERS
from research.figure import Figure, Finding, Paper, Setting
from research.page import write_index, write_section
from veilstream.evaluate.runner import Progress, run_measurements
from veilstream.release.sinks import replacing

RUNS: Final = "runs"
DPI: Final = 110


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What one figure left behind."""

    finding: Finding
    picture: Path
    page: Path
    results: Path


def reproduce(
    paper: Paper,
    figure: Figure,
    setting: Setting,
    directory: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    any_code: bool = False,
) -> Reproduced:
    """Figure, page and results below ``directory``; finished measurements of an earlier call are taken from there.

    With ``any_code`` also those of another version of the library.
    """
    folder = Path(directory)
    results = folder / RUNS / f"{figure.record or figure.name}-{setting.scale}"
    measurements = figure.measurements(setting)
    table = run_measurements(measurements, results, workers=workers, progress=progress, any_code=any_code)
    picture = folder / f"{figure.name}.png"
    with replacing(picture) as unfinished:
        figure.draw(table).savefig(unfinished, dpi=DPI, format="png")
    finding = figure.judge(table)
    page = write_section(paper, figure, finding, setting, len(measurements), folder)
    write_index(PAPERS.values(), folder)
    return Reproduced(finding, picture, page, results / "results.parquet")
