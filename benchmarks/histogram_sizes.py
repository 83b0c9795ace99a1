"""Errors by the number of bins and of records, and the least that any matrix mechanism can have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from benchmarks.histogram_errors import (
    AUTO,
    AUTO_BINS,
    BRANCHING,
    WAVE,
    Counts,
    Estimate,
    catalogue,
    errors,
    line_data,
    opendp_tree,
    plane_data,
    seeded,
)
from benchmarks.report import Table, progress
from veilstream.evaluate.queries import RangeSums, random_ranges
from veilstream.mechanisms.histograms import Geometric, Matrix, Privelet
from veilstream.mechanisms.histograms._strategies import best_tree, workload_error
from veilstream.noise.spread import laplace_std

EPSILON: Final = "0.1"
RECORDS: Final = (10**4, 10**5, 10**6, 10**7)
LINES: Final = (256, 1024, 4096)
PLANES: Final = (64, 256)
RUNS: Final = 2
FOR_RANGES: Final = (AUTO, "hb", "psd", "matrix", "ag", "dawa", "privelet")
FOR_BINS: Final = (AUTO_BINS, "haar", "noise-first", "dpcube", "fp", "ag", "psd")
BOUND_RUNS: Final = 20
BOUND_QUERIES: Final = 2000


def sizes_of_lines() -> Sequence[Table]:
    """Ranges and bins of DPBench's lines with fewer bins and with other numbers of records."""
    shapes = {name: counts for name, counts in line_data().items() if name != WAVE}
    found: dict[tuple[int, ...], dict[str, Counts]] = {}
    for size in LINES:
        found[size,] = {name: counts.reshape(size, -1).sum(axis=1) for name, counts in shapes.items()}
    return _tables("1-D", found, {"opendp tree": opendp_tree})


def sizes_of_planes() -> Sequence[Table]:
    """The same of its planes."""
    found: dict[tuple[int, ...], dict[str, Counts]] = {}
    for side in PLANES:
        part = 256 // side
        found[side, side] = {
            name: counts.reshape(side, part, side, part).sum(axis=(1, 3)).reshape(-1)
            for name, counts in plane_data().items()
        }
    return _tables("2-D", found, {})


def _tables(
    kind: str, shapes: Mapping[tuple[int, ...], Mapping[str, Counts]], peers: Mapping[str, Estimate]
) -> Sequence[Table]:
    chosen = {name: method for name, method in catalogue().items() if name in ("geometric", *FOR_RANGES, *FOR_BINS)}
    methods = {**chosen, **peers}
    rows: tuple[list[list[str]], list[list[str]]] = ([], [])
    for shape, data in shapes.items():
        for records in RECORDS:
            drawn = {f"{name} {records}": _drawn(counts, records) for name, counts in data.items()}
            both = errors(drawn, shape, methods, RUNS, (EPSILON,))
            first = [" × ".join(f"{side:,}" for side in shape), f"{records:,}"]
            for use, found, kept in zip((0, 1), both, (FOR_RANGES, FOR_BINS), strict=True):
                bound = math.sqrt(_least_share(shape)) if use == 0 else 1.0
                means = {
                    method: float(np.exp(np.mean([np.log(row[method] / row["geometric"]) for row in found.values()])))
                    for method in (*kept, *peers)
                }
                least = min(means.values())
                cells = [f"**{mean:.2f}**" if mean == least else f"{mean:.2f}" for mean in means.values()]
                rows[use].append([*first, *cells, f"{bound:.2f}"])
            progress(f"sizes {rows[0][-1]} {rows[1][-1]}")
    number = len(next(iter(shapes.values())))
    notes = (
        f"Records drawn from the shapes of DPBench's {number} data sets, at epsilon {EPSILON}, {RUNS} runs: geometric "
        "means of the errors as multiples of that of plain noise. Records and epsilon count by their product: ten "
        "times the records are as good as ten times epsilon. "
    )
    titles = (f"Range queries by size, {kind}", f"Single bins by size, {kind}")
    bounds = (
        "`bound`: no matrix mechanism has a smaller root mean square error over all ranges, as a multiple of that of "
        "plain noise (see the table of bounds); methods that look at the data may go below it.",
        "`bound`: plain noise is the best of all matrix mechanisms for single bins.",
    )
    return [
        Table(
            title,
            notes + bound,
            ["bins", "records", *(AUTO if name == AUTO_BINS else name for name in kept), *peers, "bound"],
            filled,
        )
        for title, bound, kept, filled in zip(titles, bounds, (FOR_RANGES, FOR_BINS), rows, strict=True)
    ]


