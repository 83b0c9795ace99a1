"""Figures of chapter 5 of the thesis: everybody their own epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import polars as pl

from research.figure import Figure, Finding, Paper, Setting
from research.personalised.trials import (
    AREA,
    BUDGET,
    FILES,
    FOLDS,
    FREQUENCY,
    WRONG,
    Budgets,
    classifier_trial,
    count_trial,
)
from research.verdicts import EVEN, verdict
from veilstream.evaluate.drawing import Drawing, lines, panels, shared_legend
from veilstream.evaluate.runner import Label, Measurement
from veilstream.evaluate.summary import summary
from veilstream.personalised import CountMechanism, Minimum, Partitioned, Sampling, Stretching

SAMPLING, UTILITY, AWARE = "Sampling", "utility-based", "privacy-aware"
COUNT_THRESHOLDS: Final = ("0.01", "0.05", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1")
MODEL_THRESHOLDS: Final = ("0.1", "0.3", "0.5", "0.75", "1")
COUNTS: Final[dict[str, CountMechanism]] = {
    UTILITY: Partitioned(by="utility", minimum=1000, spread=0),
    AWARE: Partitioned(by="waste", minimum=1000, spread=0),
    "three rounds": Partitioned(by="waste", k=4, minimum=1000, number=3, spread=0),
    "Stretching": Stretching(spread=0),
    "Stretching, capped": Stretching(),
    "Minimum": Minimum(),
    "utility-based, spread 0.1": Partitioned(by="utility", minimum=1000),
}
CLASSIFIERS: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    UTILITY: (("strategy", "utility"), ("minimum", 2000)),
    AWARE: (("strategy", "waste"), ("minimum", 2000)),
    "weighted": (("strategy", "weighted"),),
    "Minimum": (("strategy", "minimum"),),
    "ε = 1000": (("strategy", "minimum"), ("epsilon", 1000)),
}
DRAWS, QUERIES, REPEATS = 10, 100, 1


def _count_measurements(name: str, kind: Budgets, setting: Setting) -> Sequence[Measurement]:
    data, most = setting.file(FILES[name][0]).parent, 12_000 if setting.small else None
    levels = COUNT_THRESHOLDS[2::5] if setting.small else COUNT_THRESHOLDS
    methods: list[tuple[str, str | None, CountMechanism]] = [(SAMPLING, level, Sampling(level)) for level in levels]
    methods += [(method, None, mechanism) for method, mechanism in COUNTS.items()]
    draws, queries = (2, 5) if setting.small else (DRAWS, QUERIES)
    return [
        Measurement(
            {"method": method, "threshold": _number(level), "draw": draw},
            count_trial,
            (name, data, most, kind, mechanism, queries, draw),
        )
        for draw in range(draws)
        for method, level, mechanism in methods
    ]


def _model_measurements(model: str, names: Sequence[str], kind: Budgets, setting: Setting) -> Sequence[Measurement]:
    levels = MODEL_THRESHOLDS[1::3] if setting.small else MODEL_THRESHOLDS
    methods: list[tuple[str, str | None, tuple[tuple[str, Any], ...]]] = [
        (SAMPLING, level, (("strategy", "sampling"), ("threshold", level))) for level in levels
    ]
    methods += [(method, None, parameters) for method, parameters in CLASSIFIERS.items()]
    most, folds, repeats = (12_000, 1, 1) if setting.small else (None, FOLDS, REPEATS)
    return [
        Measurement(
            {"method": method, "threshold": _number(level), "table": name, "fold": fold, "repeat": repeat},
            classifier_trial,
            (model, name, setting.file(FILES[name][0]).parent, most, kind, parameters, fold, repeat),
        )
        for name in names
        for repeat in range(repeats)
        for fold in range(folds)
        for method, level, parameters in methods
    ]


def _number(level: str | None) -> Label:
    return None if level is None else float(level)


def _draw(metric: str, names: Sequence[str], tables: Sequence[str], table: pl.DataFrame) -> Drawing:
    """Sampling over its thresholds; methods without one are level."""
    figure, all_axes = panels(max(len(tables), 1))
    levels = table.select("threshold").drop_nulls().unique().sort("threshold")
    flat = table.filter(pl.col("threshold").is_null()).drop("threshold").join(levels, how="cross")
    both = pl.concat([table.drop_nulls("threshold"), flat.select(table.columns)])
    for axes, name in zip(all_axes, tables or [""], strict=True):
        rows = both.filter(pl.col("table") == name) if name else both
        lines(
            axes,
            rows,
            "threshold",
            by="method",
            metric=metric,
            names=names,
            title=name,
            labels=("threshold of Sampling", metric),
            log="y" if metric == FREQUENCY else "",
            legend=False,
        )
        if metric == AREA:
            axes.set_ylim(bottom=0.5)
    shared_legend(figure, columns=2 if len(all_axes) == 1 else 4)
    return figure


def _averages(table: pl.DataFrame, metric: str) -> pl.DataFrame:
    return summary(table, ["method", "threshold"], metric).select("method", "threshold", "mean", "low", "high", "runs")


def _mean(averages: pl.DataFrame, method: str) -> float:
    return float(averages.filter(pl.col("method") == method)["mean"][0])


def _best_sampling(averages: pl.DataFrame, *, highest: bool = False) -> tuple[float, float]:
    row = averages.filter(pl.col("method") == SAMPLING).sort("mean", descending=highest).row(0, named=True)
    return float(row["threshold"]), float(row["mean"])


def _judge_counts(table: pl.DataFrame) -> Finding:
    averages = _averages(table, FREQUENCY)
    level, best = _best_sampling(averages)
    sampling = averages.filter(pl.col("method") == SAMPLING)
    middle = float(summary(table, ["method"], BUDGET)["mean"].mean())  # type: ignore[arg-type]
    nearest = sampling.sort((pl.col("threshold") - middle).abs()).row(0, named=True)
    worst = float(sampling.sort("threshold")["mean"][0])
    over = {method: _mean(averages, method) / best for method in COUNTS}
    checks = [
        over[UTILITY] <= 1 + EVEN,
        nearest["mean"] <= best * (1 + EVEN),
        worst > 2 * best,
    ]
    listed = ", ".join(f"{method} {ratio:.2f}" for method, ratio in over.items())
    explanation = (
        f"Sampling is best at T = {level:g} with {best:.2e}; the mean budget is {middle:.2f}, and at the nearest "
        f"threshold, {nearest['threshold']:g}, its error is {nearest['mean'] / best:.2f} times that, at the smallest "
        f"{worst / best:.1f} times. Errors over that of Sampling at its best: {listed}."
    )
    return Finding(verdict(checks), explanation, averages)


def _judge_areas(table: pl.DataFrame) -> Finding:
    averages = _averages(table, AREA)
    level, best = _best_sampling(averages, highest=True)
    worst = float(averages.filter(pl.col("method") == SAMPLING)["mean"].min())  # type: ignore[arg-type]
    own = {method: _mean(averages, method) for method in CLASSIFIERS}
    checks = [own[UTILITY] > best * (1 + EVEN), own[AWARE] > best * (1 + EVEN)]
    checks += [
        own[UTILITY] >= best * (1 - EVEN),
        own[AWARE] >= best * (1 - EVEN),
        own["Minimum"] < min(best, own[UTILITY]),
    ]
    listed = ", ".join(f"{method} {value:.3f}" for method, value in own.items())
    explanation = f"Sampling is best at T = {level:g} with {best:.3f} and worst with {worst:.3f}; the others: {listed}."
    if not any(checks[:2]):
        explanation += " Partitioning is no better than Sampling at its best: both are near what ε = 1000 gives."
    return Finding(verdict(checks), explanation, averages)


def _judge_mistakes(tables: Sequence[str], table: pl.DataFrame) -> Finding:
    checks: list[bool] = []
    explanation: list[str] = []
    for name in tables:
        averages = _averages(table.filter(pl.col("table") == name), WRONG)
        level, best = _best_sampling(averages)
        top = averages.filter(pl.col("method") == SAMPLING).sort("threshold")["mean"][-1]
        own = {method: _mean(averages, method) for method in CLASSIFIERS}
        checks += [own[UTILITY] <= best * (1 + EVEN), own[AWARE] <= best * (1 + EVEN), top <= best * (1 + EVEN)]
        listed = ", ".join(f"{method} {value:.3f}" for method, value in own.items())
        explanation.append(
            f"{name}: Sampling is best at T = {level:g} with {best:.3f}, at T = 1 it has {top:.3f}; {listed}."
        )
    both = summary(table, ["table", "method", "threshold"], WRONG).drop("half", strict=False)
    return Finding(verdict(checks), " ".join(explanation), both)


COUNT_NAMES: Final = (SAMPLING, *COUNTS)
MODEL_NAMES: Final = (SAMPLING, *CLASSIFIERS)
PANELS: Final = ("Adult", "ACS")
DIFFERENCES: Final = (
    "The thesis has extracts of IPUMS, US and Brazil, of 100,000 and 30,000 rows, which are not at hand: Adult (48,842 "
    "people) stands for the US, ACS (47,461) for Brazil. Budgets: {budgets}."
)
KINDS: Final[dict[Budgets, str]] = {
    "normal": "normal(0.1, 1), clipped to 0.01..1",
    "uniform": "uniform on 0.01..1 (the thesis prints 0.1 for the upper end beside a range up to 1)",
}
ALL_FOLDS: Final = (
    "All ten folds, once, each with budgets of its own (the thesis: fifty times); regularisation 0.001, "
    "objective perturbation, groups of at least 2,000 people. “weighted” and “ε = 1000” are not in the thesis."
)


def _count_figure(number: int, name: str, kind: Budgets) -> Figure:
    return Figure(
        f"personalised-5.{number}",
        f"range counts of {name} with {kind} budgets",
        "Sampling is best with a threshold at the mean budget and deteriorates sharply below it; utility-based "
        "partitioning performs almost the same as Sampling at its best threshold.",
        f"{DIFFERENCES.format(budgets=KINDS[kind])} Random range counts over {4 if name == 'Adult' else 8} attributes: "
        f"{DRAWS} draws of budgets with {QUERIES} queries each (the thesis does not tell how many). Groups of at least "
        "1,000 people, weighted by noise alone as in the thesis, and once for a frequency of 0.11 (spread 0.1). Rounds "
        "and Stretching are not in its figures.",
        partial(_count_measurements, name, kind),
        partial(_draw, FREQUENCY, COUNT_NAMES, ()),
        _judge_counts,
        FILES[name],
    )


def _area_figure(number: int, name: str, kind: Budgets) -> Figure:
    return Figure(
        f"personalised-5.{number}",
        f"support vector machines on {name} with {kind} budgets",
        "partitioning is superior to Sampling, for which no threshold is best throughout; Minimum is worst.",
        f"{DIFFERENCES.format(budgets=KINDS[kind])} {ALL_FOLDS}",
        partial(_model_measurements, "SVM", (name,), kind),
        partial(_draw, AREA, MODEL_NAMES, ()),
        _judge_areas,
        FILES[name],
    )


def _mistake_figure(number: int, kind: Budgets) -> Figure:
    return Figure(
        f"personalised-5.{number}",
        f"logistic regression with {kind} budgets",
        "Sampling is best with the largest threshold; partitioning is comparable with that.",
        f"{DIFFERENCES.format(budgets=KINDS[kind])} {ALL_FOLDS}",
        partial(_model_measurements, "logistic", PANELS, kind),
        partial(_draw, WRONG, MODEL_NAMES, PANELS),
        partial(_judge_mistakes, PANELS),
        (*FILES["Adult"], *FILES["ACS"]),
    )


PERSONALISED_PAPER: Final = Paper(
    "personalised",
    "Personalised privacy: everybody their own epsilon",
    "H. Li: thesis, chapter 5 (H. Li, L. Xiong, Z. Ji, X. Jiang: Partitioning-based mechanisms under personalized "
    "differential privacy. PAKDD 2017).",
    (
        _count_figure(2, "Adult", "normal"),
        _count_figure(3, "Adult", "uniform"),
        _count_figure(4, "ACS", "normal"),
        _count_figure(5, "ACS", "uniform"),
        _area_figure(6, "Adult", "normal"),
        _area_figure(7, "Adult", "uniform"),
        _area_figure(8, "ACS", "normal"),
        _area_figure(9, "ACS", "uniform"),
        _mistake_figure(10, "normal"),
        _mistake_figure(11, "uniform"),
    ),
)
