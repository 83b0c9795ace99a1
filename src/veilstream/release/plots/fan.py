"""Fan charts: the quantiles of a column over time, a panel for each bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.extras import drawing
from veilstream.release.plot_options import MOST_PANELS, PlotOptions
from veilstream.release.plots.labels import shortened
from veilstream.release.plots.style import BAND, LINE, Axes, Figure, add_legend, plain_numbers
from veilstream.release.plots.table import Released, arrange, choose
from veilstream.release.plots.times import name_time_axis, places

FAINT: Final = 0.18
"""The strength of the outermost band; each one further in is stronger by as much."""


@dataclass(frozen=True, slots=True)
class Fan:
    """Releases of several quantiles, in the order of their shares of the rows below."""

    labels: tuple[str, ...]
    tables: tuple[Released, ...]

    @classmethod
    def of(cls, frames: Sequence[tuple[str, pl.DataFrame]], options: PlotOptions) -> Fan:
        """From the table of each quantile; all show the bins that the middle one chooses."""
        tables = [arrange(frame, start=options.start, end=options.end) for _, frame in frames]
        middle = choose(tables[len(tables) // 2], options.bins, MOST_PANELS)
        rows = [tables[0].names.index(name) for name in middle.names]
        return cls(tuple(label for label, _ in frames), tuple(table.take(rows) for table in tables))

    @property
    def middle(self) -> int:
        return len(self.labels) // 2

    def pairs(self) -> list[tuple[int, int]]:
        """The quantiles between which bands lie, the widest first; an even number leaves out the upper middle one."""
        return [(index, len(self.labels) - 1 - index) for index in range(len(self.labels) // 2)]


def draw_fan(figure: Figure, fan: Fan, options: PlotOptions, unit: str) -> None:
    """Bands between pairs of quantiles around the line of the middle one."""
    released = fan.tables[fan.middle]
    count = len(released.names)
    columns = 1 if count == 1 else 2 if count <= 4 else 3
    rows = -(-count // columns)
    width, height = (9.0 if columns == 1 else 4.2 * columns), 1.5 + (3.4 if rows == 1 else 2.1 * rows)
    figure.set_size_inches(*(options.size or (width, height)))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for number, axes in enumerate(list(grid.flat)[:count]):
        _draw_panel(axes, fan, number)
        if count > 1:
            axes.set_title(shortened(released.names[number]), fontsize=10.5, loc="left", fontweight="bold")
        axes.margins(x=0.01)
        if options.value_range is not None:
            axes.set_ylim(*options.value_range)
        plain_numbers(axes.yaxis)
    for axes in list(grid.flat)[count:]:
        axes.set_axis_off()
    for column in range(columns):
        lowest = [row for row in range(rows) if row * columns + column < count][-1]
        name_time_axis(grid[lowest, column], released)
    figure.supylabel(unit, fontsize=10)
    lines: Any = drawing("lines")
    patches: Any = drawing("patches")
    entries: list[tuple[Any, str]] = [(lines.Line2D([], [], color=LINE, linewidth=1.6), fan.labels[fan.middle])]
    for depth, (low, high) in enumerate(fan.pairs()):
        band = patches.Patch(color=BAND, alpha=min(1.0, FAINT * (depth + 1)), linewidth=0)
        entries.append((band, f"{fan.labels[low]} to {fan.labels[high].split()[-1]}"))
    add_legend(figure, entries)


def _draw_panel(axes: Axes, fan: Fan, number: int) -> None:
    """Values hold until the next step, so bands and line are drawn as steps; unknown ones leave a gap."""
    at = np.repeat(places(fan.tables[0]), 2)[1:-1]
    values = [np.repeat(table.value[number], 2) for table in fan.tables]
    for low, high in fan.pairs():
        axes.fill_between(at, values[low], values[high], color=BAND, alpha=FAINT, linewidth=0)
    axes.plot(at, values[fan.middle], color=LINE, linewidth=1.4)
