"""One-time histograms on lines that nothing was tuned on, against the method that is best in hindsight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.held_back_lines import (
    SHOWN,
    held_back_lines,
    hindsight,
    second_lines,
    third_lines,
)
from benchmarks.histogram_errors import AUTO, DATA, Counts, Estimate, catalogue, errors, for_use, peers_on_lines
from benchmarks.report import Table

RUNS: Final = 10
"""Of each method: the best of many is picked by its mean, which chance must not decide."""


def run() -> Sequence[Table]:
    """Ranges and single bins, of what was held back first."""
    tables: list[Table] = []
    for data, title, notes in (
        (third_lines(), "Lines held back", _THIRD),
        (second_lines(DATA), "Lines that judged the second edition", _SECOND),
        (held_back_lines(DATA), "Other lines", _FIRST),
    ):
        tables += compared(data, (4096,), {**catalogue(), **peers_on_lines()}, RUNS, title, notes)
    return tables


def compared(
    data: Mapping[str, Counts],
    shape: tuple[int, ...],
    methods: Mapping[str, Estimate],
    runs: int,
    title: str,
    notes: str,
) -> Sequence[Table]:
    """Ranges, or boxes, and single bins: every method over the one that is best in hindsight."""
    if not data:
        return []
    found = errors(data, shape, methods, runs)
    uses = ("ranges", "bins")
    named = ("ranges" if len(shape) == 1 else "boxes", "single bins")
    return [
        hindsight(f"{title}, {name}", notes, for_use(each, use), AUTO)
        for use, name, each in zip(uses, named, found, strict=True)
    ]


HOW: Final = (
    "Errors, means of {runs} runs, over that of the method that is best in hindsight for the data and epsilon; `auto` "
    f"(told what it is for), the {SHOWN - 1} methods of least geometric mean{{peer}}."
)
_THIRD: Final = (
    "Lines of 4,096 bins, picked by the names of tables and columns alone, that nobody looked at before the rules "
    "of `auto` for lines (those of its third edition) and all methods were fixed. "
    + HOW.format(runs=RUNS, peer=", and OpenDP's tree")
)
_SECOND: Final = (
    "Lines that nobody had looked at before the second edition of `auto` was fixed. Nothing was tuned on them, but "
    "their figures were known when the third was made. As above."
)
_FIRST: Final = "The same of lines whose figures were known when the second edition was made. As above."
