"""Pictures of results: means over seeds with 95 % confidence bands, distinguished by colour, marker and name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.evaluate.summary import summary
from veilstream.extras import drawing
from veilstream.release.plots import STYLE

Drawing: TypeAlias = Any
"""A figure of Matplotlib, whose own types are too loose to check against."""
PALETTE: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a6d3b")
"""Okabe and Ito's colours, distinct to people with any common kind of colour blindness, and a brown."""
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
NARROW: Final = 5.0
"""A logarithmic axis needs means further apart than by this factor."""


def panels(count: int, columns: int = 2, title: str = "") -> tuple[Drawing, list[Any]]:
    """A figure with ``count`` axes in rows of at most ``columns``."""
    matplotlib: Any = drawing()
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    across = min(count, columns)
    rows = -(-count // across)
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(4.6 * across + 0.6, 3.5 * rows + 0.6), layout="constrained")
        agg.FigureCanvasAgg(figure)
        grid = list(figure.subplots(rows, across, squeeze=False).flat)
        if title:
            figure.suptitle(title, fontsize=12, fontweight="bold", x=0.01, ha="left")
    for axes in grid[count:]:
        axes.set_axis_off()
    return figure, grid[:count]


def lines(
    axes: Any,
    table: pl.DataFrame,
    x: str,
    *,
    by: str,
    metric: str,
    names: Sequence[str] | None = None,
    title: str = "",
    labels: tuple[str, str] = ("", ""),
    log: str = "",
    legend: bool = True,
) -> None:
    """Mean of ``metric`` over ``x``, one line with its band for each value of ``by``.

    ``names`` fixes the order and so the colours, alike in all panels; ``log`` names the axes with a logarithmic scale,
    of which y stays linear where all means lie within a factor of ``NARROW``. A linear y begins at zero, so that small
    differences look small.
    """
    means = summary(table, [by, x], metric)
    order = list(names) if names is not None else means[by].unique(maintain_order=True).to_list()
    heights = means["mean"].to_numpy()
    logarithmic = "y" in log and heights.min() > 0 and heights.max() > NARROW * heights.min()
    for number, name in enumerate(order):
        part = means.filter(pl.col(by) == name).sort(x)
        if part.is_empty():
            continue
        colour, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        at, mean = part[x].to_numpy(), part["mean"].to_numpy()
        low = part["low"].to_numpy()
        if logarithmic:
            # A band that reaches zero has no place on a logarithmic axis; it ends a decade below its mean.
            low = np.maximum(low, mean / 10)
        axes.fill_between(at, low, part["high"].to_numpy(), color=colour, alpha=0.18, linewidth=0)
        axes.plot(at, mean, color=colour, marker=marker, markersize=5, linewidth=1.5, label=str(name))
    if "x" in log:
        axes.set_xscale("log")
        _ticks(axes, means[x].unique().sort().to_numpy())
    if logarithmic:
        axes.set_yscale("log")
        if heights.max() < 100 * heights.min():
            _few_decades(axes)
    elif heights.min() >= 0:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(labels[0] or x)
    axes.set_ylabel(labels[1] or metric)
    if title:
        axes.set_title(title, fontsize=10.5, loc="left")
    if legend:
        axes.legend(fontsize=8.5, frameon=False)


def _ticks(axes: Any, values: NDArray[Any]) -> None:
    """Marks a logarithmic axis at the values themselves, where they are few and lie apart."""
    gaps = np.diff(np.log(values.astype(np.float64)))
    if 1 < values.size <= 8 and gaps.min() > 0.09 * gaps.sum():
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()


def _few_decades(axes: Any) -> None:
    """Marks a logarithmic y at 1, 2 and 5 of each decade, in plain numbers."""
    ticker: Any = drawing("ticker")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def shared_legend(figure: Drawing, columns: int = 4) -> None:
    """One legend below all panels, each curve once, where it covers no data."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(columns, len(handles)),
        fontsize=9,
        frameon=False,
    )


def bars(
    axes: Any,
    table: pl.DataFrame,
    x: str,
    *,
    by: str,
    metric: str,
    names: Sequence[str] | None = None,
    title: str = "",
    labels: tuple[str, str] = ("", ""),
    log: bool = False,
    legend: bool = True,
) -> None:
    """Mean of ``metric`` in groups of bars over the values of ``x``, with 95 % error bars."""
    means = summary(table, [by, x], metric)
    groups = means[x].unique(maintain_order=True).to_list()
    order = list(names) if names is not None else means[by].unique(maintain_order=True).to_list()
    width = 0.8 / max(len(order), 1)
    for number, name in enumerate(order):
        part = means.filter(pl.col(by) == name)
        at = np.array([groups.index(value) for value in part[x]]) + (number - (len(order) - 1) / 2) * width
        mean = part["mean"].to_numpy()
        spread = np.stack([mean - part["low"].to_numpy(), part["high"].to_numpy() - mean])
        colour = PALETTE[number % len(PALETTE)]
        axes.bar(at, mean, width * 0.92, color=colour, label=str(name), yerr=spread, error_kw={"elinewidth": 0.9})
    axes.set_xticks(range(len(groups)), [str(value) for value in groups])
    axes.grid(visible=False, axis="x")
    if log:
        axes.set_yscale("log")
        if means["mean"].to_numpy().max() < 100 * means["mean"].to_numpy().min():
            _few_decades(axes)
    axes.set_xlabel(labels[0] or x)
    axes.set_ylabel(labels[1] or metric)
    if title:
        axes.set_title(title, fontsize=10.5, loc="left")
    if legend:
        axes.legend(fontsize=8.5, frameon=False)
