"""Pictures of releases: what was published and how sure it is, never what was true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from veilstream.data import Categories, Domain
from veilstream.errors import InvalidInputError
from veilstream.extras import drawing
from veilstream.release.measure import Measure
from veilstream.release.plot_options import MOST_PANELS, MOST_ROWS, Kind, PlotOptions
from veilstream.release.plots.bars import draw_bars
from veilstream.release.plots.fan import Fan, draw_fan
from veilstream.release.plots.heat import draw_grids, draw_map
from veilstream.release.plots.labels import borders
from veilstream.release.plots.lines import Beside, draw_lines
from veilstream.release.plots.page import MOST_CELLS, write_page
from veilstream.release.plots.style import STYLE, Figure, add_words, new_figure
from veilstream.release.plots.table import Released, arrange, choose
from veilstream.release.sinks import replacing

MOST_PLANE_CELLS: Final = 4_000_000
"""Bins × steps that are read to draw planes."""
SUFFIXES: Final = (".png", ".pdf", ".svg", ".html")


def bins_drawn(domain: Domain, steps: int, path: str | Path, kind: Kind = "auto") -> int:
    """How many bins a picture has room for: a page and a plane take many, other pictures ``MOST_ROWS``.

    >>> bins_drawn(Domain.from_json({"x": {"low": 0, "high": 1, "cells": 20}, "y": {"low": 0, "high": 1, "cells": 20}}),
    ...            24, "map.png")
    400
    """
    if Path(path).suffix.lower() == ".html":
        return max(1, MOST_CELLS // steps)
    numeric = len(domain.axes) == 2 and not any(isinstance(axis, Categories) for axis in domain.axes.values())
    plane = kind == "grid" or (kind == "auto" and numeric)
    return domain.bins if plane and domain.bins * steps <= MOST_PLANE_CELLS else MOST_ROWS


def plot_releases(
    frame: pl.DataFrame,
    path: str | Path,
    *,
    title: str = "Private releases",
    subtitle: str = "",
    level: float = 0.95,
    measure: Measure | str = "released count",
    options: PlotOptions = PlotOptions(),  # noqa: B008 (frozen)
    heat_map: bool | None = None,
    truth: pl.DataFrame | None = None,
    truth_note: str = "",
    first: pl.DataFrame | None = None,
) -> Path:
    """Draw a tidy table of releases to a PNG, PDF or SVG file, or to an HTML page that can be explored.

    The table has the columns step, time, attributes, value, low, high and fresh. Up to twelve bins become small
    multiples with error bands; more become a heat map of time and bins; a single step becomes bars; many
    bins of two numeric attributes become planes. ``options`` chooses otherwise, ``measure`` names the values
    ("people per hour").
    ``heat_map`` is short for the kinds map (True) and lines (False). ``truth`` (columns step, attributes, value) is
    for demonstrations on public data alone, and ``truth_note``, which must then be given, says so in the picture.
    Where the table holds revised values, ``first`` is that of the values as first released, which lines show faintly.
    """
    if truth is not None and not truth_note:
        raise InvalidInputError(name="plot", value=path, limit="true counts need a note on why they may be shown")
    if not Path(path).name.lower().endswith(SUFFIXES):
        raise InvalidInputError(name="plot", value=path, limit=f"its name must end in one of {', '.join(SUFFIXES)}")
    released = arrange(frame, start=options.start, end=options.end)
    unit = measure if isinstance(measure, str) else measure.label
    words = "\n".join(text for text in (subtitle, truth_note) if text)
    if Path(path).suffix.lower() == ".html":
        write_page(path, released, title=title, subtitle=words, unit=unit, level=level, bins=options.bins)
        return Path(path)
    beside = Beside(truth, first)
    kind = options.kind if options.kind != "auto" else _kind(released, heat_map, options)
    _save(path, title, words, lambda figure: _draw(figure, kind, released, options, unit, level, beside))
    return Path(path)


def plot_quantiles(
    frames: Sequence[tuple[str, pl.DataFrame]],
    path: str | Path,
    *,
    title: str,
    subtitle: str = "",
    level: float = 0.95,
    measure: str = "quantiles",
    options: PlotOptions = PlotOptions(),  # noqa: B008 (frozen)
) -> Path:
    """Draw the tables of several quantiles, in rising order, as fan charts; a page shows the middle one alone."""
    label, middle = frames[len(frames) // 2]
    if Path(path).suffix.lower() == ".html" or options.kind not in ("auto", "lines"):
        unit = f"{label} {measure}"
        return plot_releases(middle, path, title=title, subtitle=subtitle, level=level, measure=unit, options=options)
    fan = Fan.of(frames, options)
    _save(path, title, subtitle, lambda figure: draw_fan(figure, fan, options, measure))
    return Path(path)


def _save(path: str | Path, title: str, words: str, draw: Callable[[Figure], None]) -> None:
    """Draw a picture and put it in place whole or not at all."""
    matplotlib: Any = drawing()
    with matplotlib.rc_context(STYLE):
        figure = new_figure()
        draw(figure)
        add_words(figure, title, words)
        with replacing(path) as unfinished:
            # Agg writes what the final name asks for, not what the temporary one does.
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix.lstrip(".").lower())


def _kind(released: Released, heat_map: bool | None, options: PlotOptions) -> Kind:
    if heat_map is not None:
        return "map" if heat_map else "lines"
    asked = len(options.bins) if isinstance(options.bins, tuple) else options.bins or len(released.names)
    plane = released.bins.width == 2 and asked > MOST_ROWS and options.bins is None
    numeric = [borders(released.bins[name].unique().to_list()) is not None for name in released.bins.columns]
    if plane and (all(numeric) or (any(numeric) and released.steps == 1)):
        return "grid"
    if released.steps == 1 and len(released.names) > 1:
        return "bars"
    return "map" if asked > MOST_PANELS else "lines"


def _draw(
    figure: Figure,
    kind: Kind,
    released: Released,
    options: PlotOptions,
    unit: str,
    level: float,
    beside: Beside,
) -> None:
    match kind:
        case "map":
            draw_map(figure, choose(released, options.bins, MOST_ROWS), options, unit, level)
        case "bars":
            draw_bars(figure, choose(released, options.bins, MOST_ROWS), options, unit, level)
        case "grid":
            if released.bins.width != 2:
                raise InvalidInputError(
                    name="kind",
                    value="grid",
                    limit=f"it needs bins of 2 attributes, these have {released.bins.width}; choose another kind",
                    outcome="nothing was drawn",
                )
            draw_grids(figure, released, options, unit, level)
        case _:
            draw_lines(figure, choose(released, options.bins, MOST_PANELS), options, unit, level, beside)
