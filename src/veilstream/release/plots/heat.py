"""Colours for many cells: what is noise is grey, what is below zero is not blue, what is sure is strong."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.extras import drawing
from veilstream.release.plot_options import PlotOptions
from veilstream.release.plots.labels import Side, shortened, side
from veilstream.release.plots.style import INK, Axes, Figure, add_legend, plain_numbers
from veilstream.release.plots.table import Released, bucket_length, envelope
from veilstream.release.plots.times import bucket_name, moment_name, name_time_axis, places

MOST_COLUMNS: Final = 420
MOST_GRIDS: Final = 6
NOISE: Final = "#e9e9ea"
NOISE_BELOW: Final = "#f6e3d7"
BELOW: Final = "#d55e00"
MISSING: Final = "#ffffff"


def draw_map(figure: Figure, released: Released, options: PlotOptions, unit: str, level: float) -> None:
    """Time from left to right, a row for each bin."""
    length = bucket_length(released, MOST_COLUMNS)
    shown = released if length == 1 else envelope(released, length).mean
    rows = len(shown.names)
    figure.set_size_inches(*(options.size or (11.0, min(9.8, 2.6 + 0.14 * rows))))
    axes = figure.subplots()
    colours = Colours(shown, options.value_range)
    axes.pcolormesh(
        places(shown), np.arange(rows + 1) - 0.5, colours.paint(shown.value, shown.low, shown.high), rasterized=True
    )
    axes.grid(visible=False)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_yticks(range(rows), [shortened(name) for name in shown.names], fontsize=8 if rows <= 40 else 7)
    name_time_axis(axes, shown, ticks=9)
    if rows < released.all_bins:
        axes.set_ylabel(f"{rows} of {released.all_bins:,} bins, by largest sum" if options.bins is None else "bins")
    colours.bar(figure, axes, unit if length == 1 else f"{unit}, mean of {bucket_name(shown)}")
    _mark_fresh(axes, shown)
    _legend(figure, shown, level)


def _mark_fresh(axes: Axes, shown: Released) -> None:
    """Marks above the columns that were released afresh, where others are repeated."""
    fresh = shown.fresh.any(axis=0)
    if fresh.all():
        return
    at = places(shown)
    middle = ((at[:-1] + at[1:]) / 2)[fresh]
    axes.plot(middle, np.full(len(middle), -0.5), "v", color=INK, markersize=4, clip_on=False, zorder=5)


def draw_grids(figure: Figure, released: Released, options: PlotOptions, unit: str, level: float) -> None:
    """The bins of two attributes as a plane, for up to six steps."""
    chosen = np.unique(np.linspace(0, released.steps - 1, min(released.steps, MOST_GRIDS)).round().astype(np.int64))
    across = min(3, len(chosen))
    down = -(-len(chosen) // across)
    figure.set_size_inches(
        *(options.size or (7.5 if across == 1 else 4.1 * across, 1.9 + (4.8 if down == 1 else 3.5 * down)))
    )
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    colours = Colours(released, options.value_range)
    up, over = (side(released.bins[name]) for name in released.bins.columns)
    shape = len(up.labels), len(over.labels)
    for axes, step in zip(grid.flat, chosen, strict=False):
        planes = [np.full(shape, np.nan) for _ in range(3)]
        for plane, table in zip(planes, (released.value, released.low, released.high), strict=True):
            plane[up.codes, over.codes] = table[:, step]
        axes.pcolormesh(over.edges, up.edges, colours.paint(*planes), rasterized=True)
        axes.grid(visible=False)
        again = "" if released.fresh[:, step].any() else ", repeated"
        name = "" if released.steps == 1 else f"{moment_name(released, int(step))}{again}"
        axes.set_title(name, fontsize=10, loc="left")
    for axes in list(grid.flat)[len(chosen) :]:
        axes.set_axis_off()
    for axes in grid.flat:
        _name_side(axes.yaxis, up)
        _name_side(axes.xaxis, over)
    for axes in grid[-1]:
        axes.set_xlabel(released.bins.columns[1])
    for axes in grid[:, 0]:
        axes.set_ylabel(released.bins.columns[0])
    colours.bar(figure, list(grid.flat), unit)
    shown = "" if len(chosen) == released.steps else f"{len(chosen)} of {released.steps:,} steps; "
    _legend(figure, released, level, shown)


def _name_side(axis: Any, along: Side) -> None:
    if along.ends is None and len(along.labels) <= 40:
        axis.set_ticks(range(len(along.labels)), along.labels, fontsize=8)
        if axis.axis_name == "x" and sum(map(len, along.labels)) > 50:
            axis.set_tick_params(rotation=60)
    else:
        plain_numbers(axis, 5)


class Colours:
    """A square-root scale from the least sure value to the largest, and quiet colours for what may be zero."""

    def __init__(self, released: Released, value_range: tuple[float, float] | None) -> None:
        matplotlib: Any = drawing()
        colors: Any = drawing("colors")
        sure = released.value[released.low > 0]
        top = float(np.nanmax(sure)) if sure.size else max(float(np.nanmax(released.value)), 1.0)
        low, high = value_range or (0.0, top)
        blues = matplotlib.colormaps["Blues"](np.linspace(0.3, 1.0, 256))
        self._map = colors.ListedColormap(blues)
        self._norm = colors.PowerNorm(0.5, vmin=max(low, 0.0), vmax=high, clip=True)
        self._rgb = colors.to_rgb
        self._any_sure = bool(sure.size)

    def paint(
        self, value: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Red, green and blue of every cell."""
        known = ~np.isnan(value)
        cells = np.asarray(self._map(self._norm(np.where(known, np.maximum(value, 0), 0))))[..., :3].copy()
        unsure = known & (low <= 0) & (high >= 0)
        cells[unsure & (value >= 0)] = self._rgb(NOISE)
        cells[unsure & (value < 0)] = self._rgb(NOISE_BELOW)
        cells[known & (high < 0)] = self._rgb(BELOW)
        cells[~known] = self._rgb(MISSING)
        return cells

    def bar(self, figure: Figure, axes: Axes, unit: str) -> None:
        """The scale beside the picture."""
        if not self._any_sure:
            return
        cm: Any = drawing("cm")
        ticker: Any = drawing("ticker")
        bar = figure.colorbar(cm.ScalarMappable(self._norm, self._map), ax=axes, aspect=35, pad=0.012)
        top = self._norm.vmax
        nice = ticker.MaxNLocator(5).tick_values(0, top)
        small = [tick for tick in ticker.MaxNLocator(4).tick_values(0, float(nice[1])) if 0 < tick < nice[1]][-2:-1]
        bar.set_ticks([tick for tick in (*small, *nice) if 0 <= tick <= top])
        bar.ax.yaxis.set_major_formatter("{x:,.6g}")
        bar.ax.minorticks_off()
        bar.set_label(f"{unit} (square-root scale)")


