"""One release of many bins as bars with error bars."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from veilstream.extras import drawing
from veilstream.release.plot_options import PlotOptions
from veilstream.release.plots.labels import shortened
from veilstream.release.plots.style import INK, LINE, QUIET, Figure, add_legend, plain_numbers
from veilstream.release.plots.table import Released
from veilstream.release.plots.times import moment_name

FADED: Final = "#c3cdd6"


def draw_bars(figure: Figure, released: Released, options: PlotOptions, unit: str, level: float) -> None:
    """The last step that is shown; bars that reach no further than their noise are grey."""
    value, low, high = (table[:, -1] for table in (released.value, released.low, released.high))
    rows = np.arange(len(released.names))
    figure.set_size_inches(*(options.size or (8.5, min(14.0, 1.7 + 0.21 * len(rows)))))
    axes = figure.subplots()
    colours = np.where((low <= 0) & (high >= 0), FADED, LINE)
    ends = np.stack([value - low, high - value])
    axes.barh(
        rows, value, color=colours, height=0.72, xerr=ends, error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2}
    )
    for row in rows:
        half = (high[row] - low[row]) / 2
        axes.annotate(
            f"{value[row]:,.0f} ± {half:,.3g}" if half else f"{value[row]:,.0f}",
            (max(high[row], 0), row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    axes.margins(x=0.12)
    axes.set_yticks(rows, [shortened(name) for name in released.names], fontsize=9 if len(rows) <= 30 else 7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.axvline(0, color=QUIET, linewidth=0.8)
    if options.value_range is not None:
        axes.set_xlim(*options.value_range)
    plain_numbers(axes.xaxis, 6)
    moment = "" if released.steps == 1 else f", step of {moment_name(released, released.steps - 1)}"
    axes.set_xlabel(f"{unit}{moment}")
    patches: Any = drawing("patches")
    lines: Any = drawing("lines")
    entries = [
        (patches.Patch(color=LINE), "released"),
        (patches.Patch(color=FADED), released.near_zero),
        (lines.Line2D([], [], color=INK, marker="|"), released.interval_name(level)),
    ]
    add_legend(figure, entries)
    by = ", ".join(released.bins.columns)
    axes.set_ylabel(f"{len(rows)} of {released.all_bins:,} bins" if len(rows) < released.all_bins else by)
