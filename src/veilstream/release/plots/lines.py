"""A panel for each bin: values over time with the reach of their noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.extras import drawing
from veilstream.release.plot_options import PlotOptions
from veilstream.release.plots.labels import shortened
from veilstream.release.plots.style import BAND, INK, LINE, QUIET, TRUTH, Axes, Figure, add_legend, plain_numbers
from veilstream.release.plots.table import Released, bucket_length, envelope
from veilstream.release.plots.times import bucket_name, name_time_axis, places

MOST_POINTS: Final = 900
"""More releases than this are drawn as an envelope: no screen tells them apart."""
MOST_BUCKETS: Final = 400
MOST_DOTS: Final = 150
FAINT: Final = 0.35
"""How firmly values are drawn that were revised since."""
FEW: Final = 60
"""Up to so many points each gets a dot and an error bar of its own."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Tables of other values of the same steps and bins: true counts, and what was released before it was revised."""

    truth: pl.DataFrame | None = None
    first: pl.DataFrame | None = None


def draw_lines(
    figure: Figure, released: Released, options: PlotOptions, unit: str, level: float, beside: Beside
) -> None:
    """Small multiples of all bins of ``released``."""
    count = len(released.names)
    columns = 1 if count == 1 else 2 if count in (2, 4) else 3
    rows = -(-count // columns)
    width, height = (9.0 if columns == 1 else 4.2 * columns), 1.5 + (3.4 if rows == 1 else 2.1 * rows)
    figure.set_size_inches(*(options.size or (width, height)))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    long = int(released.fresh.sum(axis=1).max()) > MOST_POINTS
    length = bucket_length(released, MOST_BUCKETS) if long else 1
    for number, axes in enumerate(list(grid.flat)[:count]):
        one = released.take([number])
        known = None if beside.truth is None else _values_of(beside.truth, one)
        if long:
            _draw_envelope(axes, one, length, known)
        else:
            _draw_series(axes, one, known)
            if beside.first is not None:
                axes.plot(places(one)[:-1], _values_of(beside.first, one), color=LINE, linewidth=0.9, alpha=FAINT)
        if one.bins.width:
            axes.set_title(shortened(one.names[0]), fontsize=10.5, loc="left", fontweight="bold")
        _finish(axes, options)
    for axes in list(grid.flat)[count:]:
        axes.set_axis_off()
    for column in range(columns):
        lowest = [row for row in range(rows) if row * columns + column < count][-1]
        name_time_axis(grid[lowest, column], released)
    figure.supylabel(unit, fontsize=10)
    grouped = envelope(released, length).mean if long else None
    _legend(figure, released, level, beside, None if grouped is None else bucket_name(grouped))


def _finish(axes: Axes, options: PlotOptions) -> None:
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.margins(x=0.01)
    if options.value_range is not None:
        axes.set_ylim(*options.value_range)
    plain_numbers(axes.yaxis)


def _values_of(table: pl.DataFrame, one: Released) -> NDArray[np.float64]:
    """Values of one bin in the order of the steps."""
    for name in one.bins.columns:
        table = table.filter(pl.col(name) == one.bins[name][0])
    values = table.sort("step")["value"].cast(pl.Float64).to_numpy()
    return values[: one.steps]


def _draw_series(axes: Axes, one: Released, truth: NDArray[np.float64] | None) -> None:
    at, value, fresh = places(one), one.value[0], one.fresh[0]
    if truth is not None:
        axes.plot(at[: len(truth)], truth, color=TRUTH, linewidth=1.1, zorder=3)
    if fresh.all() and one.steps <= FEW:
        bars = np.stack([value - one.low[0], one.high[0] - value])
        axes.errorbar(at[:-1], value, bars, fmt="o-", color=LINE, ecolor=BAND, markersize=3.5, linewidth=1.2, capsize=2)
    elif fresh.all():
        axes.fill_between(at[:-1], one.low[0], one.high[0], color=BAND, alpha=0.35, linewidth=0)
        axes.plot(at[:-1], value, color=LINE, linewidth=1.2)
    else:
        _draw_steps(axes, one)


def _draw_steps(axes: Axes, one: Released) -> None:
    """Where values are repeated they hold until the next release: flat, faded, and without a dot."""
    at = np.repeat(places(one), 2)[1:-1]
    value, low, high = (np.repeat(table[0], 2) for table in (one.value, one.low, one.high))
    fresh = np.repeat(one.fresh[0], 2)
    for shown, strength in ((fresh, 0.45), (~fresh, 0.16)):
        axes.fill_between(at, low, high, where=shown, color=BAND, alpha=strength, linewidth=0)
    axes.plot(at, value, color=LINE, linewidth=0.9, alpha=0.4)
    axes.plot(at, np.where(fresh, value, np.nan), color=LINE, linewidth=2.0, solid_capstyle="butt")
    here = one.fresh[0]
    if np.count_nonzero(here) <= MOST_DOTS:
        axes.plot(places(one)[:-1][here], one.value[0][here], "o", color=LINE, markersize=3.5)


def _draw_envelope(axes: Axes, one: Released, length: int, truth: NDArray[np.float64] | None) -> None:
    """The mean and the range of each bucket; the noise of a single step as one error bar on the left."""
    parts = envelope(one, length)
    at = np.repeat(places(parts.mean), 2)[1:-1]
    least, most, mean = (np.repeat(table[0], 2) for table in (parts.least, parts.most, parts.mean.value))
    axes.fill_between(at, least, most, color=BAND, alpha=0.4, linewidth=0)
    axes.plot(at, mean, color=LINE, linewidth=1.1)
    if truth is not None:
        first = np.arange(0, len(truth), length)
        means = np.add.reduceat(truth, first) / np.diff(np.append(first, len(truth)))
        axes.plot(places(parts.mean)[: len(first)], means, color=TRUTH, linewidth=1.0, zorder=3)
    half = float(np.nanmedian(one.high[0] - one.low[0])) / 2
    span = at[-1] - at[0]
    axes.errorbar(
        [at[0] - 0.02 * span], [float(np.nanmean(mean))], [[half], [half]], color=INK, capsize=3, linewidth=1.2
    )


def _share(released: Released) -> str:
    return "" if released.fresh.all() else f" ({released.fresh.mean():.0%} of the steps are fresh)"


def _legend(figure: Figure, released: Released, level: float, beside: Beside, bucket: str | None) -> None:
    lines: Any = drawing("lines")
    patches: Any = drawing("patches")
    line, patch = lines.Line2D, patches.Patch
    if bucket is not None:
        entries: list[tuple[Any, str]] = [
            (line([], [], color=LINE, linewidth=1.4), f"mean of {bucket}{_share(released)}"),
            (patch(color=BAND, alpha=0.4, linewidth=0), "lowest to highest step in it"),
            (line([], [], color=INK, marker="|", linewidth=1.2), f"{released.interval_name(level)}, one step"),
        ]
    elif released.fresh.all():
        entries = [
            (line([], [], color=LINE, linewidth=1.6), "released" if beside.first is None else "revised"),
            (patch(color=BAND, alpha=0.35, linewidth=0), released.interval_name(level)),
        ]
    else:
        entries = [
            (line([], [], color=LINE, linewidth=2.0, marker="o", markersize=3.5), "released afresh"),
            (line([], [], color=LINE, linewidth=0.9, alpha=0.4), "repeated: as of its last release"),
            (patch(color=BAND, alpha=0.35, linewidth=0), released.interval_name(level)),
        ]
    if beside.first is not None and bucket is None:
        entries.append((line([], [], color=LINE, linewidth=0.9, alpha=FAINT), "as first released"))
    if beside.truth is not None:
        entries.append((line([], [], color=TRUTH, linewidth=1.2), "true count"))
    add_legend(figure, entries)
