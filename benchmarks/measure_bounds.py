"""Sums of real purchases under bounds on one customer's rows, on their sum, and on both."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measures_data import END, EPSILONS, HIGH, LOW, START, releases
from benchmarks.presence_streams import DATA
from benchmarks.report import Table, progress
from veilstream.data import Calendar
from veilstream.data.measures import ValueMeasures
from veilstream.release.estimates import estimates_of_all

Reals = NDArray[np.float64]

RUNS: Final = 5
SUMS: Final = ValueMeasures.of({"sum": {"dollar_value": (0, 100)}})
BOUNDS: Final = ((1, None), (2, None), (4, None), (8, None), (8, 50), (8, 100), (8, 200), (8, 400))
"""Rows of a customer that count in a month, and what they may add to the sum."""


def run(quick: bool = False) -> Sequence[Table]:
    """The table of the suite."""
    return [_errors(2 if quick else RUNS)]


def _errors(runs: int) -> Table:
    """Sums of all purchases of a month under bounds on a customer's rows, on their sum, and on both."""
    frame = pl.read_csv(DATA / "cdnow_purchases.csv.gz")
    count = Calendar(START, END, "1mo").steps
    steps = pl.Series(Calendar(START, END, "1mo").step_of(frame["date"]))
    totals = frame.with_columns(step=steps, value=pl.col("dollar_value").clip(LOW, HIGH)).group_by("step")
    truth = np.zeros(count)
    for step, total in totals.agg(pl.col("value").sum()).iter_rows():
        truth[step] = total
    rows: list[list[str]] = []
    for most_rows, most in BOUNDS:
        cells = [f"{most_rows}", "" if most is None else f"{most}"]
        for epsilon in EPSILONS:
            gaps: list[Reals] = []
            for _ in range(runs):
                limit = None if most is None else Fraction(most)
                found = estimates_of_all(releases(frame, "1mo", epsilon, SUMS, most_rows, limit), SUMS)
                gaps.append(np.array([e[0].value[0] for e in found]) - truth)
            cells.append(f"{np.sqrt(np.mean(np.square(gaps))):,.0f}")
        progress("bounds | " + " | ".join(cells))
        rows.append(cells)
    notes = (
        f"CDNOW, all purchases, values between 0 and 100, sums of {count} months, {truth.mean():,.0f} on average: "
        "root mean squared error, what the bounds leave out included. A row moves a sum by at most 100, so few rows, "
        "or a smaller sum of many, mean less noise and more that is left out; where both are given the tighter counts."
    )
    columns = ["rows of a customer", "most in a sum", *(f"error at ε = {epsilon:g}" for epsilon in EPSILONS)]
    return Table("Bounds on one customer's part of a sum", notes, columns, rows)
