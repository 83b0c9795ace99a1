"""Quantiles of real purchases over time: error, coverage and time beside other libraries on the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from importlib import import_module
from operator import itemgetter
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.measures_data import EPSILONS, Rows, purchase_rows, releases_of, taxi_rows, tumult
from benchmarks.report import Table, progress
from veilstream.data.cells import CellColumn
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.mechanisms.histograms.cuts import QuantileCuts
from veilstream.mechanisms.streams import Uniform
from veilstream.release.estimates import estimates_of_all
from veilstream.release.smoothing import Smoothing

Reals = NDArray[np.float64]
Steps = Sequence[Reals]
Method = Callable[[Rows, Steps, float], Reals]
"""Rows, values by step and epsilon -> quantiles (steps × shares)."""

SHARES: Final = (0.1, 0.5, 0.9)
CELLS: Final = 64
CUTS: Final = Uniform(QuantileCuts(CELLS, tuple(str(share) for share in SHARES)))


def _measures(rows: Rows, *, grouped: bool = True) -> ValueMeasures:
    options = QuantileOptions(tuple(Fraction(str(share)) for share in SHARES), CELLS)
    ends = Fraction(rows.low), Fraction(rows.high)
    asked = ValueMeasures.of({"quantiles": {rows.value: ends}}, options)
    edges = tuple(ends[0] + (ends[1] - ends[0]) * Fraction(i, CELLS) for i in range(CELLS + 1))
    return asked if grouped else ValueMeasures((CellColumn(rows.value, edges),), asked.asked)


def _middle(rows: Rows) -> float:
    return (rows.low + rows.high) / 2


def _from_cells(mechanism: Uniform | None = None, *, smooth: bool = False, grouped: bool = True) -> Method:
    def published(rows: Rows, _steps: Steps, epsilon: float) -> Reals:
        measures = _measures(rows, grouped=grouped)
        made = releases_of(rows, epsilon, measures, mechanism=mechanism)
        found = estimates_of_all(made, measures, smoothing=Smoothing() if smooth else None)
        values = np.array([[estimate.value[0] for estimate in of_step] for of_step in found])
        # What is not given is taken for the middle of the range.
        return np.where(np.isnan(values), _middle(rows), values)

    return published


def _opendp(rows: Rows, steps: Steps, epsilon: float) -> Reals:
    dp: Any = import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    candidates = np.linspace(rows.low, rows.high, CELLS + 1).tolist()
    queries: list[Any] = []
    for share in SHARES:
        scores: Any = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), candidates, share)

        def noisy(scale: float, scores: Any = scores) -> Any:
            return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

        query: Any = dp.binary_search_chain(noisy, d_in=1, d_out=epsilon / 3, T=float)
        queries.append(query)
    clipped = [np.clip(values, rows.low, rows.high).tolist() for values in steps]
    return np.array([[candidates[int(query(values))] for query in queries] for values in clipped])


def _diffprivlib(rows: Rows, steps: Steps, epsilon: float) -> Reals:
    tools: Any = import_module("diffprivlib.tools")
    found, bounds = np.full((len(steps), 3), _middle(rows)), (rows.low, rows.high)
    for t, values in enumerate(steps):
        if len(values):
            found[t] = [float(tools.quantile(values, share, epsilon=epsilon / 3, bounds=bounds)) for share in SHARES]
    return np.sort(found, axis=1)


def _pipeline_dp(rows: Rows, steps: Steps, epsilon: float) -> Reals:
    peer: Any = import_module("pipeline_dp")
    accountant = peer.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=1e-12)
    engine = peer.DPEngine(accountant, peer.LocalBackend())
    parameters = peer.AggregateParams(
        metrics=[peer.Metrics.PERCENTILE(round(100 * share)) for share in SHARES],
        noise_kind=peer.NoiseKind.LAPLACE,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=rows.low,
        max_value=rows.high,
    )
    extractors = peer.DataExtractors(
        privacy_id_extractor=itemgetter(0), partition_extractor=itemgetter(1), value_extractor=itemgetter(2)
    )
    public = list(range(len(steps)))
    result = engine.aggregate(list(_numbered(steps)), parameters, extractors, public_partitions=public)
    accountant.compute_budgets()
    found = dict(result)
    return np.array([[found[t].percentile_10, found[t].percentile_50, found[t].percentile_90] for t in public])


def _numbered(steps: Steps) -> Iterator[tuple[int, int, float]]:
    number = 0
    for step, values in enumerate(steps):
        for value in values.tolist():
            yield number, step, float(value)
            number += 1


SEEN: Final = {
    "dollar_value": "Tumult is measured once, by months, in seconds of the clock. The smoothing over time was adjusted "
    "on other columns: numbers of discs, gaps between messages, lengths of trips, drawn streams. Discs are of the same "
    "purchases, and an earlier smoothing was tried on this column too: it is not untouched.",
    "km": "Nothing was adjusted on this file.",
}
"""What a table says of how the methods came to be."""

METHODS: Final[dict[str, Method]] = {
    "veilstream (default)": _from_cells(smooth=True),
    "veilstream, each step by itself (`--no-smooth`)": _from_cells(),
    "veilstream, by itself and cells alone": _from_cells(grouped=False),
    "veilstream, by choice": _from_cells(CUTS, grouped=False),
    "OpenDP, exponential mechanism": _opendp,
    "PipelineDP, tree": _pipeline_dp,
    "diffprivlib, exponential mechanism": _diffprivlib,
}


def errors(runs: int) -> list[Table]:
    """The error of three quantiles at every step, of purchases and of taxis."""
    return [_errors(rows, runs) for rows in (purchase_rows("1mo"), purchase_rows("1d"), taxi_rows())]


def _errors(rows: Rows, runs: int) -> Table:
    steps = rows.parts
    here = np.array([len(values) > 0 for values in steps])
    truth = _truth(rows, steps, "linear")
    table: list[list[str]] = []
    for epsilon in EPSILONS:
        for name, method in METHODS.items():
            start = time.process_time()
            found = np.array([method(rows, steps, epsilon) for _ in range(runs)])
            seconds = (time.process_time() - start) / runs
            gaps = (found - truth)[:, here]
            each = np.sqrt((gaps**2).mean(axis=(0, 1)))
            order = float((np.diff(found, axis=2) < 0).any(axis=2).mean())
            cells = [f"{epsilon:g}", name, *(f"{error:.2f}" for error in each), f"{np.sqrt((gaps**2).mean()):.2f}"]
            table.append([*cells, f"{order:.1%}", f"{seconds:.2f}"])
            progress(f"quantiles of {rows.value}, {rows.every} | " + " | ".join(table[-1]))
        table.extend(_tumult_row(rows, epsilon, truth, here))
    sizes = sorted(len(values) for values in steps)
    notes = (
        f"{rows.about.format(rows=len(rows.frame))} in {len(steps)} steps of {sizes[0]:,} to {sizes[-1]:,}, values "
        f"between {rows.low:g} and {rows.high:g} in {CELLS} cells; one person and step is protected. Root mean squared "
        f"error of the 10 %, 50 % and 90 % quantiles over all steps with rows, {runs} runs, all three within the "
        "budget; how often they were out of order, and seconds of processor time. diffprivlib's are sorted afterwards, "
        "and it has no candidates but the values themselves. Ours gives intervals and the number of rows besides, and "
        "where it gives no value the middle of the range is taken; it reads, checks and bounds the rows within its "
        "time, as PipelineDP does, while the others get arrays that are ready. Where noise is small, errors are those "
        "of rows taken to be spread evenly within a cell, and trees with narrower cells or values of rows themselves "
        f"may be nearer in one of the three quantiles. {SEEN[rows.value]}"
    )
    columns = ["ε", "method", "10 %", "50 %", "90 %", "all", "out of order", "seconds"]
    return Table(f"Quantiles of {rows.value.replace('_', ' ')}, steps of {rows.every}", notes, columns, table)


def _truth(rows: Rows, steps: Steps, method: Literal["linear", "inverted_cdf"]) -> Reals:
    clipped = [np.clip(values, rows.low, rows.high) for values in steps]
    return np.array(
        [np.quantile(values, SHARES, method=method) if len(values) else np.full(3, np.nan) for values in clipped]
    )


def _tumult_row(rows: Rows, epsilon: float, truth: Reals, here: NDArray[np.bool_]) -> list[list[str]]:
    answers = tumult(rows.every, epsilon) if rows.value == "dollar_value" else None
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
    for rows in (purchase_rows("1mo"), purchase_rows("1d"), taxi_rows()):
        truth, measures = _truth(rows, rows.parts, "inverted_cdf"), _measures(rows)
        for epsilon in EPSILONS:
            hits, known, widths = np.zeros(3), 0, 0.0
            for _ in range(max(2, runs // (10 if len(truth) > 100 else 1))):
                found = estimates_of_all(releases_of(rows, epsilon, measures), measures, smoothing=Smoothing())
                low, high, value = (
                    np.array([[getattr(e, end)[0] for e in of_step] for of_step in found])
                    for end in ("low", "high", "value")
                )
                here = ~np.isnan(value).any(axis=1) & ~np.isnan(truth).any(axis=1)
                hits += ((low <= truth) & (truth <= high))[here].sum(axis=0)
                known += int(here.sum())
                widths += float((high - low)[here].mean()) * int(here.sum())
            cells = [
                f"{rows.value.replace('_', ' ')}, {rows.every}",
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
    columns = ["column, steps of", "ε", "10 %", "50 %", "90 %", "mean width", "intervals each"]
    return Table("Coverage of quantiles on real data", notes, columns, table)
