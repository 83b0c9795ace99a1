"""One-time histograms on lines and planes that nothing was tuned on, against the method that is best in hindsight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.held_back_lines import (
    SHOWN,
    fresh_planes,
    held_back_lines,
    hindsight,
    known_planes,
    newest_planes,
    second_lines,
    second_planes,
    third_lines,
)
from benchmarks.histogram_errors import AUTO, DATA, Counts, catalogue, errors, for_use, peers_on_lines
from benchmarks.report import Table
from benchmarks.uniform_grid import uniform_grid

RUNS: Final = 10
PLANE_RUNS: Final = 5
"""Of each method: the best of many is picked by its mean, which chance must not decide."""


def run() -> Sequence[Table]:
    """Ranges and single bins, of what was held back first."""
    tables: list[Table] = []
    for data, title, notes in (
        (third_lines(), "Lines held back", _THIRD),
        (second_lines(DATA), "Lines that judged the second edition", _SECOND),
        (held_back_lines(DATA), "Other lines", _FIRST),
    ):
        tables += _both(data, (4096,), title, notes)
    for data, title, notes in (
        (newest_planes(), "Planes held back", _NEWEST_PLANES),
        (fresh_planes(), "Planes that judged the third edition", _FRESH_PLANES),
        (second_planes(), "Planes that judged boxes", _SECOND_PLANES),
        (known_planes(DATA), "Other planes", _KNOWN_PLANES),
    ):
        tables += _both(data, (256, 256), title, notes)
    return tables


def _both(data: Mapping[str, Counts], shape: tuple[int, ...], title: str, notes: str) -> Sequence[Table]:
    if not data:
        return []
    line = len(shape) == 1
    methods = {**catalogue(), **(peers_on_lines() if line else {"ug": uniform_grid})}
    found = errors(data, shape, methods, RUNS if line else PLANE_RUNS)
    uses = ("ranges", "bins")
    named = ("ranges" if line else "boxes", "single bins")
    return [
        hindsight(f"{title}, {name}", notes, for_use(each, use), AUTO)
        for use, name, each in zip(uses, named, found, strict=True)
    ]


_HOW: Final = (
    "Errors, means of {runs} runs, over that of the method that is best in hindsight for the data and epsilon; `auto` "
    f"(told what it is for), the {SHOWN - 1} methods of least geometric mean, and {{peer}}."
)
_THIRD: Final = (
    "Lines of 4,096 bins, picked by the names of tables and columns alone, that nobody looked at before the rules "
    "of `auto` for lines (those of its third edition) and all methods were fixed. "
    + _HOW.format(runs=RUNS, peer="OpenDP's tree")
)
_SECOND: Final = (
    "Lines that nobody had looked at before the second edition of `auto` was fixed. Nothing was tuned on them, but "
    "their figures were known when the third was made. As above."
)
_FIRST: Final = "The same of lines whose figures were known when the second edition was made. As above."
_NEWEST_PLANES: Final = (
    "Planes of 256 × 256 cells, picked by the names of tables and columns alone, that nobody looked at before the "
    "rules of `auto` for tables (its fourth edition) and all methods were fixed. "
    + _HOW.format(runs=PLANE_RUNS, peer="none of OpenDP: its tree is of lines")
)
_FRESH_PLANES: Final = (
    "Planes that nobody looked at before the third edition of `auto` was fixed. It was beyond a tenth on their single "
    "bins; the fourth was found on them, on the planes below and on DPBench's. As above."
)
_SECOND_PLANES: Final = (
    "Planes that nobody looked at before an earlier rule for boxes was fixed. Of those that the present rules were "
    "found on. As above."
)
_KNOWN_PLANES: Final = (
    "Planes that showed that the very first rule for boxes was not good enough. Of those that the present rules were "
    "found on. As above."
)
