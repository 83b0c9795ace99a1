"""A page of releases that can be explored: one file, no network, nothing but what was published."""

from __future__ import annotations

import base64
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.release.plots.labels import side
from veilstream.release.plots.table import Released, choose
from veilstream.release.sinks import replacing

MOST_CELLS: Final = 400_000
"""Bins × steps of one page, about nine megabytes; beyond, the largest bins alone are shown."""

SCRIPTS: Final = ("page.js", "plane.js", "begin.js")


def write_page(
    path: str | Path,
    released: Released,
    *,
    title: str,
    subtitle: str,
    unit: str,
    level: float,
    bins: int | tuple[str, ...] | None,
) -> None:
    """Write the page; its data are embedded, and its policy forbids it to load anything."""
    shown = choose(released, bins, max(1, MOST_CELLS // released.steps))
    words = [subtitle] if subtitle else []
    if len(shown.names) < released.all_bins:
        words.append(f"{len(shown.names):,} of {released.all_bins:,} bins")
    folder = files("veilstream.release.plots")
    fields = {
        "title": html.escape(title),
        "subtitle": html.escape("; ".join(words)),
        "unit": html.escape(unit),
        "interval": html.escape(shown.interval_name(level)),
        "data": _embedded(shown, unit),
        "script": "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    text = folder.joinpath("page.html").read_text(encoding="utf-8")
    # In one pass: what is put in may look like a place for something else.
    text = re.sub("@([a-z]+)@", lambda place: fields[place[1]], text)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _embedded(shown: Released, unit: str) -> str:
    milliseconds = shown.times / 1000 if shown.zone is not None else shown.times
    content: dict[str, Any] = {
        "names": shown.names,
        "unit": unit,
        "zone": shown.zone,
        "plane": _plane(shown.bins),
        "steps": shown.steps,
        "first": int(np.argmax(np.nansum(shown.value, axis=1))),
        "times": _packed(milliseconds, "<f8"),
        "value": _packed(shown.value, "<f8"),
        "below": _packed(shown.value - shown.low, "<f4"),
        "above": _packed(shown.high - shown.value, "<f4"),
        "fresh": _packed(shown.fresh, "u1"),
    }
    # A name of a bin must not end the script it stands in.
    return json.dumps(content).replace("<", "\\u003c")


def _plane(bins: pl.DataFrame) -> dict[str, Any] | None:
    """Where bins of two numeric attributes lie: names, edges and places; None for others."""
    if bins.width != 2 or bins.height < 2:
        return None
    up, across = (side(bins[name]) for name in bins.columns)
    if up.ends is None or across.ends is None:
        return None
    return {
        key: {"name": name, "edges": along.edges.tolist(), "codes": along.codes.tolist()}
        for key, name, along in zip(("up", "across"), bins.columns, (up, across), strict=True)
    }


def _packed(table: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(table, dtype=kind).tobytes()).decode("ascii")
