"""Pictures of releases: what was published and how sure it is, never what was true."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from veilstream.errors import InvalidInputError
from veilstream.release.sinks import OWN_COLUMNS, replacing

Figure: TypeAlias = Any
Axes: TypeAlias = Any
"""Matplotlib's own types are too loose to check against."""

SUFFIXES: Final = (".png", ".pdf", ".svg")
MOST_PANELS: Final = 12
MOST_ROWS: Final = 60
INK: Final = "#22313f"
LINE: Final = "#0072b2"
BAND: Final = "#56b4e9"
TRUTH: Final = "#d55e00"
"""Blue and vermilion of Okabe and Ito: told apart with every common kind of colour blindness, and in grey."""

STYLE: Final[dict[str, Any]] = {
    "font.size": 10,
    "axes.edgecolor": "#8a949e",
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e3e7ea",
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def plot_releases(
    frame: pl.DataFrame,
    path: str | Path,
    *,
    title: str = "Private releases",
    subtitle: str = "",
    level: float = 0.95,
    most_panels: int = MOST_PANELS,
    heat_map: bool | None = None,
    truth: pl.DataFrame | None = None,
    truth_note: str = "",
) -> Path:
    """Draw a tidy table of releases to a PNG, PDF or SVG file.

    Up to ``most_panels`` bins become small multiples with error bands; more become a heat map of time and bins, unless
    ``heat_map=False`` asks for panels of the largest ones. ``truth`` (columns step, attributes, value) is
    for demonstrations on public data alone, and ``truth_note``, which must then be given, says so in the picture.
    """
    if frame.is_empty():
        raise InvalidInputError(name="plot", value=path, limit="0 releases to draw, at least 1 is needed")
    if truth is not None and not truth_note:
        raise InvalidInputError(name="plot", value=path, limit="true counts need a note on why they may be shown")
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    agg: Any = import_module("matplotlib.backends.backend_agg")
    names = [name for name in frame.columns if name not in OWN_COLUMNS]
    bins = _bins(frame, names)
    as_map = len(bins) > most_panels if heat_map is None else heat_map
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(layout="constrained")
        figure.get_layout_engine().set(h_pad=0.07, w_pad=0.07)
        agg.FigureCanvasAgg(figure)
        if as_map:
            _draw_map(figure, frame, names, bins)
        else:
            _draw_panels(figure, frame, names, bins[:most_panels], truth)
        _draw_words(figure, title, subtitle, truth_note)
        if not as_map:
            _draw_legend(figure, level, truth is not None)
        with replacing(path) as unfinished:
            # Agg writes what the final name asks for, not what the temporary one does.
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)


