"""Synthetic tables: time, and errors of random range counts against trees, filters, wavelets and graphical models.

The figures of the thesis are in ``python -m research reproduce copula``; here is what it lacks. MST and AIM need an
environment with dpmm (``benchmarks.private_pgm``). Real tables come from the directory that VEILSTREAM_DATA names;
what is absent is left out. Finished measurements are kept in build/benchmarks/synthesis: delete it to measure anew.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from benchmarks.margins_choice import choice_of_margins
from benchmarks.private_pgm import COARSE, MEGABYTES, PYTHON, GraphicalModel
from benchmarks.report import PAGE, Table, progress
from research.copula.methods import psd
from research.tables.methods import (
    ByBoxes,
    ByCells,
    ByCopula,
    TableMethod,
    plain_domain,
    range_errors,
    simulated_model,
)
from research.tables.sources import (
    ACS,
    ACS_FILES,
    ADULT,
    ADULT_FILES,
    ACSTable,
    AdultTable,
    Generated,
    RangeCounts,
    TableSource,
    rows_in,
)
from veilstream.data.bounding.keyed import Key
from veilstream.evaluate.runner import Measurement, run_measurements
from veilstream.mechanisms.histograms import EFPA, PHP, FilterPriority, Geometric, Privelet
from veilstream.mechanisms.streams import DSAT, FixedRate
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis import BlockMLE, Choice, CopulaModel, DPCopula
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import ordered_rows

RUNS: Final = 5
FEW_RUNS: Final = 3
RESULTS: Final = PAGE.parent.parent / "build" / "benchmarks" / "synthesis"
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", str(PAGE.parents[2] / "shared" / "data")))
REAL: Final = RangeCounts(sanity_share=0.0005)
"""On real tables the sanity bound of the thesis is 0.05% of the rows."""

Case = tuple[TableSource, RangeCounts, str]


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [
        _speed(),
        *(choice_of_margins(DATA, RESULTS) if _has(ADULT_FILES) else []),
        _margins(),
        *_kinds(),
        *_everybody(),
        *_over_time(),
    ]


def _has(names: Sequence[str]) -> bool:
    return all((DATA / name).is_file() for name in names)


def _generated() -> dict[str, Case]:
    return {
        f"8 × 1000, {margin}, ε = {epsilon}": (Generated(margin=margin), RangeCounts(), epsilon)
        for margin, epsilon in (("gaussian", "1/10"), ("gaussian", "1"), ("uniform", "1"), ("zipf", "1"))
    }


def _adult(epsilon: str) -> dict[str, Case]:
    return {f"Adult, ε = {epsilon}": (AdultTable(DATA), REAL, epsilon)} if _has(ADULT_FILES) else {}


def _acs(*years: int) -> dict[str, Case]:
    cases: dict[str, Case] = {f"ACS year {year}, ε = 1": (ACSTable(DATA, year), REAL, "1") for year in years}
    return cases if _has(ACS_FILES) else {}


def measured(
    name: str, cases: Mapping[str, Case], methods: Mapping[str, TableMethod], runs: Mapping[str, int] | None = None
) -> pl.DataFrame:
    """Every method on every case; one process, so that times are not each other's."""
    measurements = [
        Measurement({"case": case, "method": method, "seed": seed}, range_errors, (source, counts, way, epsilon, seed))
        for case, (source, counts, epsilon) in cases.items()
        for method, way in methods.items()
        for seed in range(1, (runs or {}).get(method, RUNS) + 1)
    ]
    return run_measurements(
        measurements,
        RESULTS / name,
        workers=1,
        progress=lambda done, all_of_them: progress(f"{name}: {done}/{all_of_them}"),
    )