def _drawn(counts: Counts, records: int) -> Counts:
    """So many records from the shape of a histogram."""
    # Data for a measurement; nothing is released.
    rng = np.random.default_rng(records)  # noqa: TID251
    return rng.multinomial(records, counts / counts.sum()).astype(np.int64)


def least_variance(size: int) -> float:
    """What no matrix mechanism's mean variance over all ranges of a line is below, for noise of variance 1.

    With W the m ranges over n bins, that is (Σσ)²/(n·m), σ the singular values of W (Li, Miklau: Optimal error of query
    sets under the differentially-private matrix mechanism, ICDT 2013). Their bound is for Gaussian noise, whose scale
    is the largest norm of a column; Laplace noise of the same variance has the largest sum of one, which is not less.
    (WᵀW)_ij = min(i, j)·(n + 1 − max(i, j)) is n + 1 times the inverse of the matrix of second differences, whose
    eigenvalues are 4·sin²(πk/(2n + 2)).

    >>> ranges = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]])
    >>> sum_of_values = np.linalg.svd(ranges, compute_uv=False).sum()
    >>> bool(np.isclose(least_variance(3), sum_of_values**2 / (3 * 6)))
    True
    """
    angles = math.pi * np.arange(1, size + 1) / (2 * size + 2)
    values = math.sqrt(size + 1) / (2 * np.sin(angles))
    return float(values.sum() ** 2 / (size * size * (size + 1) / 2))


def _least_share(shape: Sequence[int]) -> float:
    """The bound over the mean variance of plain noise; along several axes both multiply."""
    return math.prod(least_variance(size) / ((size + 2) / 3) for size in shape)


def bound_table() -> Table:
    """How near strategies come to the bound, on data that do not matter to them."""
    rows: list[list[str]] = []
    for shape in ((256,), (1024,), (4096,), (16384,), (65536,), (64, 64), (256, 256), (32, 32, 32)):
        queries = random_ranges(shape, BOUND_QUERIES, seed=1)
        least = math.sqrt(math.prod(least_variance(size) for size in shape)) * laplace_std(1 / float(EPSILON))
        methods: dict[str, Estimate] = {
            "matrix": seeded(Matrix()),
            "privelet": seeded(Privelet()),
            "geometric": seeded(Geometric()),
        }
        if len(shape) == 1:
            methods["opendp tree"] = opendp_tree
        nothing = np.zeros(math.prod(shape), dtype=np.int64)
        found: dict[str, float] = {}
        for method, estimate in methods.items():
            runs = [
                RangeSums(estimate(nothing, shape, EPSILON, seed), shape).answer(queries) for seed in range(BOUND_RUNS)
            ]
            found[method] = float(np.sqrt(np.mean(np.square(runs))))
        found["matrix, Gaussian"] = least * math.sqrt(
            math.prod(
                workload_error(best_tree(size, "ranges", "gaussian"), "ranges") / least_variance(size) for size in shape
            )
        )
        cells = [f"{found[method] / least:.2f}" if method in found else "-" for method in _COMPARED]
        rows.append([" × ".join(f"{side:,}" for side in shape), f"{least:.1f}", *cells])
        progress(f"bound {rows[-1]}")
    return Table(
        "The bound of the matrix mechanism for ranges",
        "The least root mean square error over all ranges (boxes) that any matrix mechanism of pure epsilon "
        f"{EPSILON} can have, by the singular values of the workload, in counts; and the errors of methods whose noise "
        f"does not depend on the data, as multiples of it ({BOUND_QUERIES:,} random ranges, {BOUND_RUNS} runs). The "
        "bound is one of Gaussian noise, for which levels of a tree cost less than for Laplace noise; it holds for "
        "that too, and whether it can be reached is not known. `matrix, Gaussian` says by formula how near the "
        f"strategies of `matrix` come with that noise. `opendp tree` has branching {BRANCHING}.",
        ["bins", "bound", *_COMPARED],
        rows,
    )


_COMPARED: Final = ("matrix", "privelet", "geometric", "opendp tree", "matrix, Gaussian")
