"""What a job has published: releases as tables and pictures, their accuracy and their cost."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, overload

import numpy as np
import polars as pl

from veilstream.errors import InvalidInputError, MissingExtraError
from veilstream.jobs.prepare import PreparedJob, require_ledger
from veilstream.jobs.summary import Summary, draw_releases
from veilstream.jobs.wording import plural
from veilstream.mechanisms.traits import Traits
from veilstream.release.sinks import release_tables
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.as_of import with_as_of
from veilstream.values.choices import Vintages
from veilstream.values.monotone import nondecreasing
from veilstream.values.release import Release
from veilstream.values.tables import html_table

SHOWN_ROWS = 20
"""Rows of releases that a notebook shows."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn picture, which notebooks show."""

    png: bytes = field(repr=False)

    def _repr_png_(self) -> bytes:
        return self.png

    def save(self, path: str | Path) -> None:
        """Write the picture to a .png file."""
        Path(path).write_bytes(self.png)


@dataclass(frozen=True, slots=True)
class Releases(Sequence[Release]):
    """The committed releases of a job's steps, in order."""

    prepared: PreparedJob = field(repr=False)
    _items: tuple[Release, ...] = field(repr=False)

    @overload
    def __getitem__(self, index: int) -> Release: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Release, ...]: ...
    def __getitem__(self, index: int | slice) -> Release | tuple[Release, ...]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        shape = f"{plural(len(self), 'step')} x {plural(self.prepared.bins, 'bin')}"
        return f"Releases({shape} of {self.prepared.measure.label})"

    def to_html(self) -> str:
        """The first rows as a table of HTML, as notebooks show them."""
        return html_table(repr(self), self.to_polars().to_dict(), most=SHOWN_ROWS)

    _repr_html_ = to_html

    def to_polars(self, level: float | None = None, vintages: Vintages | None = None) -> pl.DataFrame:
        """One row for each step and bin: step, time, attributes, value, low, high, fresh, covers, as_of, counted.

        A repeated value and its interval are those of the step ``as_of``; what has changed since is in neither. Where
        later releases revise earlier steps there is a column ``version``, 0 as first released, and ``vintages`` says
        which: "latest", unless the job says otherwise, "first" or "all".
        """
        prepared = self.prepared
        wanted = prepared.job.level if level is None else level
        with Ledger.open(require_ledger(prepared.job)) as ledger:
            tables = release_tables(
                ledger,
                prepared.job.stream,
                prepared.domain,
                prepared.calendar,
                level=wanted,
                measures=prepared.measures,
                measure=prepared.measure.label,
                vintages=vintages or prepared.vintages,
                smooth=prepared.smooth,
            )
            return pl.concat(list(tables))

    def to_pandas(self, level: float | None = None, vintages: Vintages | None = None) -> Any:
        """The same table for pandas."""
        try:
            return self.to_polars(level, vintages).to_pandas()
        except ImportError:
            raise MissingExtraError("to_pandas needs: pip install pandas pyarrow") from None


@dataclass(frozen=True, slots=True)
class PublishedJob:
    """What ``publish`` has done: its releases are committed, and the same call again spends nothing."""

    prepared: PreparedJob = field(repr=False)
    summary: Summary

    def __repr__(self) -> str:
        done, prepared = self.summary, self.prepared
        steps = f"{done.before + done.published:,} of {plural(done.steps, 'step')} x {plural(done.bins, 'bin')}"
        return f"PublishedJob({done.stream!r}, {steps} of {done.measure}, {prepared.promised})"

    @property
    def releases(self) -> Releases:
        """All releases of the job's steps, from the ledger."""
        job = self.prepared.job
        with Ledger.open(require_ledger(job)) as ledger:
            steps = self.prepared.calendar.steps
            return Releases(self.prepared, tuple(r for r in ledger.releases(job.stream) if 0 <= r.t < steps))

    @property
    def spent(self) -> Fraction:
        """The epsilon that the present window has spent, of the guarantee's."""
        left = self.summary.left
        return Fraction(0) if left is None else self.prepared.guarantee.epsilon - left

    @property
    def measure(self) -> str:
        """What each number counts."""
        return self.prepared.measure.label

    def to_polars(self, level: float | None = None, vintages: Vintages | None = None) -> pl.DataFrame:
        """The releases as a Polars table; ``vintages`` as of :meth:`Releases.to_polars`."""
        return self.releases.to_polars(level, vintages)

    def to_pandas(self, level: float | None = None, vintages: Vintages | None = None) -> Any:
        """The releases as a pandas table; ``vintages`` as of :meth:`Releases.to_polars`."""
        return self.releases.to_pandas(level, vintages)

    def nondecreasing(self) -> pl.DataFrame:
        """The table of running totals with values that do not fall, by all that was released: free post-processing.

        ``low`` and ``high`` are those of the releases themselves.
        """
        if not Traits.of(self.prepared.mechanism).cumulative or self.prepared.measures is not None:
            raise InvalidInputError(
                name="nondecreasing",
                value=self.measure,
                limit="running totals of counts alone may not fall",
                outcome="nothing was computed",
            )
        table, releases = self.to_polars(vintages="first"), self.releases
        values = np.stack([np.asarray(release.values, dtype=np.float64) for release in releases])
        spread = np.array([float(np.mean(release.std)) for release in releases])
        return table.with_columns(pl.Series("value", nondecreasing(values, spread).reshape(-1)))

    def plot(self, path: str | Path | None = None) -> Picture | None:
        """Draw the releases: to a .png, .pdf, .svg or .html file, or without a path as a picture for a notebook."""
        with Ledger.open(require_ledger(self.prepared.job)) as ledger:
            if path is not None:
                draw_releases(self.prepared, ledger, path)
                return None
            with tempfile.TemporaryDirectory() as folder:
                drawn = Path(folder) / "releases.png"
                draw_releases(self.prepared, ledger, drawn)
                return Picture(drawn.read_bytes())

    def accuracy(self, level: float | None = None) -> pl.DataFrame:
        """For each step how exact it is: noise and the half width of intervals, averaged over bins.

        It speaks of noise alone: a value that is repeated has also missed what changed since the step ``as_of``.
        """
        wanted = self.prepared.job.level if level is None else level
        rows: list[dict[str, Any]] = []
        for release, as_of in with_as_of(self.releases):
            low, high = release.interval(wanted)
            rows.append(
                {
                    "step": release.t,
                    "time": self.prepared.calendar.begins(release.t),
                    "fresh": release.fresh,
                    "as_of": as_of,
                    "noise_std": float(np.mean(release.std)),
                    "half_width": float(np.mean(high - low)) / 2,
                    "mean_value": float(np.mean(release.values)),
                }
            )
        return pl.DataFrame(rows)

    def _repr_html_(self) -> str:
        return self.releases.to_html()
