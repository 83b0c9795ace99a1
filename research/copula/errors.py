"""Figures 3.6 to 3.9 of the thesis: errors by budget, size of ranges, margins and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import polars as pl

from research.copula.methods import (
    ABSOLUTE,
    COPULA,
    EPSILONS,
    HYBRID,
    ORDER,
    RELATIVE,
    THESIS,
    compared,
    copula,
    data_of,
    dense,
    fp,
    generated,
    hybrid,
    measurements_of,
    psd,
    thesis,
)
from research.figure import Finding, Setting
from research.tables.methods import TableMethod
from research.tables.sources import ACSTable, AdultTable, RangeCounts, TableSource
from research.verdicts import below, means, ratio, verdict
from veilstream.evaluate.drawing import Drawing, lines, panels, shared_legend
from veilstream.evaluate.runner import Measurement

VOLUMES: Final = ("1/100000", "1/10000", "1/1000", "1/100", "1/10", "1/4", "1/2")
CENSUS: Final = ("AGE", "INCTOT", "PUMA", "SEX")
"""Age, income, place (for occupation) and sex: the nearest to the four attributes of the thesis' US census."""


def budget_measurements(setting: Setting) -> Sequence[Measurement]:
    data = data_of(setting)
    small: dict[str, TableMethod] = {**copula(), **thesis(), **hybrid(), **psd(), **fp()}
    measurements: list[Measurement] = []
    for epsilon in EPSILONS[::4] if setting.small else EPSILONS:
        at = float(Fraction(epsilon))
        asked = RangeCounts(sanity_share=0.0005)
        census: TableSource = ACSTable(data, 0, CENSUS)
        measurements += measurements_of(
            setting, census, {**small, **dense()}, epsilon, asked, table="census", epsilon=at
        )
        measurements += measurements_of(
            setting, AdultTable(data), small, epsilon, RangeCounts(sanity=10.0), table="Adult", epsilon=at
        )
    return measurements


def draw_budget(table: pl.DataFrame) -> Drawing:
    figure, both = panels(2)
    for axes, name, title in zip(
        both, ("census", "Adult"), ("(a) census, 4 attributes", "(b) Adult, 8 attributes"), strict=True
    ):
        rows = table.filter(pl.col("table") == name)
        lines(
            axes,
            rows,
            "epsilon",
            by="mechanism",
            metric=RELATIVE,
            names=ORDER,
            title=title,
            labels=("ε", ""),
            log="y",
            legend=False,
        )
    shared_legend(figure)
    return figure


def judge_budget(table: pl.DataFrame) -> Finding:
    averages = means(table, ["table", "epsilon"], RELATIVE)
    peers = [name for name in ("PSD", "P-HP", "Privelet+", "FP") if name in averages.columns]
    checks = [below(ratio(averages, COPULA, peer)) for peer in peers]
    checks.append(below(ratio(averages, HYBRID, "PSD")))
    explanation = "; ".join(compared(averages, peer) for peer in [*peers, HYBRID, THESIS])
    return Finding(verdict(checks), f"{explanation}.", averages)


def volume_measurements(setting: Setting) -> Sequence[Measurement]:
    methods = {**copula(), **thesis(), **psd(), **dense(), **fp()}
    return [
        measurement
        for volume in (VOLUMES[1::3] if setting.small else VOLUMES)
        for measurement in measurements_of(
            setting,
            generated(setting, 2),
            methods,
            "1/10",
            RangeCounts(volume=volume),
            volume=float(Fraction(volume)),
        )
    ]


def draw_volume(table: pl.DataFrame) -> Drawing:
    figure, both = panels(2)
    for axes, metric, title in zip(both, (RELATIVE, ABSOLUTE), ("(a) relative", "(b) absolute, in rows"), strict=True):
        labels = "share of the domain in a range", ""
        lines(
            axes,
            table,
            "volume",
            by="mechanism",
            metric=metric,
            names=ORDER,
            title=title,
            labels=labels,
            log="xy",
            legend=False,
        )
    shared_legend(figure)
    return figure


