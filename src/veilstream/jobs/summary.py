"""What a run did, in numbers that may be published, and the files it writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.data import Dropped
from veilstream.jobs.prepare import PreparedJob
from veilstream.release.plots import PlotOptions, bins_drawn, plot_quantiles, plot_releases
from veilstream.release.sinks import MEASURE_COLUMN, largest_bins, release_tables, write_table
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.exporting import shown_mark
from veilstream.values.choices import Vintages

UNNAMED: Final = "default"
"""The stream of somebody who gave it no name."""


@dataclass(slots=True)
class Summary:
    """What a run did: public numbers only, except ``dropped``, which is for the operator."""

    stream: str
    steps: int
    bins: int
    before: int
    measure: str
    published: int = 0
    fresh: int = 0
    interrupted: bool = False
    spent: Fraction = Fraction(0)
    left: Fraction | None = None
    noise_std: float | None = None
    covers: str | None = None
    """What intervals hold: the value before noise, or the count where a model says so."""
    outputs: dict[str, int | None] = field(default_factory=dict[str, int | None])
    mark: dict[str, Any] | None = None
    """The end of the stream's chain: with it an older ledger can be told, by `veilstream ledger verify --seen`."""
    dropped: Dropped | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "steps": self.steps,
            "bins": self.bins,
            "released_before": self.before,
            "released_now": self.published,
            "fresh_now": self.fresh,
            "repeated_now": self.published - self.fresh,
            "measure": self.measure,
            "spent_now": str(self.spent),
            "left_in_window": None if self.left is None else str(self.left),
            "noise_std": self.noise_std,
            "covers": self.covers,
            "interrupted": self.interrupted,
            "outputs": list(self.outputs),
            "mark": self.mark,
        }


def write_outputs(prepared: PreparedJob, ledger: Ledger, summary: Summary) -> None:
    """Write the table and the picture that the job asks for, from what the ledger holds."""
    job = prepared.job
    last = ledger.release_at(job.stream, summary.before + summary.published - 1)
    summary.mark = shown_mark(ledger.mark(job.stream))
    if last is not None:
        summary.left = last.left
        summary.covers = last.covers
        summary.noise_std = float(np.mean(last.std))
    if job.out is not None:
        tables = release_tables(
            ledger,
            job.stream,
            prepared.domain,
            prepared.calendar,
            level=job.level,
            measures=prepared.measures,
            measure=prepared.measure.label,
            vintages=prepared.vintages,
            smooth=prepared.smooth,
        )
        summary.outputs[job.out] = write_table(tables, job.out)
    if job.plot is not None:
        draw_releases(prepared, ledger, job.plot)
        summary.outputs[job.plot] = None


def draw_releases(prepared: PreparedJob, ledger: Ledger, path: str | Path) -> None:
    """A picture of all that the stream has released, by its name's end .png, .pdf, .svg or .html."""
    job = prepared.job
    wanted = job.plot_bins
    bins = int(wanted[0]) if wanted is not None and len(wanted) == 1 and wanted[0].isdigit() else wanted
    room = bins_drawn(prepared.domain, prepared.calendar.steps, path, job.plot_kind)
    measures = None if prepared.measures is None else prepared.measures.drawn()
    shown = None if isinstance(bins, tuple) else largest_bins(ledger, job.stream, bins or room, measures)

    def drawn(vintages: Vintages) -> pl.DataFrame:
        tables = release_tables(
            ledger,
            job.stream,
            prepared.domain,
            prepared.calendar,
            level=job.level,
            bins=shown,
            measures=measures,
            vintages=vintages,
            smooth=prepared.smooth,
        )
        return pl.concat(tables)

    frame = drawn("first" if prepared.vintages == "first" else "latest")
    caption = f"differentially private: {prepared.promised}"
    if shown is not None and len(shown) < prepared.bins:
        caption += f"; the {len(shown)} largest of {prepared.bins:,} bins"
    measured = ""
    if measures is not None:
        measured = measures.labels[0] if len(measures.labels) == 1 else f"quantiles of {measures.asked[0][1]}"
    about = _about(prepared, measured)
    words: dict[str, Any] = {"title": job.plot_title or about, "subtitle": caption, "level": job.level}
    measure = prepared.measure
    options = PlotOptions(kind=job.plot_kind, bins=bins, value_range=job.plot_range, size=job.plot_size)
    if measures is None:
        first = None if prepared.vintages == "first" else drawn("first")
        plot_releases(frame, path, measure=measure, options=options, first=first, **words)
        return
    tables = {label: frame.filter(pl.col(MEASURE_COLUMN) == label).drop(MEASURE_COLUMN) for label in measures.labels}
    if len(tables) == 1:
        (label,) = tables
        plot_releases(tables[label], path, measure=replace(measure, counted=label), options=options, **words)
        return
    # The values of all quantiles are values of the column, not so many of them a step.
    named = [(statistic, tables[f"{statistic} {name}"]) for statistic, name in measures.asked]
    plot_quantiles(named, path, measure=measures.asked[0][1], options=options, **words)


def _about(prepared: PreparedJob, measured: str) -> str:
    """The title of a picture to which none was given: the stream if it has a name, what is counted, and by what."""
    stream, measure = prepared.job.stream, prepared.measure
    what = replace(measure, counted=measured) if measured else measure
    by = prepared.domain.names
    named = what.title if stream == UNNAMED else f"{stream}: {what.brief}"
    return f"{named}, by {' and '.join(by)}" if by else named
