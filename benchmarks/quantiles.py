"""Quantiles of real purchases over time: error, coverage and time beside other libraries on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from importlib import import_module
from operator import itemgetter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.measures_data import END, EPSILONS, HIGH, LOW, START, parts_of, purchases, releases, tumult
from benchmarks.report import Table, progress
from veilstream.data import Calendar
from veilstream.data.cells import CellColumn
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.mechanisms.histograms.cuts import QuantileCuts
from veilstream.mechanisms.streams import Uniform
from veilstream.release.estimates import estimates_of_all
from veilstream.release.smoothing import Smoothing

Reals = NDArray[np.float64]
Steps = Sequence[Reals]
Method = Callable[[pl.DataFrame, Steps, str, float], Reals]
"""Rows, rows by step, the length of a step and epsilon -> quantiles (steps × shares)."""

SHARES: Final = (0.1, 0.5, 0.9)
CELLS: Final = 64
MIDDLE: Final = (LOW + HIGH) / 2


def _measures(column: CellColumn | None = None) -> ValueMeasures:
    options = QuantileOptions(tuple(Fraction(str(share)) for share in SHARES), CELLS)
    asked = ValueMeasures.of({"quantiles": {"dollar_value": (0, 100)}}, options)
    return asked if column is None else ValueMeasures((column,), asked.asked)


TREE: Final = _measures()
FLAT: Final = _measures(CellColumn("dollar_value", tuple(Fraction(100 * i, CELLS) for i in range(CELLS + 1))))


CUTS: Final = Uniform(QuantileCuts(CELLS, tuple(str(share) for share in SHARES)))


def _from_cells(measures: ValueMeasures, mechanism: Uniform | None = None, *, smooth: bool = False) -> Method:
    def published(frame: pl.DataFrame, _steps: Steps, every: str, epsilon: float) -> Reals:
        past = Smoothing() if smooth else None
        made = releases(frame, every, epsilon, measures, mechanism=mechanism)
        found = estimates_of_all(made, measures, smoothing=past)
        values = np.array([[estimate.value[0] for estimate in of_step] for of_step in found])
        # What is not given is taken for the middle of the range.
        return np.where(np.isnan(values), MIDDLE, values)

    return published


def _opendp(_frame: pl.DataFrame, steps: Steps, _every: str, epsilon: float) -> Reals:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    candidates = np.linspace(LOW, HIGH, CELLS + 1).tolist()
    queries: list[Any] = []
    for share in SHARES:
        scores: Any = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), candidates, share)

        def noisy(scale: float, scores: Any = scores) -> Any:
            return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

        query: Any = dp.binary_search_chain(noisy, d_in=1, d_out=epsilon / 3, T=float)
        queries.append(query)
    clipped = [np.clip(rows, LOW, HIGH).tolist() for rows in steps]
    return np.array([[candidates[int(query(rows))] for query in queries] for rows in clipped])


def _diffprivlib(_frame: pl.DataFrame, steps: Steps, _every: str, epsilon: float) -> Reals:
    tools: Any = import_module("diffprivlib.tools")
    found = np.full((len(steps), 3), MIDDLE)
    for t, rows in enumerate(steps):
        if len(rows):
            found[t] = [float(tools.quantile(rows, share, epsilon=epsilon / 3, bounds=(LOW, HIGH))) for share in SHARES]
    return np.sort(found, axis=1)


def _pipeline_dp(_frame: pl.DataFrame, steps: Steps, _every: str, epsilon: float) -> Reals:
    peer: Any = import_module("pipeline_dp")
    accountant = peer.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=1e-12)
    engine = peer.DPEngine(accountant, peer.LocalBackend())
    parameters = peer.AggregateParams(
        metrics=[peer.Metrics.PERCENTILE(round(100 * share)) for share in SHARES],
        noise_kind=peer.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=LOW,
        max_value=HIGH,
    )
    extractors = peer.DataExtractors(
        privacy_id_extractor=itemgetter(0), partition_extractor=itemgetter(1), value_extractor=itemgetter(2)
    )
    public = list(range(len(steps)))
    result = engine.aggregate(list(_rows(steps)), parameters, extractors, public_partitions=public)
    accountant.compute_budgets()
    found = dict(result)
    return np.array([[found[t].percentile_10, found[t].percentile_50, found[t].percentile_90] for t in public])


def _rows(steps: Steps) -> Iterator[tuple[int, int, float]]:
    number = 0
    for step, rows in enumerate(steps):
        for value in rows.tolist():
            yield number, step, float(value)
            number += 1


METHODS: Final[dict[str, Method]] = {
    "veilstream, two levels (default)": _from_cells(TREE),
    "veilstream, two levels, smoothed over time": _from_cells(TREE, smooth=True),
    "veilstream, cells alone": _from_cells(FLAT),
    "veilstream, by choice": _from_cells(FLAT, CUTS),
    "OpenDP, exponential mechanism": _opendp,
    "PipelineDP, tree": _pipeline_dp,
    "diffprivlib, exponential mechanism": _diffprivlib,
}


def errors(every: str, runs: int) -> Table:
    """The error of three quantiles at every step."""
    frame, count = purchases(every), Calendar(START, END, every).steps
    steps = parts_of(frame, count)
    here = np.array([len(rows) > 0 for rows in steps])
    truth = np.array(
        [np.quantile(np.clip(rows, LOW, HIGH), SHARES) if len(rows) else np.full(3, np.nan) for rows in steps]
    )
    table: list[list[str]] = []
    for epsilon in EPSILONS:
        for name, method in METHODS.items():
            start = time.process_time()
            found = np.array([method(frame, steps, every, epsilon) for _ in range(runs)])
            seconds = (time.process_time() - start) / runs
            gaps = (found - truth)[:, here]
            each = np.sqrt((gaps**2).mean(axis=(0, 1)))
            order = float((np.diff(found, axis=2) < 0).any(axis=2).mean())
            cells = [f"{epsilon:g}", name, *(f"{error:.2f}" for error in each), f"{np.sqrt((gaps**2).mean()):.2f}"]
            table.append([*cells, f"{order:.1%}", f"{seconds:.2f}"])
            progress(f"quantiles {every} | " + " | ".join(table[-1]))
        table.extend(_tumult_row(every, epsilon, truth, here))
    sizes = sorted(len(rows) for rows in steps)
    notes = (
        f"CDNOW, {len(frame):,} purchases in {count} steps of {sizes[0]:,} to {sizes[-1]:,}, values between 0 and 100 "
        f"in {CELLS} cells; one customer and step is protected. Root mean squared error of the 10 %, 50 % and 90 % "
        f"quantiles over all steps with rows, {runs} runs, all three within the budget; how often they were out of "
        "order, and seconds of processor time. diffprivlib's are sorted afterwards, and it has no candidates but the "
        "values themselves. Tumult is measured once, by months, in seconds of the clock. Ours gives intervals and the "
        "number of rows besides, and where it gives no value the middle of the range is taken. The smoothing was "
        "adjusted on other columns: numbers of discs, gaps between messages, lengths of trips, two drawn streams. "
        "Discs are of the same purchases, and a first sketch was tried on this column too: it is not untouched."
    )
    columns = ["ε", "method", "10 %", "50 %", "90 %", "all", "out of order", "seconds"]
    return Table(f"Quantiles of purchases, steps of {every}", notes, columns, table)


def _tumult_row(every: str, epsilon: float, truth: Reals, here: NDArray[np.bool_]) -> list[list[str]]:
    answers = tumult(every, epsilon)
    if answers is None:
        return []
    found = np.array([answers[f"{share}"] for share in SHARES]).T
    gaps = (found - truth)[here]
    each = [float(np.sqrt((gap**2).mean())) for gap in (*gaps.T, gaps)]
    order = float((np.diff(found, axis=1) < 0).any(axis=1).mean())
    seconds = sum(answers[f"{share} seconds"] for share in SHARES)
    errors = [f"{error:.2f}" for error in each]
    return [[f"{epsilon:g}", "Tumult", *errors, f"{order:.1%}", f"{seconds:.2f}"]]


def coverage(runs: int) -> Table:
    """How often the intervals of ours hold the exact quantiles."""
    table: list[list[str]] = []
    for every in ("1mo", "1d"):
        frame = purchases(every)
        steps = parts_of(frame, Calendar(START, END, every).steps)
        truth = np.array(
            [
                np.quantile(np.clip(rows, LOW, HIGH), SHARES, method="inverted_cdf")
                if len(rows)
                else np.full(3, np.nan)
                for rows in steps
            ]
        )
        for epsilon in EPSILONS:
            hits, known, widths = np.zeros(3), 0, 0.0
            for _ in range(max(2, runs // (1 if every == "1mo" else 10))):
                found = estimates_of_all(releases(frame, every, epsilon, TREE), TREE)
                low, high, value = (
                    np.array([[getattr(e, end)[0] for e in of_step] for of_step in found])
                    for end in ("low", "high", "value")
                )
                here = ~np.isnan(value).any(axis=1) & ~np.isnan(truth).any(axis=1)
                hits += ((low <= truth) & (truth <= high))[here].sum(axis=0)
                known += int(here.sum())
                widths += float((high - low)[here].mean()) * int(here.sum())
            cells = [
                every,
                f"{epsilon:g}",
                *(f"{hit / known:.1%}" for hit in hits),
                f"{widths / known:.1f}",
                f"{known:,}",
            ]
            progress("coverage of quantiles | " + " | ".join(cells))
            table.append(cells)
    notes = (
        "How often the 95 % intervals hold the exact quantile, where a value is given. Ends lie at the edges of cells, "
        "which makes intervals wider than the noise alone would."
    )
    columns = ["steps of", "ε", "10 %", "50 %", "90 %", "mean width", "intervals each"]
    return Table("Coverage of quantiles on real data", notes, columns, table)
