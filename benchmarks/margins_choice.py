"""Which histogram publishes margins of synthetic tables best, on margins that no other table of the suite uses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from benchmarks.report import Table, progress
from research.tables.methods import simulated_meter
from research.tables.sources import ADULT, ADULT_FILES, Codes
from veilstream.evaluate.queries import RangeSums, random_ranges
from veilstream.evaluate.runner import Measurement, run_measurements
from veilstream.mechanisms.histograms import EFPA, Geometric, NoiseFirst, Privelet, StructureFirst
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.trusted.counts import seal
from veilstream.values.projection import onto_simplex

LINES: Final = "dpbench_1d_histograms.csv.gz"
VALUES: Final = 1024
ROWS: Final = 20_000
RUNS: Final = 6
METHODS: Final[dict[str, HistogramMechanism]] = {
    "noise-first": NoiseFirst(),
    "EFPA": EFPA(),
    "EFPA or plain noise": EFPA(fallback=True),
    "geometric": Geometric(),
    "structure-first": StructureFirst(),
    "privelet": Privelet(),
}


@dataclass(frozen=True, slots=True)
class MarginCase:
    """A line of DPBench, drawn again with 20,000 rows on 1024 values, or an attribute of Adult."""

    directory: Path
    name: str
    large: bool


@lru_cache(maxsize=1)
def _counts(margin: MarginCase) -> Codes:
    if not margin.large:
        size = json.loads((margin.directory / ADULT_FILES[1]).read_text(encoding="utf-8"))[margin.name]
        codes = pl.read_csv(margin.directory / ADULT_FILES[0], columns=[margin.name])[margin.name].to_numpy()
        return np.bincount(codes, minlength=size).astype(np.int64)
    line = pl.read_csv(margin.directory / LINES, columns=[margin.name])[margin.name].to_numpy().astype(np.float64)
    coarse = line.reshape(VALUES, -1).sum(axis=1)
    return np.random.default_rng(5).multinomial(ROWS, coarse / coarse.sum())  # noqa: TID251 (public data)


def margin_error(margin: MarginCase, method: HistogramMechanism, epsilon: str, seed: int) -> dict[str, float]:
    """Mean absolute error of 300 random ranges of one projected margin, as a share of the rows."""
    counts, share = _counts(margin), Fraction(epsilon)
    noisy = method.estimate(seal(counts, t=0), share, simulated_meter(share, counts.size, seed)).numbers
    rows = float(counts.sum())
    gaps = onto_simplex(np.asarray(noisy, dtype=np.float64), rows) - counts
    ranges = random_ranges([counts.size], 300, seed)
    return {"error": float(np.abs(RangeSums(gaps).answer(ranges)).mean()) / rows}


def choice_of_margins(data: Path, results: Path) -> Sequence[Table]:
    """Geometric means of ratios to NoiseFirst."""
    if not (data / LINES).is_file():
        return []
    lines = [name for name in pl.read_csv(data / LINES, n_rows=1).columns if name != "bin"]
    attributes = [name for name in pl.read_csv(data / ADULT_FILES[0], n_rows=1).columns if name not in ADULT]
    margins = [MarginCase(data, name, True) for name in lines] + [MarginCase(data, name, False) for name in attributes]
    budgets = ("1/100", "1/10", "1/2")
    measurements = [
        Measurement(
            {"margin": margin.name, "large": margin.large, "method": name, "epsilon": epsilon, "seed": seed},
            margin_error,
            (margin, method, epsilon, seed),
        )
        for margin in margins
        for name, method in METHODS.items()
        for epsilon in budgets
        for seed in range(1, RUNS + 1)
    ]
    progress("choice of margins")
    table = run_measurements(measurements, results / "choice-of-margins", workers=1)
    means = table.group_by("large", "margin", "epsilon", "method", maintain_order=True).agg(pl.col("value").mean())
    base = means.filter(pl.col("method") == "noise-first").rename({"value": "base"}).drop("method")
    ratios = (
        means.join(base, on=["large", "margin", "epsilon"])
        .group_by("large", "epsilon", "method")
        .agg((pl.col("value") / pl.col("base")).log().mean().exp().alias("ratio"))
    )
    found = {(large, epsilon, method): ratio for large, epsilon, method, ratio in ratios.iter_rows()}
    rows = [
        [f"{what}, ε = {epsilon}", *(f"{found[large, epsilon, method]:.2f}" for method in METHODS)]
        for large, what in ((True, f"{len(lines)} DPBench lines"), (False, f"{len(attributes)} attributes of Adult"))
        for epsilon in budgets
    ]
    return [
        Table(
            "Choice of the default margins",
            "Error of random ranges of one margin, projected on counts ≥ 0 of its total, over that of noise-first: "
            f"geometric mean over margins that no table below uses (lines: {ROWS:,} rows, {VALUES} values), {RUNS} "
            "runs. ε is that of one margin: ε = 1 leaves about 1/10 to each of 8.",
            ["margins", *METHODS],
            rows,
        )
    ]