def _bins(frame: pl.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """The bins by falling sum of released values."""
    if not names:
        return [()]
    totals = frame.group_by(names, maintain_order=True).agg(pl.col("value").sum().alias("value"))
    return totals.sort("value", descending=True, maintain_order=True).select(names).rows()


def _of_bin(frame: pl.DataFrame, names: list[str], place: tuple[Any, ...]) -> pl.DataFrame:
    for name, value in zip(names, place, strict=True):
        frame = frame.filter(pl.col(name) == value)
    return frame.sort("step")


def _label(place: Sequence[Any]) -> str:
    return ", ".join(str(part) for part in place) or "total"


def _times(frame: pl.DataFrame) -> Any:
    column = frame["time"]
    return column.to_list() if isinstance(column.dtype, pl.Datetime) else column.to_numpy()


def _draw_panels(
    figure: Figure,
    frame: pl.DataFrame,
    names: list[str],
    bins: list[tuple[Any, ...]],
    truth: pl.DataFrame | None,
) -> None:
    columns = min(len(bins), 1 if len(bins) == 1 else 2 if len(bins) <= 4 else 3)
    rows = -(-len(bins) // columns)
    figure.set_size_inches(9 if columns == 1 else 4.2 * columns, 1.2 + (3.6 if rows == 1 else 2.1 * rows))
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axes, place in zip(grid.flat, bins, strict=False):
        part = _of_bin(frame, names, place)
        known = None if truth is None else _of_bin(truth, names, place).join(part.select("step", "time"), on="step")
        _draw_panel(axes, part, known)
        axes.set_title(_label(place), fontsize=10.5, loc="left", fontweight="bold")
    for axes in list(grid.flat)[len(bins) :]:
        axes.set_axis_off()
    for column in range(columns):
        lowest = [row for row in range(rows) if row * columns + column < len(bins)][-1]
        _name_times(grid[lowest, column], frame)


def _draw_panel(axes: Axes, part: pl.DataFrame, known: pl.DataFrame | None) -> None:
    times, value = _times(part), part["value"].to_numpy()
    low, high = part["low"].to_numpy(), part["high"].to_numpy()
    steady = "steps-post" if not part["fresh"].all() else "default"
    axes.fill_between(
        times,
        low,
        high,
        step="post" if steady == "steps-post" else None,
        color=BAND,
        alpha=0.35,
        linewidth=0,
        rasterized=len(part) > 5000,
    )
    if known is not None:
        axes.plot(_times(known), known["value"].to_numpy(), color=TRUTH, linewidth=1.1, zorder=3)
    marker = "o" if len(part) == 1 else ""
    axes.plot(times, value, color=LINE, linewidth=1.3, drawstyle=steady, marker=marker)
    axes.axhline(0, color="#8a949e", linewidth=0.8)
    axes.margins(x=0.01)
    _plain_numbers(axes)


def _plain_numbers(axes: Axes) -> None:
    ticker: Any = import_module("matplotlib.ticker")
    axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(_with_commas))


def _name_times(axes: Axes, frame: pl.DataFrame) -> None:
    axes.tick_params(axis="x", labelbottom=True)
    if isinstance(frame["time"].dtype, pl.Datetime):
        dates: Any = import_module("matplotlib.dates")
        locator = dates.AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    else:
        axes.set_xlabel("step begins at")


def _draw_map(figure: Figure, frame: pl.DataFrame, names: list[str], bins: list[tuple[Any, ...]]) -> None:
    ticker: Any = import_module("matplotlib.ticker")
    chosen = {place: row for row, place in enumerate(sorted(bins[:MOST_ROWS], key=_in_order(frame, names)))}
    steps = frame["step"].unique().sort()
    table = np.full((len(chosen), len(steps)), np.nan)
    places = [chosen.get(place, -1) for place in frame.select(names).rows()]
    at = np.searchsorted(steps.to_numpy(), frame["step"].to_numpy())
    rows = np.array(places)
    table[rows[rows >= 0], at[rows >= 0]] = frame["value"].to_numpy()[rows >= 0]
    figure.set_size_inches(11, min(9.5, 2.2 + 0.13 * len(chosen)))
    axes = figure.subplots()
    # Noise below zero says no more than zero does; the square root keeps small bins visible beside large ones.
    shown = np.sqrt(np.maximum(table, 0))
    picture = axes.imshow(shown, aspect="auto", cmap="cividis", interpolation="nearest")
    axes.grid(visible=False)
    axes.set_yticks(range(len(chosen)), [_label(place) for place in chosen], fontsize=8 if len(chosen) <= 40 else 7)
    times = frame.sort("step")["time"].unique(maintain_order=True).to_list()
    axes.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(partial(_time_name, times)))
    bar = figure.colorbar(picture, ax=axes, aspect=35, pad=0.012)
    bar.ax.yaxis.set_major_formatter(ticker.FuncFormatter(_squared))
    bar.set_label("released count (square-root scale)")
    if len(bins) > MOST_ROWS:
        axes.set_ylabel(f"the {MOST_ROWS} largest of {len(bins):,} bins")


def _in_order(frame: pl.DataFrame, names: list[str]) -> Any:
    order = {place: row for row, place in enumerate(frame.select(names).unique(maintain_order=True).rows())}
    return order.__getitem__


def _with_commas(value: float, _position: int | None = None) -> str:
    return f"{value:,.6g}"


def _squared(value: float, _position: int | None = None) -> str:
    return f"{value * value:,.0f}"


def _time_name(times: list[Any], value: float, _position: int | None = None) -> str:
    index = round(value)
    if not 0 <= index < len(times):
        return ""
    moment = times[index]
    if not isinstance(moment, datetime):
        return str(moment)
    return moment.strftime("%Y-%m-%d" if moment.hour == moment.minute == 0 else "%m-%d %H:%M")


def _draw_words(figure: Figure, title: str, subtitle: str, note: str) -> None:
    figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold")
    words = "\n".join(text for text in (subtitle, note) if text)
    if words:
        figure.supxlabel(words, x=0.012, ha="left", fontsize=9)


def _draw_legend(figure: Figure, level: float, with_truth: bool) -> None:
    lines: Any = import_module("matplotlib.lines")
    patches: Any = import_module("matplotlib.patches")
    handles: list[Any] = [
        lines.Line2D([], [], color=LINE, linewidth=1.6),
        patches.Patch(color=BAND, alpha=0.35, linewidth=0),
    ]
    labels = ["released", f"{level:.0%} of the noise"]
    if with_truth:
        handles.append(lines.Line2D([], [], color=TRUTH, linewidth=1.2))
        labels.append("true count")
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), fontsize=9)