def errors_table(title: str, notes: str, results: pl.DataFrame, runs: str) -> Table:
    """Mean relative and absolute errors, cases down and methods across."""
    means = results.group_by("case", "method", "metric", maintain_order=True).agg(pl.col("value").mean())
    cells = {(case, method, metric): value for case, method, metric, value in means.iter_rows()}
    methods = results["method"].unique(maintain_order=True).to_list()
    rows = [
        [
            case,
            *(
                f"{cells[case, method, 'relative error']:.3g} / {cells[case, method, 'absolute error']:.3g}"
                if (case, method, "relative error") in cells
                else "—"
                for method in methods
            ),
        ]
        for case in results["case"].unique(maintain_order=True)
    ]
    what = f"Cells: mean relative error / mean absolute error (rows) of 1000 random ranges; {runs}."
    return Table(title, f"{notes} {what}", ["", *methods], rows)


def _speed() -> Table:
    rows: list[list[str]] = []
    for count, attributes in ((10_000, 4), (50_000, 2), (50_000, 8), (200_000, 8), (1_000_000, 20)):
        table = Generated(rows=count, attributes=attributes).load()
        best = (float("inf"), 0.0, 0.0)
        for seed in range(1, FEW_RUNS + 1):
            begun = time.perf_counter()
            model = simulated_model(table, Fraction(1), seed, DPCopula())
            middle = time.perf_counter()
            model.sample(count, seed=seed)
            end = time.perf_counter()
            best = min(best, (end - begun, middle - begun, end - middle))
        rows.append([f"{count:,} × {attributes}", *(f"{seconds:.2f}" for seconds in (*best[1:], best[0]))])
        progress(f"speed {rows[-1]}")
    return Table(
        "Time of DPCopula",
        "Domain 1000, all rows used for Kendall's tau. Aims: 50,000 × 8 under 5 s, 1,000,000 × 20 under 60 s. Best of "
        f"{FEW_RUNS} runs.",
        ["rows × attributes", "seal and fit s", "sample s", "together s"],
        rows,
    )


def _margins() -> Table:
    methods: dict[str, TableMethod] = {
        "noise-first (default)": ByCopula(),
        "EFPA of the thesis": ByCopula(DPCopula(margins=EFPA())),
        "EFPA or plain noise": ByCopula(DPCopula(margins=EFPA(fallback=True))),
        "geometric": ByCopula(DPCopula(margins=Geometric())),
    }
    cases = {**_generated(), **_adult("1/10"), **_adult("1"), **_acs(0)}
    return errors_table(
        "DPCopula-Kendall by method of margins",
        "50,000 rows of 8 attributes with 1000 values and a normal copula, and real tables of 8 attributes.",
        measured("margins", cases, methods),
        f"{RUNS} runs",
    )


def _kinds() -> Sequence[Table]:
    cases = {**_adult("1"), **_acs(*range(7))}
    if not cases:
        return []
    methods: dict[str, TableMethod] = {
        "Kendall": ByCopula(),
        "MLE": ByCopula(DPCopula(dependence=BlockMLE())),
        "hybrid": ByCopula(DPCopula(split_below=10)),
        "chosen copula": ByCopula(DPCopula(copula=Choice())),
        **psd(),
        "FP": ByBoxes(FilterPriority()),
    }
    notes = f"Adult: {', '.join(ADULT)}. ACS: {', '.join(ACS)}. Sanity bound 0.05% of the rows."
    return [errors_table("Kinds of DPCopula on real tables", notes, measured("kinds", cases, methods), f"{RUNS} runs")]