def _legend(figure: Figure, released: Released, level: float, before: str = "") -> None:
    patches: Any = drawing("patches")
    lines: Any = drawing("lines")
    unsure = (released.low <= 0) & (released.high >= 0)
    known = ~np.isnan(released.value)
    share = float(np.mean(unsure[known]))
    name = released.interval_name(level)
    entries = [
        (
            patches.Patch(facecolor=NOISE, edgecolor="#b5b5b8"),
            f"{name}, holds zero" if released.noise_alone else f"{name} holds zero",
        )
    ]
    if (unsure & known & (released.value < 0)).any():
        entries.append((patches.Patch(facecolor=NOISE_BELOW, edgecolor="#d8b8a4"), "the same, value below zero"))
    if (released.high < 0).any():
        entries.append((patches.Patch(color=BELOW), "all of it is below zero"))
    if not released.fresh.any(axis=0).all():
        mark = lines.Line2D([], [], color=INK, marker="v", markersize=4, linestyle="")
        entries.append((mark, "released afresh; between, repeated as of then"))
    # Nobody knows how often a biased method colours empty cells.
    chance = "" if released.noise_alone else f"; up to {1 - level:.0%} of empty cells are coloured by chance"
    add_legend(figure, entries, f"{before}{share:.0%} of the cells {released.near_zero}{chance}")
