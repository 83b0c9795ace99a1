"""Sums, means and quantiles of real purchases over time: error, coverage and time beside other libraries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks import quantiles
from benchmarks.measures_data import END, EPSILONS, HIGH, LOW, START, parts_of, purchases, releases, tumult
from benchmarks.report import Table, progress
from veilstream.data import Calendar
from veilstream.data.measures import ValueMeasures
from veilstream.release.estimates import estimates_of_all

Reals = NDArray[np.float64]
Months = Sequence[Reals]

RUNS: Final = 5
LARGEST_VARIANCE: Final = (HIGH - LOW) ** 2 / 4
ASKED: Final = ValueMeasures.of({name: {"dollar_value": (0, 100)} for name in ("sum", "mean", "variance")})


def run(quick: bool = False) -> Sequence[Table]:
    """The tables of the suite."""
    runs = 3 if quick else RUNS
    trials = 20 if quick else 80
    sums = [_errors(every, runs) for every in ("1mo", "1d")]
    return [
        *sums,
        _coverage(trials),
        *quantiles.errors(runs),
        quantiles.coverage(trials),
    ]


@dataclass(frozen=True, slots=True)
class _Result:
    sums: Reals
    means: Reals


Method = Callable[[pl.DataFrame, Months, str, float], _Result]


def _ours(frame: pl.DataFrame, _parts: Months, every: str, epsilon: float) -> _Result:
    found = estimates_of_all(releases(frame, every, epsilon, ASKED), ASKED)
    return _Result(np.array([e[0].value[0] for e in found]), np.array([e[1].value[0] for e in found]))


def _opendp(_frame: pl.DataFrame, parts: Months, _every: str, epsilon: float) -> _Result:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(bounds=(LOW, HIGH), nan=False)), dp.symmetric_distance()
    total: Any = dp.t.make_sum(*space)
    count: Any = dp.t.make_count(*space)
    noisy_sum: Any = total >> dp.m.then_laplace(scale=HIGH / (epsilon / 2))
    noisy_count: Any = count >> dp.m.then_laplace(scale=1 / (epsilon / 2))
    clipped = [np.clip(part, LOW, HIGH).tolist() for part in parts]
    sums, counts = (np.array([float(query(part)) for part in clipped]) for query in (noisy_sum, noisy_count))
    return _Result(sums, np.clip(sums / np.maximum(counts, 1), LOW, HIGH))


def _diffprivlib(_frame: pl.DataFrame, parts: Months, _every: str, epsilon: float) -> _Result:
    tools: Any = import_module("diffprivlib.tools")
    half, bounds = epsilon / 2, (LOW, HIGH)
    sums = [float(tools.sum(part, epsilon=half, bounds=bounds)) if len(part) else 0.0 for part in parts]
    means = [float(tools.mean(part, epsilon=half, bounds=bounds)) if len(part) else 50.0 for part in parts]
    return _Result(np.array(sums), np.array(means))


def _pipeline_dp(_frame: pl.DataFrame, parts: Months, _every: str, epsilon: float) -> _Result:
    peer: Any = import_module("pipeline_dp")
    rows = [(number, step, value) for number, (step, value) in enumerate(
        (step, float(value)) for step, part in enumerate(parts) for value in part
    )]  # fmt: skip
    accountant = peer.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=1e-12)
    engine = peer.DPEngine(accountant, peer.LocalBackend())
    parameters = peer.AggregateParams(
        metrics=[peer.Metrics.SUM, peer.Metrics.MEAN],
        noise_kind=peer.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=LOW,
        max_value=HIGH,
    )
    extractors = peer.DataExtractors(
        privacy_id_extractor=itemgetter(0), partition_extractor=itemgetter(1), value_extractor=itemgetter(2)
    )
    result = engine.aggregate(rows, parameters, extractors, public_partitions=list(range(len(parts))))
    accountant.compute_budgets()
    found = dict(result)
    ordered = [found[step] for step in range(len(parts))]
    return _Result(np.array([r.sum for r in ordered]), np.array([r.mean for r in ordered]))


def _tumult_row(every: str, epsilon: float, sums: Reals, means: Reals) -> list[list[str]]:
    found = tumult(every, epsilon)
    if found is None:
        return []
    gaps = np.array(found["sums"]) - sums, np.clip(np.array(found["means"]), LOW, HIGH) - means
    errors = [float(np.sqrt(np.nanmean(gap**2))) for gap in gaps]
    seconds = found["sums seconds"] + found["means seconds"]
    return [[f"{epsilon:g}", "Tumult", f"{errors[0]:,.0f}", f"{errors[1]:.3f}", f"{seconds:.2f}"]]


METHODS: Final[dict[str, Method]] = {
    "veilstream": _ours,
    "OpenDP": _opendp,
    "PipelineDP": _pipeline_dp,
    "diffprivlib": _diffprivlib,
}


def _errors(every: str, runs: int) -> Table:
    frame, steps = purchases(every), Calendar(START, END, every).steps
    parts = parts_of(frame, steps)
    clipped = [np.clip(part, LOW, HIGH) for part in parts]
    sums = np.array([part.sum() for part in clipped])
    means = np.array([part.mean() if len(part) else np.nan for part in clipped])
    rows: list[list[str]] = []
    for epsilon in EPSILONS:
        for name, method in METHODS.items():
            start = time.process_time()
            found = [method(frame, parts, every, epsilon) for _ in range(runs)]
            seconds = (time.process_time() - start) / runs
            sum_error = np.sqrt(np.mean([(f.sums - sums) ** 2 for f in found]))
            # A mean that is not given is taken for the middle of the range.
            given = [np.where(np.isnan(f.means), (LOW + HIGH) / 2, f.means) - means for f in found]
            mean_error = np.sqrt(np.nanmean([gap**2 for gap in given]))
            cells = [f"{epsilon:g}", name, f"{sum_error:,.0f}", f"{mean_error:.3f}", f"{seconds:.2f}"]
            progress(f"{every} | " + " | ".join(cells))
            rows.append(cells)
        rows.extend(_tumult_row(every, epsilon, sums, means))
    sizes = sorted(len(part) for part in parts)
    notes = (
        f"CDNOW, {len(frame):,} purchases, one of each customer and step, in {steps} steps of {sizes[0]:,} to "
        f"{sizes[-1]:,}, values between 0 and 100; one customer and step is protected. Root mean squared error of the "
        f"sums and of the means over all steps, {runs} runs. Ours publishes variances and intervals for the same "
        "budget. OpenDP: sum and count with half the budget each. diffprivlib takes the number of rows for public, "
        "which the others protect. Ours reads, checks and bounds the rows within its time, as PipelineDP does; the "
        "other two get arrays that are ready. Seconds of processor time; Tumult, which needs an interpreter with older "
        "libraries (`VEILSTREAM_TUMULT`), is measured once, by months, in seconds of the clock without its start."
    )
    columns = ["ε", "library", "error of sums", "error of means", "seconds"]
    return Table(f"Sums and means of purchases, steps of {every}", notes, columns, rows)


def _coverage(runs: int) -> Table:
    rows: list[list[str]] = []
    for every in ("1mo", "1d"):
        frame = purchases(every)
        parts = [np.clip(part, LOW, HIGH) for part in parts_of(frame, Calendar(START, END, every).steps)]
        truth = [
            np.array([part.sum() for part in parts]),
            np.array([part.mean() if len(part) else np.nan for part in parts]),
            np.array([part.var() if len(part) else np.nan for part in parts]),
        ]
        for epsilon in EPSILONS:
            hits, known, whole = np.zeros(3), np.zeros(3), 0
            for _ in range(max(2, runs // (1 if every == "1mo" else 10))):
                found = estimates_of_all(releases(frame, every, epsilon, ASKED), ASKED)
                for index, exact in enumerate(truth):
                    low, high, value = (
                        np.array([getattr(e[index], end)[0] for e in found]) for end in ("low", "high", "value")
                    )
                    here = ~np.isnan(value) & ~np.isnan(exact)
                    hits[index] += int(((low <= exact) & (exact <= high))[here].sum())
                    known[index] += int(here.sum())
                    if ASKED.asked[index][0] == "variance":
                        whole += int(((low <= 0) & (high >= LARGEST_VARIANCE))[here].sum())
            cells = [every, f"{epsilon:g}", *(f"{hit / count:.1%}" for hit, count in zip(hits, known, strict=True))]
            cells += [f"{whole / known[2]:.1%}", f"{(hits[2] - whole) / (known[2] - whole):.1%}"]
            progress(" | ".join(cells))
            rows.append([*cells, f"{int(known[1]):,}"])
    notes = (
        "How often the 95 % intervals of sums, means and variances hold the exact value, where a value is given. Where "
        "noise is as large as the number of rows, the interval of a variance is all that a variance can be, and holds "
        "it always: how often that is so, and how often the others hold it, is given besides."
    )
    columns = ["steps of", "ε", "sums", "means", "variances", "of them all that is possible", "the other variances"]
    return Table("Coverage on real data", notes, [*columns, "intervals of means"], rows)
