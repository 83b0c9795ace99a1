"""Pictures of released points: sorted points by rank, a median on its range, counts on a line or a plane."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.errors import InvalidInputError
from veilstream.extras import drawing
from veilstream.release.plot_options import PlotOptions
from veilstream.release.plots.heat import draw_grids
from veilstream.release.plots.style import (
    BAND,
    LINE,
    QUIET,
    STYLE,
    Axes,
    Figure,
    add_legend,
    add_words,
    new_figure,
    plain_numbers,
)
from veilstream.release.plots.table import arrange
from veilstream.release.sinks import OWN_COLUMNS, replacing

PICTURES: Final = (".png", ".pdf", ".svg")
COUNTED: Final = "points"
RANK: Final = "rank"


def require_drawable(coordinates: Sequence[str]) -> None:
    """Refuse a picture of a room before anything is spent."""
    if len(coordinates) > 2:
        raise InvalidInputError(
            name="plot",
            value=f"{len(coordinates)} coordinates",
            limit="points on a line or a plane can be drawn, those of a room cannot",
            outcome="nothing was read",
            next_step="leave --plot out, or release two of the coordinates",
        )


def plot_points(
    table: pl.DataFrame,
    path: str | Path,
    *,
    coordinates: Sequence[str],
    ends: tuple[float, float],
    title: str,
    subtitle: str,
    level: float,
    note: str = "",
) -> Path:
    """Draw a table of released points to a PNG, PDF or SVG file.

    It holds a ``rank`` and a coordinate (sorted points), one or two coordinates and the number of ``points`` at each
    node of a grid, or one number alone (a median). ``ends`` is the public range of the first coordinate, ``note`` what
    a median's interval means.
    """
    require_drawable(coordinates)
    matplotlib: Any = drawing()
    with matplotlib.rc_context(STYLE):
        figure = new_figure()
        if len(coordinates) == 2:
            _draw_plane(figure, table, coordinates, level)
        elif table.height == 1:
            _draw_median(figure, float(table[coordinates[0]][0]), coordinates[0], ends)
        else:
            _draw_curve(figure, table, coordinates[0], level)
        add_words(figure, title, "\n".join(text for text in (subtitle, note) if text))
        with replacing(path) as unfinished:
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)


def _draw_median(figure: Figure, value: float, name: str, ends: tuple[float, float]) -> None:
    """The number on its public range."""
    figure.set_size_inches(8.5, 2.1)
    axes = figure.subplots()
    axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.plot([value], [0], "o", color=LINE, markersize=9)
    axes.annotate(f"{value:,.6g}", (value, 0), xytext=(0, 9), textcoords="offset points", ha="center")
    margin = 0.02 * (ends[1] - ends[0])
    axes.set(xlim=(ends[0] - margin, ends[1] + margin), ylim=(-1, 1.6), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"{name}, on its public range")
    plain_numbers(axes.xaxis, 8)


def _draw_curve(figure: Figure, table: pl.DataFrame, name: str, level: float) -> None:
    """Sorted points by their rank, or the number of points along a line."""
    figure.set_size_inches(9.0, 4.6)
    axes = figure.subplots()
    ranked = RANK in table.columns
    at, value = (RANK, name) if ranked else (name, COUNTED)
    x, y = table[at].to_numpy(), table[value].to_numpy()
    known = {"low", "high"} <= set(table.columns)
    if known:
        axes.fill_between(x, table["low"].to_numpy(), table["high"].to_numpy(), color=BAND, alpha=0.35, linewidth=0)
    axes.plot(x, y, color=LINE, linewidth=1.3)
    axes.margins(x=0.01)
    if not ranked:
        axes.axhline(0, color=QUIET, linewidth=0.8)
    axes.set_xlabel("rank of the point, from the lowest" if ranked else name)
    axes.set_ylabel(name if ranked else "points around each node")
    for axis in (axes.xaxis, axes.yaxis):
        plain_numbers(axis, 6)
    _name_curve(figure, axes, ranked=ranked, level=level if known else None)


def _name_curve(figure: Figure, axes: Axes, *, ranked: bool, level: float | None) -> None:
    lines: Any = drawing("lines")
    patches: Any = drawing("patches")
    entries: list[tuple[Any, str]] = [(lines.Line2D([], [], color=LINE, linewidth=1.6), "released")]
    if level is not None:
        of = "interval of one point's noise, before sorting" if ranked else "interval of the value before noise"
        entries.append((patches.Patch(color=BAND, alpha=0.35, linewidth=0), f"{level:.0%} {of}"))
    add_legend(figure, entries)
    axes.set_axisbelow(True)


def _draw_plane(figure: Figure, table: pl.DataFrame, coordinates: Sequence[str], level: float) -> None:
    """Counts at the nodes of a grid, each a cell around its node."""
    x, y = (_cells(table[name]) for name in coordinates)
    ends = [table[name if name in table.columns else COUNTED] for name in ("low", "high")]
    # The second of the bins' attributes lies along the horizontal axis.
    frame = pl.DataFrame([y, x, table[COUNTED].alias("value"), ends[0].alias("low"), ends[1].alias("high")])
    once = (pl.lit(0).alias("step"), pl.lit(0).alias("time"), pl.lit(value=True).alias("fresh"))
    draw_grids(figure, arrange(frame.with_columns(*once)), PlotOptions(kind="grid"), "points around each node", level)


def _cells(column: pl.Series) -> pl.Series:
    """Names of the cells around the places of a column, as intervals."""
    places = np.unique(column.to_numpy())
    half = float(np.min(np.diff(places))) / 2 if len(places) > 1 else 0.5
    # A coordinate may have the name of a column that every table of releases has.
    name = f"{column.name} " if column.name in OWN_COLUMNS else column.name
    return pl.Series(name, [f"[{place - half!r}, {place + half!r})" for place in column.to_list()])
