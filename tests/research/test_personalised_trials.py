"""Experiments with personal budgets: budgets as the thesis draws them, and verdicts that follow the tables."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from research.figure import Verdict
from research.personalised.figures import CLASSIFIERS, COUNTS, PERSONALISED_PAPER
from research.personalised.trials import AREA, BUDGET, FREQUENCY, Budgets, draw_budgets


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_budgets_lie_in_the_range_of_the_thesis_and_repeat(kind: Budgets) -> None:
    budgets = draw_budgets(kind, 5000, 3)
    assert 0.01 <= budgets.min() < budgets.max() <= 1
    assert (budgets == draw_budgets(kind, 5000, 3)).all()
    # Normal(0.1, 1) lies below 0.01 with probability 0.46 and above 1 with 0.18; uniform nearly never.
    assert (np.mean(budgets == 0.01) > 0.3) == (kind == "normal")


def table(metric: str, sampling: dict[float, float], others: dict[str, float]) -> pl.DataFrame:
    rows: list[tuple[str, float | None, float]] = [("Sampling", level, value) for level, value in sampling.items()]
    rows += [(name, None, value) for name, value in others.items()]
    return pl.DataFrame(
        [
            {"method": name, "threshold": level, "metric": kind, "value": shown}
            for name, level, value in rows
            for kind, shown in ((metric, value), (BUDGET, 0.5))
        ],
        schema_overrides={"threshold": pl.Float64},
    )


def judged(name: str, found: pl.DataFrame) -> Verdict:
    figure = next(figure for figure in PERSONALISED_PAPER.figures if figure.name == name)
    return figure.judge(found).verdict


def test_verdicts_on_counts_follow_the_table() -> None:
    even = dict.fromkeys(COUNTS, 1.0)
    assert judged("personalised-5.2", table(FREQUENCY, {0.05: 9.0, 0.5: 1.0, 1: 2.0}, even)) is Verdict.HOLDS
    worse = dict.fromkeys(COUNTS, 1.2)
    assert judged("personalised-5.2", table(FREQUENCY, {0.05: 9.0, 0.5: 1.0, 1: 2.0}, worse)) is Verdict.PARTLY
    assert judged("personalised-5.2", table(FREQUENCY, {0.05: 1.9, 0.5: 2.0, 1: 1.0}, worse)) is Verdict.FAILS


def test_verdicts_on_areas_follow_the_table() -> None:
    better = dict.fromkeys(CLASSIFIERS, 0.9) | {"Minimum": 0.6}
    assert judged("personalised-5.6", table(AREA, {0.1: 0.7, 1: 0.8}, better)) is Verdict.HOLDS
    assert judged("personalised-5.6", table(AREA, {0.1: 0.7, 1: 0.9}, better)) is Verdict.PARTLY
