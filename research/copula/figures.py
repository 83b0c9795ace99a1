"""Figures of chapter 3 of the thesis: synthetic tables by copulas."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import polars as pl

from research.copula.errors import (
    attribute_measurements,
    budget_measurements,
    draw_attributes,
    draw_budget,
    draw_margin,
    draw_volume,
    judge_attributes,
    judge_budget,
    judge_margin,
    judge_volume,
    margin_measurements,
    volume_measurements,
)
from research.copula.methods import (
    COPULA,
    ORDER,
    RELATIVE,
    SECONDS,
    compared,
    copula,
    data_of,
    dense,
    generated,
    measurements_of,
    psd,
)
from research.figure import Figure, Finding, Paper, Setting
from research.tables.methods import ByCopula, TableMethod
from research.tables.sources import ACS_FILES, ADULT_FILES, AdultTable, Shortened
from research.verdicts import below, describe, means, ratio, verdict
from veilstream.evaluate.drawing import Drawing, lines, panels, shared_legend
from veilstream.evaluate.runner import Measurement
from veilstream.synthesis import BlockMLE, DPCopula, Kendall

RATIOS: Final = ("1/16", "1/8", "1/4", "1/2", "1", "2", "4", "8", "16", "32")
MARGINS_NOTE: Final = "Margins are NoiseFirst's here; the line with the thesis' EFPA is shown beside them."


def _ratio_measurements(setting: Setting) -> Sequence[Measurement]:
    measurements: list[Measurement] = []
    for text in RATIOS[::3] if setting.small else RATIOS:
        method: TableMethod = ByCopula(DPCopula(ratio=Fraction(text)))
        for epsilon in ("1/10", "1"):
            k = float(Fraction(text))
            measurements += measurements_of(setting, generated(setting, 2), {f"ε = {epsilon}": method}, epsilon, k=k)
    return measurements


def _draw_ratio(table: pl.DataFrame) -> Drawing:
    figure, (axes,) = panels(1)
    labels = "k = budget of margins / budget of dependence", RELATIVE
    lines(axes, table, "k", by="mechanism", metric=RELATIVE, labels=labels, log="xy")
    return figure


def _judge_ratio(table: pl.DataFrame) -> Finding:
    averages = means(table, ["k"], RELATIVE)
    checks: list[bool] = []
    explanation: list[str] = []
    for name in ("ε = 1/10", "ε = 1"):
        by_k = dict(zip(averages["k"].to_list(), averages[name].to_list(), strict=True))
        small = [value for k, value in by_k.items() if k < 1]
        large = [value for k, value in by_k.items() if k >= 1]
        checks += [min(small) > min(large), max(large) < 1.5 * min(large)]
        explanation.append(
            f"At {name} the error is {max(small):.3g} with the least k and from {min(large):.3g} to {max(large):.3g} "
            "for k ≥ 1."
        )
    return Finding(verdict(checks), " ".join(explanation), averages)


KINDS: Final = ("DPCopula-Kendall", "DPCopula-MLE")


def _kinds_measurements(setting: Setting) -> Sequence[Measurement]:
    methods: dict[str, TableMethod] = {
        KINDS[0]: ByCopula(DPCopula(dependence=Kendall())),
        KINDS[1]: ByCopula(DPCopula(dependence=BlockMLE())),
    }
    return [
        measurement
        for m in ((2, 4) if setting.small else (2, 4, 6, 8))
        for measurement in measurements_of(setting, generated(setting, m, rows=1_000_000), methods, "1", attributes=m)
    ]


def _draw_kinds(table: pl.DataFrame) -> Drawing:
    figure, (left, right) = panels(2)
    lines(left, table, "attributes", by="mechanism", metric=RELATIVE, names=KINDS, title="(a) error", legend=False)
    labels = "attributes", "processor seconds of fit and sample"
    lines(
        right,
        table,
        "attributes",
        by="mechanism",
        metric=SECONDS,
        names=KINDS,
        title="(b) time",
        labels=labels,
        legend=False,
    )
    shared_legend(figure)
    return figure


def _judge_kinds(table: pl.DataFrame) -> Finding:
    errors, times = means(table, ["attributes"], RELATIVE), means(table, ["attributes"], SECONDS)
    better = ratio(errors, *KINDS)
    longer = ratio(times, *KINDS)
    averages = errors.join(times, on="attributes", suffix=", seconds")
    explanation = f"Error of Kendall over MLE: {describe(better)}. Time of Kendall over MLE: {describe(longer)}."
    own: list[float] = times[KINDS[0]].to_list()
    return Finding(verdict([below(better), own[-1] > own[0]]), explanation, averages)


def _time_measurements(setting: Setting) -> Sequence[Measurement]:
    data = data_of(setting)
    census = ("age", "capital-gain", "fnlwgt", "sex")
    measurements: list[Measurement] = []
    for rows in (2000, 4000) if setting.small else (5000, 10_000, 20_000, 30_000, 40_000, 48_842):
        source = Shortened(AdultTable(data, census), rows)
        measurements += measurements_of(setting, source, {**copula(), **psd(), **dense()}, "1", panel="rows", x=rows)
    for m in (2, 4) if setting.small else (2, 4, 6, 8):
        measurements += measurements_of(
            setting, generated(setting, m), {**copula(), **psd()}, "1", panel="attributes", x=m
        )
    return measurements


def _draw_time(table: pl.DataFrame) -> Drawing:
    figure, both = panels(2)
    for axes, panel, title in zip(
        both, ("rows", "attributes"), ("(a) Adult, 4 attributes", "(b) 50,000 rows"), strict=True
    ):
        rows = table.filter(pl.col("panel") == panel)
        lines(
            axes,
            rows,
            "x",
            by="mechanism",
            metric=SECONDS,
            names=ORDER,
            title=title,
            labels=(panel, SECONDS),
            log="y",
            legend=False,
        )
    shared_legend(figure)
    return figure


def _judge_time(table: pl.DataFrame) -> Finding:
    averages = means(table, ["panel", "x"], SECONDS)
    by_rows, by_attributes = (averages.filter(pl.col("panel") == panel) for panel in ("rows", "attributes"))
    growth = by_rows[COPULA].to_list()[-1] / by_rows[COPULA].to_list()[0]
    more_rows = by_rows["x"].to_list()[-1] / by_rows["x"].to_list()[0]
    checks = [
        growth < 1.5 * more_rows,
        below(ratio(by_rows, COPULA, "PSD")),
        below(ratio(by_attributes, "PSD", COPULA)),
    ]
    longest = max(by_attributes[COPULA].to_list())
    explanation = (
        f"{more_rows:.1f} times the rows take {COPULA} {growth:.1f} times as long. By rows, "
        f"{compared(by_rows, 'PSD')}; by attributes, {compared(by_attributes, 'PSD')}. The most "
        f"attributes took {longest:.2g} s."
    )
    return Finding(verdict(checks), explanation, averages)


_WHERE: Final = "50,000 rows, attributes of 1000 values, Gaussian dependence, 1000 random ranges a run"
COPULA_THESIS: Final = Paper(
    "copula",
    "DPCopula: synthetic tables by copula functions",
    "H. Li: thesis, chapter 3 (H. Li, L. Xiong, X. Jiang: Differentially private synthesization of multi-dimensional "
    "data using copula functions. EDBT 2014).",
    (
        Figure(
            "copula-3.4",
            "error by the ratio of budgets",
            "below k = 1 the error falls as k grows; above, it hardly changes.",
            f"{_WHERE}, 2 attributes, DPCopula-Kendall.",
            _ratio_measurements,
            _draw_ratio,
            _judge_ratio,
        ),
        Figure(
            "copula-3.5",
            "Kendall or maximum likelihood",
            "DPCopula-Kendall has the smaller error, and takes slightly longer; time grows with the attributes.",
            "1,000,000 rows, ε = 1, else as figure 3.4. All rows are used for Kendall's τ; the thesis takes a sample.",
            _kinds_measurements,
            _draw_kinds,
            _judge_kinds,
        ),
        Figure(
            "copula-3.6",
            "error by budget on real tables",
            "DPCopula (hybrid) has the smallest error at every ε, ahead of PSD, P-HP, Privelet+ and FP, the more so "
            "the smaller ε is.",
            "the census tables of the thesis are not at hand. (a) ACS, one year (20,898 rows; age, income, place, sex: "
            "143,352 cells), sanity bound 0.05% of the rows. (b) Adult (48,842 rows, 8 attributes, 2.7·10¹⁰ cells: too "
            f"many for P-HP and Privelet+), sanity bound 10. {MARGINS_NOTE}",
            budget_measurements,
            draw_budget,
            judge_budget,
            (*ACS_FILES, *ADULT_FILES),
        ),
        Figure(
            "copula-3.7",
            "error by the size of ranges",
            "DPCopula is ahead of PSD and P-HP at every size; relative errors fall and absolute ones grow with it.",
            f"{_WHERE}, 2 attributes (10⁶ cells), ε = 0.1. {MARGINS_NOTE}",
            volume_measurements,
            draw_volume,
            judge_volume,
        ),
        Figure(
            "copula-3.8",
            "error by distribution of the margins",
            "DPCopula is ahead of PSD with every kind of margin, and better with uniform and Zipf margins than with "
            "Gaussian ones.",
            f"{_WHERE}, 8 attributes. {MARGINS_NOTE}",
            margin_measurements,
            draw_margin,
            judge_margin,
        ),
        Figure(
            "copula-3.9",
            "error by the number of attributes",
            "DPCopula is ahead of PSD from 2 to 8 attributes, by relative and absolute error, and ever more so.",
            f"{_WHERE}, ε = 1. Four attributes have 10¹² cells: P-HP and Privelet+, which the thesis leaves out, work "
            f"on at most 2²⁰, neighbouring values joined. {MARGINS_NOTE}",
            attribute_measurements,
            draw_attributes,
            judge_attributes,
        ),
        Figure(
            "copula-3.10",
            "time",
            "time is linear in the rows, PSD's above that of DPCopula and Privelet+; with more attributes DPCopula "
            "takes longer than PSD.",
            "(a) the first rows of Adult (age, capital-gain, fnlwgt, sex: 1.7·10⁶ cells, which P-HP and Privelet+ "
            "halve), for the US census. (b) generated tables of 50,000 rows. ε = 1; processor "
            "time of fit and sample together.",
            _time_measurements,
            _draw_time,
            _judge_time,
            ADULT_FILES,
        ),
    ),
)
