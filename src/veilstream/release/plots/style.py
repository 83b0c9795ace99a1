"""Colours and the look that all pictures share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

from veilstream.extras import drawing

Figure: TypeAlias = Any
Axes: TypeAlias = Any
"""Matplotlib's own types are too loose to check against."""

TITLE_INCHES: Final = 0.36
"""From the top of a figure to its legend."""
LETTER_INCHES: Final = 0.073
MARK_INCHES: Final = 0.55
"""What a letter and a mark of a legend take of its width."""
INK: Final = "#22313f"
QUIET: Final = "#8a949e"
LINE: Final = "#0072b2"
BAND: Final = "#56b4e9"
TRUTH: Final = "#d55e00"
"""Blue and vermilion of Okabe and Ito: told apart with every common kind of colour blindness, and in grey."""

ROUND_STEPS: Final = [1, 2, 2.5, 5, 10]
"""Distances of two marks, up to powers of ten."""

STYLE: Final[dict[str, Any]] = {
    "font.size": 10,
    "axes.edgecolor": QUIET,
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
    "hatch.linewidth": 0.6,
}


def new_figure() -> Figure:
    """An empty figure that needs no display. Call it inside ``rc_context(STYLE)``."""
    figures: Any = drawing("figure")
    agg: Any = drawing("backends.backend_agg")
    figure = figures.Figure(layout="constrained")
    figure.get_layout_engine().set(h_pad=0.07, w_pad=0.07)
    agg.FigureCanvasAgg(figure)
    return figure


def add_legend(figure: Figure, entries: Sequence[tuple[Any, str]], title: str = "") -> None:
    """A legend in a row of its own below the figure's title; call it when the size of the figure is set."""
    handles, labels = zip(*entries, strict=True)
    below = 1 - TITLE_INCHES / figure.get_size_inches()[1]
    figure.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0.012, below),
        ncols=-(-len(labels) // _rows(labels, figure)),
        fontsize=9,
        title=title or None,
        title_fontsize=9,
        alignment="left",
        borderaxespad=0.0,
        borderpad=0.0,
    )


def _rows(labels: Sequence[str], figure: Figure) -> int:
    """How many rows of a legend hold these labels, each with its mark, within the width of the figure."""
    needed = sum(LETTER_INCHES * len(label) + MARK_INCHES for label in labels)
    return min(len(labels), math.ceil(needed / float(figure.get_size_inches()[0])))


def _lines_of(legend: Any) -> int:
    """The lines that a legend takes: its title and its rows."""
    labels = [text.get_text() for text in legend.get_texts()]
    return bool(legend.get_title().get_text()) + _rows(labels, legend.get_figure())


def add_words(figure: Figure, title: str, words: str) -> None:
    """The title with room for the legend below it, and a line under the picture."""
    lines = sum(map(_lines_of, figure.legends))
    figure.suptitle(title + "\n" * lines, x=0.012, ha="left", fontsize=14, fontweight="bold", linespacing=1.25)
    if words:
        figure.supxlabel(words, x=0.012, ha="left", fontsize=9)


def plain_numbers(axis: Any, ticks: int = 4) -> None:
    """Few marks, and numbers with commas and as many digits as the distance of two marks needs."""
    ticker: Any = drawing("ticker")
    axis.set_major_locator(ticker.MaxNLocator(ticks, steps=ROUND_STEPS))

    def name(value: float, _position: int | None) -> str:
        return tick_name(value, axis.get_majorticklocs())

    axis.set_major_formatter(ticker.FuncFormatter(name))


def tick_name(value: float, ticks: Sequence[float]) -> str:
    """A number with the digits that the distance between two of the ticks needs, in millions where they are that large.

    >>> [tick_name(value, [39.9, 39.95, 40.0]) for value in (39.9, 40.0)], tick_name(6e5, [0, 6e5, 1.2e6])
    (['39.90', '40.00'], '0.6 M')
    """
    millions = max(map(abs, ticks)) >= 1e6
    scale = 1e6 if millions else 1.0
    step = min((b - a for a, b in pairwise(ticks)), default=1.0) / scale
    digits = next((d for d in range(10) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 10)
    if value == 0:
        return "0"
    return f"{value / scale:,.{digits}f}" + (" M" if millions else "")
