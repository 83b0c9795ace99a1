"""One-time histograms on planes that nothing was tuned on, against the method that is best in hindsight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.held_back import HOW, compared
from benchmarks.held_back_lines import fresh_planes, known_planes, newest_planes, second_planes
from benchmarks.histogram_errors import DATA, catalogue
from benchmarks.report import Table
from benchmarks.uniform_grid import uniform_grid

RUNS: Final = 5


def run() -> Sequence[Table]:
    """Boxes and single bins, of what was held back first."""
    tables: list[Table] = []
    for data, title, notes in (
        (newest_planes(), "Planes held back", _NEWEST_PLANES),
        (fresh_planes(), "Planes that judged the third edition", _FRESH_PLANES),
        (second_planes(), "Planes that judged boxes", _SECOND_PLANES),
        (known_planes(DATA), "Other planes", _KNOWN_PLANES),
    ):
        tables += compared(data, (256, 256), {**catalogue(), "ug": uniform_grid}, RUNS, title, notes)
    return tables


_NEWEST_PLANES: Final = (
    "Planes of 256 × 256 cells, picked by the names of tables and columns alone, that nobody looked at before the "
    "rules of `auto` for tables (its fourth edition) and all methods were fixed. " + HOW.format(runs=RUNS, peer="")
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
