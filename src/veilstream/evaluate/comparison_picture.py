"""The picture of a comparison, drawn from the same means and Student intervals as its table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.evaluate.compare import Comparison
from veilstream.evaluate.drawing import MARKERS, PALETTE, panels
from veilstream.release.plots.style import INK, plain_numbers
from veilstream.release.sinks import replacing

MOST_LINES: Final = 8
MOST_BARS: Final = 16
BESIDE: Final = 1.035
"""Lines stand beside each other by this factor of epsilon, so that their bars can be told apart."""
ERROR_NAMES: Final = {
    "absolute": "mean absolute error of a bin in a step, counts",
    "relative": "mean relative error of a bin in a step",
    "ranges": "mean absolute error of a random range of bins in a step, counts",
}


def name_of_error(metric: str, measure: str | None = None) -> str:
    """A metric in words, of counts or of a measured statistic."""
    return ERROR_NAMES[metric] if measure is None else f"mean {metric} error of {measure} in a bin and step"


def draw_comparison(found: Comparison, metric: str, path: str | Path, name: str, measure: str | None = None) -> Path:
    """Errors with their 95 % intervals: bars at one epsilon, lines over several."""
    label = name_of_error(metric, measure)
    figure, (axes,) = panels(1)
    title = f"Recommended on {name}: {found.recommended}"
    if found.ranking["epsilon"].n_unique() == 1:
        shown = found.ranking.head(MOST_BARS)
        figure.set_size_inches(8.6, 1.4 + 0.3 * shown.height)
        _draw_bars(axes, shown, metric, found.recommended, label)
    else:
        figure.set_size_inches(9.2, 4.8)
        _draw_lines(axes, found.ranking, metric, found.recommended, label)
        figure.legend(loc="outside right upper", fontsize=8.5, title="bars: 95 % of the mean", title_fontsize=8.5)
    figure.suptitle(title, fontsize=11.5, fontweight="bold", x=0.01, ha="left")
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format="png")
    return Path(path)


def _draw_bars(axes: Any, shown: pl.DataFrame, metric: str, recommended: str, error: str) -> None:
    mean, rows = shown[metric].to_numpy(), np.arange(shown.height)
    ends = np.stack([mean - shown["low"].to_numpy(), shown["high"].to_numpy() - mean])
    colours = [PALETTE[0] if label == recommended else "#b9c4cd" for label in shown["mechanism"]]
    axes.barh(rows, mean, color=colours, xerr=ends, error_kw={"ecolor": INK, "elinewidth": 0.9, "capsize": 2})
    axes.set_yticks(rows, shown["mechanism"].to_list(), fontsize=8.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0)
    plain_numbers(axes.xaxis, 6)
    axes.set_xlabel(f"{error}, at epsilon {shown['epsilon'][0]:g} (bars: 95 % of the mean)")


def _draw_lines(axes: Any, ranking: pl.DataFrame, metric: str, recommended: str, error: str) -> None:
    ticker: Any = import_module("matplotlib.ticker")
    best = ranking.group_by("mechanism").agg(pl.col("times the best").log().mean()).sort("times the best")
    shown = best["mechanism"].head(MOST_LINES).to_list()
    if recommended not in shown:
        shown[-1] = recommended
    for number, label in enumerate(shown):
        part = ranking.filter(pl.col("mechanism") == label).sort("epsilon")
        at, mean = part["epsilon"].to_numpy(), part[metric].to_numpy()
        colour = PALETTE[number % len(PALETTE)]
        # A bar that reaches zero has no place on a logarithmic axis; it ends a decade below its mean.
        ends = np.stack([mean - np.maximum(part["low"].to_numpy(), mean / 10), part["high"].to_numpy() - mean])
        beside = at * BESIDE ** (number - (len(shown) - 1) / 2)
        marker = MARKERS[number % len(MARKERS)]
        chosen = {"linewidth": 2.2, "zorder": 4} if label == recommended else {"linewidth": 1.0}
        axes.errorbar(
            beside, mean, ends, color=colour, marker=marker, markersize=5, elinewidth=0.9, label=label, **chosen
        )
    axes.set(xscale="log", yscale="log", xlabel="epsilon of a window", ylabel=error)
    ticks = sorted(ranking["epsilon"].unique())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