def _everybody() -> Sequence[Table]:
    """All methods in one run; graphical models have few runs, because one takes minutes."""
    ours: dict[str, TableMethod] = {
        "DPCopula": ByCopula(),
        **psd(),
        "FP": ByBoxes(FilterPriority()),
        "P-HP": ByCells(PHP()),
        "Privelet+": ByCells(Privelet()),
    }
    cases = {name: case for name, case in {**_generated(), **_adult("1"), **_acs(0)}.items() if name.endswith("= 1")}
    results = [measured("everybody", cases, ours)]
    if PYTHON:
        for name, case in cases.items():
            coarse = COARSE if isinstance(case[0], Generated) else None
            graphical: dict[str, TableMethod] = {kind: GraphicalModel(kind, coarse) for kind in ("MST", "AIM")}
            results.append(measured("graphical", {name: case}, graphical, dict.fromkeys(graphical, FEW_RUNS)))
    together = pl.concat(results)
    runs = f"{RUNS} runs, MST and AIM {FEW_RUNS}"
    notes = (
        "P-HP and Privelet+ work on all cells: on at most 2²⁰, neighbouring values of wide attributes joined. MST and "
        f"AIM are those of dpmm at δ = 1e-9 (others 0), AIM with a model of at most {MEGABYTES:g} MB; 1000 values are "
        f"gathered into {COARSE} public ranges for them, real tables are not."
    )
    best = together.group_by("case", "method", maintain_order=True).agg(
        pl.col("value").filter(pl.col("metric") == "seconds of a release").min().alias("best")
    )
    seconds = {(case, method): value for case, method, value in best.iter_rows()}
    methods = together["method"].unique(maintain_order=True).to_list()
    timed = [
        [case, *(f"{seconds[case, method]:.3g}" if (case, method) in seconds else "—" for method in methods)]
        for case in together["case"].unique(maintain_order=True)
    ]
    return [
        errors_table("All methods", notes, together, runs),
        Table(
            "Seconds of a release",
            "Of the table above; best run, some of those of MST and AIM on a busy machine.",
            ["", *methods],
            timed,
        ),
    ]


def _over_time() -> Sequence[Table]:
    """Seven years of six steps each: who may release when the table changes only sometimes?"""
    if not _has(ACS_FILES):
        return []
    years = [ACSTable(DATA, year).load() for year in range(7)]
    shape = years[0].shape
    asked = [REAL.ranges(shape, seed=1) for _ in years]
    truths = [table.count(ranges) for table, ranges in zip(years, asked, strict=True)]
    columns = [[np.ascontiguousarray(column) for column in table.codes.T] for table in years]
    hashes = [content_hashes(each, Key(bytes(16))) for each in columns]
    copula, domain = DPCopula(), plain_domain(shape)
    layout = copula.layout(shape)
    streams: dict[str, Callable[[], Any]] = {
        "Uniform": lambda: Uniform(copula),
        "FixedRate(6)": lambda: FixedRate(interval=6, histogram=copula),
        "FixedRate(7)": lambda: FixedRate(interval=7, histogram=copula),
        "DSAT(7 releases)": lambda: DSAT(releases=7, histogram=copula),
    }
    rows: list[list[str]] = []
    for name, make in streams.items():
        errors, fresh = [], []
        for seed in range(1, FEW_RUNS + 1):
            guarantee, mechanism = Guarantee(4, w=42), make()
            accountant, noise = Accountant(guarantee, layout.size), ExactSampler(SeededSource(seed))
            state = mechanism.start(guarantee, layout.size)
            for t in range(42):
                year = t // 6
                sealed = layout.seal(ordered_rows(columns[year], hashes[year], shape, t=t))
                state, values = mechanism.step(state, sealed, Meter(accountant, noise, t))
                fresh.append(values.fresh)
                model = CopulaModel(domain, layout, np.asarray(values.numbers), Fraction(0))
                drawn = model.sample_codes(len(columns[year][0]), seed)
                answers = rows_in(drawn, asked[year]) * (model.rows / max(len(drawn[0]), 1))
                errors.append(float(np.abs(answers - truths[year]).mean()))
        rows.append([name, f"{sum(fresh) / FEW_RUNS:.1f}", f"{np.mean(errors):.2f}"])
        progress(f"over time {rows[-1]}")
    return [
        Table(
            "A changing table",
            f"ACS, seven years of six equal steps each, ε = 4 within any 42 steps; mean of {FEW_RUNS} runs.",
            ["stream", "releases", "mean absolute error (rows)"],
            rows,
        )
    ]
