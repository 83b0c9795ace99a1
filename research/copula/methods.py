"""What the figures of the thesis' chapter 3 share: methods, tables and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from research.figure import Setting
from research.tables.methods import ByBoxes, ByCells, ByCopula, TableMethod, range_errors
from research.tables.sources import ADULT_FILES, Generated, RangeCounts, TableSource
from research.verdicts import describe, ratio
from veilstream.evaluate.runner import Label, Measurement
from veilstream.mechanisms.histograms import EFPA, PHP, PSD, FilterPriority, Privelet
from veilstream.synthesis import DPCopula

RUNS: Final = 5
QUERIES: Final = 1000
RELATIVE, ABSOLUTE, SECONDS = "relative error", "absolute error", "processor seconds"
COPULA, HYBRID, THESIS = "DPCopula", "DPCopula-hybrid", "DPCopula, EFPA margins"
ORDER: Final = (COPULA, "PSD", "P-HP", "Privelet+", "FP", HYBRID, THESIS)
"""Of all figures, so that colours are alike."""
EPSILONS: Final = ("1/10", "1/4", "1/2", "3/4", "1")


def copula() -> dict[str, TableMethod]:
    return {COPULA: ByCopula()}


def thesis() -> dict[str, TableMethod]:
    return {THESIS: ByCopula(DPCopula(margins=EFPA()))}


def hybrid() -> dict[str, TableMethod]:
    return {HYBRID: ByCopula(DPCopula(split_below=10))}


def psd() -> dict[str, TableMethod]:
    """Pruned on any number of attributes: by default it is not beyond four, and does worse on these tables."""
    return {"PSD": ByBoxes(PSD(prune=1.0))}


def dense() -> dict[str, TableMethod]:
    return {"P-HP": ByCells(PHP()), "Privelet+": ByCells(Privelet())}


def fp() -> dict[str, TableMethod]:
    return {"FP": ByBoxes(FilterPriority())}


def measurements_of(
    setting: Setting,
    source: TableSource,
    methods: Mapping[str, TableMethod],
    budget: str,
    counts: RangeCounts | None = None,
    **labels: Label,
) -> list[Measurement]:
    """Every method once for each seed; ``labels`` are the columns that tell the measurements apart."""
    asked = replace(counts or RangeCounts(), queries=100 if setting.small else QUERIES)
    return [
        Measurement({"mechanism": name, "seed": seed, **labels}, range_errors, (source, asked, method, budget, seed))
        for name, method in methods.items()
        for seed in range(1, 2 if setting.small else RUNS + 1)
    ]


def generated(setting: Setting, attributes: int, margin: str = "gaussian", rows: int = 50_000) -> Generated:
    if setting.small:
        return Generated(rows=2000, attributes=attributes, domain=100, margin=margin)
    return Generated(rows=rows, attributes=attributes, margin=margin)


def data_of(setting: Setting) -> Path:
    return setting.file(ADULT_FILES[0]).parent


def compared(table: pl.DataFrame, over: str, of: str = COPULA) -> str:
    return f"{of} over {over}: {describe(ratio(table, of, over))}"
