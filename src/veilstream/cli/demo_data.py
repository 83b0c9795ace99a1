"""Three seasons of influenza in ten regions: the bundled public data, what is public about them, and their pictures."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.data import Calendar
from veilstream.mechanisms.streams import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.measure import Measure
from veilstream.release.plots import plot_releases
from veilstream.testing.simulation import simulate

STREAM: Final = "influenza"
DOMAIN: Final[dict[str, list[str]]] = {
    "region": [f"Region {number}" for number in range(1, 11)],
    "age": ["0-4", "5-24", "25-49", "50-64", "65+"],
}
JOB: Final[dict[str, Any]] = {
    "time": "week_start",
    "value": "visits",
    "per_person": 1,
    "domain": DOMAIN,
    "every": "1w",
    "start": "2021-10-03",
    "end": "2024-09-29",
    "epsilon": "1/4",
    "window": 52,
    "stream": STREAM,
}
"""The settings of a publishing job, all but the paths: a window of one season's length, released every week."""
VISITS: Final = Measure.of_values("visits", "1w")
TRUTH_NOTE: Final = "true counts: shown only because this is public demo data"


@contextmanager
def bundled_data() -> Generator[Path]:
    """The file of weekly counts that comes with the package."""
    with as_file(files("veilstream") / "cli" / "bundled" / "ilinet_regions.csv.gz") as path:
        yield path


def true_counts(data: Path, calendar: Calendar) -> pl.DataFrame:
    """The exact counts by step, which only public data may show.

    >>> with bundled_data() as data:
    ...     counts = true_counts(data, Calendar(JOB["start"], JOB["end"], JOB["every"]))
    >>> counts.shape, counts["step"].n_unique()
    ((7800, 4), 156)
    """
    frame = pl.read_csv(data)
    steps = calendar.step_of(frame["week_start"])
    return frame.select("region", "age", pl.col("visits").alias("value"), pl.Series("step", steps))


def mean_errors(releases: pl.DataFrame, truth: pl.DataFrame, guarantee: Guarantee) -> tuple[float, float]:
    """The mean absolute error of what was released, and of `uniform` on the same counts, simulated."""
    beside = releases.join(truth, on=["step", "region", "age"], suffix="_true", maintain_order="left")
    exact = beside["value_true"].to_numpy().reshape(releases["step"].n_unique(), -1)
    uniform = np.asarray(simulate(Uniform(), guarantee, exact, seed=1))
    released = np.abs(beside["value"].to_numpy() - beside["value_true"].to_numpy())
    return float(released.mean()), float(np.abs(uniform - exact).mean())


def draw(releases: pl.DataFrame, truth: pl.DataFrame, guarantee: Guarantee, out: Path) -> None:
    """The largest series, all series, and the largest ones again beside the truth."""
    title = "Weekly visits for influenza-like illness"
    source = f"CDC ILINet; {guarantee} (weeks)"
    largest = f"{source}; the 12 largest of {len(DOMAIN['region']) * len(DOMAIN['age'])} region and age groups"
    plot_releases(releases, out / "releases.png", title=title, subtitle=largest, measure=VISITS, heat_map=False)
    plot_releases(releases, out / "heatmap.png", title=title, subtitle=source, measure=VISITS)
    plot_releases(releases, out / "releases.html", title=title, subtitle=source, measure=VISITS)
    plot_releases(
        releases,
        out / "with_truth.png",
        title=title,
        subtitle=largest,
        measure=VISITS,
        heat_map=False,
        truth=truth,
        truth_note=TRUTH_NOTE,
    )