def judge_volume(table: pl.DataFrame) -> Finding:
    relative, absolute = means(table, ["volume"], RELATIVE), means(table, ["volume"], ABSOLUTE)
    own = absolute[COPULA].to_list()
    checks = [below(ratio(relative, COPULA, peer)) for peer in ("PSD", "P-HP")]
    checks.append(own[-1] > own[0] and relative[COPULA].to_list()[-1] < max(relative[COPULA].to_list()))
    explanation = "; ".join(compared(relative, peer) for peer in ("PSD", "P-HP", "Privelet+", "FP"))
    return Finding(verdict(checks), f"{explanation}.", relative)


def margin_measurements(setting: Setting) -> Sequence[Measurement]:
    methods = {**copula(), **thesis(), **psd()}
    return [
        measurement
        for margin in ("gaussian", "uniform", "zipf")
        for epsilon in (EPSILONS[::4] if setting.small else EPSILONS[::2])
        for measurement in measurements_of(
            setting,
            generated(setting, 3 if setting.small else 8, margin),
            methods,
            epsilon,
            margin=margin,
            epsilon=float(Fraction(epsilon)),
        )
    ]


def draw_margin(table: pl.DataFrame) -> Drawing:
    figure, three = panels(3, columns=3)
    for axes, margin in zip(three, ("gaussian", "uniform", "zipf"), strict=True):
        rows = table.filter(pl.col("margin") == margin)
        lines(
            axes,
            rows,
            "epsilon",
            by="mechanism",
            metric=RELATIVE,
            names=ORDER,
            title=f"{margin} margins",
            labels=("ε", ""),
            legend=False,
        )
    shared_legend(figure)
    return figure


def judge_margin(table: pl.DataFrame) -> Finding:
    averages = means(table, ["margin", "epsilon"], RELATIVE)
    kinds = {str(key[0]): rows for key, rows in averages.group_by("margin", maintain_order=True)}
    checks = [below(ratio(averages, COPULA, "PSD"))]
    average = {margin: float(rows[COPULA].to_numpy().mean()) for margin, rows in kinds.items()}
    checks.append(max(average["uniform"], average["zipf"]) < average["gaussian"])
    each = ", ".join(f"{margin} {value:.3g}" for margin, value in average.items())
    explanation = (
        f"{compared(averages, 'PSD')}; {compared(averages, THESIS)}. Mean error of {COPULA} by margin: {each}."
    )
    return Finding(verdict(checks), explanation, averages)


def attribute_measurements(setting: Setting) -> Sequence[Measurement]:
    methods = {**copula(), **thesis(), **psd(), **dense(), **fp()}
    return [
        measurement
        for m in ((2, 4) if setting.small else (2, 4, 6, 8))
        for measurement in measurements_of(setting, generated(setting, m), methods, "1", attributes=m)
    ]


def draw_attributes(table: pl.DataFrame) -> Drawing:
    figure, both = panels(2)
    for axes, metric, title in zip(both, (RELATIVE, ABSOLUTE), ("(a) relative", "(b) absolute, in rows"), strict=True):
        lines(axes, table, "attributes", by="mechanism", metric=metric, names=ORDER, title=title, log="y", legend=False)
    shared_legend(figure)
    return figure


def judge_attributes(table: pl.DataFrame) -> Finding:
    relative, absolute = means(table, ["attributes"], RELATIVE), means(table, ["attributes"], ABSOLUTE)
    gains = ratio(relative, COPULA, "PSD")
    checks = [below(gains), below(ratio(absolute, COPULA, "PSD")), gains[-1] < gains[0]]
    explanation = (
        f"Relative error, {compared(relative, 'PSD')}: {', '.join(f'{gain:.2g}' for gain in gains)} from the fewest "
        f"attributes to the most. Absolute error, {compared(absolute, 'PSD')}."
    )
    return Finding(verdict(checks), explanation, relative)
