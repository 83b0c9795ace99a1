"""Errors of one-time histograms on ranges and single bins: the catalogue, outside peers, and DPBench's data."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.report import ROOT, Table, progress
from veilstream.evaluate.queries import Ranges, RangeSums, random_ranges
from veilstream.mechanisms.histograms import EFPA, HISTOGRAMS, Auto
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

Counts: TypeAlias = NDArray[np.int64]
Reals: TypeAlias = NDArray[np.float64]
Estimate: TypeAlias = Callable[[Counts, tuple[int, ...], str, int], Reals]
ErrorsOfMethods: TypeAlias = dict[tuple[str, ...], dict[str, float]]

DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", ROOT.parent / "shared" / "data"))
EPSILONS: Final = ("0.01", "0.1", "1")
QUERIES: Final = 2000
RUNS: Final = 3
WAVE: Final = "smooth wave"
BRANCHING: Final = 16
AUTO, AUTO_BINS = "auto", "auto, bins"
"""``auto`` for ranges and for single bins; a table of one use shows only its own."""


def line_data() -> dict[str, Counts]:
    """DPBench's ten lines of 4,096 bins, and three periods of a sine."""
    table = pl.read_csv(DATA / "dpbench_1d_histograms.csv.gz")
    data = {name: table[name].cast(pl.Int64).to_numpy() for name in table.columns if name != "bin"}
    wave = 500 + 300 * np.sin(np.arange(4096) * 6 * np.pi / 4096)
    return {**data, WAVE: np.rint(wave).astype(np.int64)}


def plane_data() -> dict[str, Counts]:
    """DPBench's eight planes of 256 × 256 cells, row by row."""
    table = pl.read_csv(DATA / "dpbench_2d_histograms_sparse.csv.gz")
    grids: dict[str, Counts] = {}
    for (name,), cells in table.group_by("dataset", maintain_order=True):
        grid = np.zeros((256, 256), dtype=np.int64)
        grid[cells["row"].to_numpy(), cells["col"].to_numpy()] = cells["count"].cast(pl.Int64).to_numpy()
        grids[str(name)] = grid.reshape(-1)
    return grids


def catalogue() -> dict[str, Estimate]:
    """Every method with its defaults; ``auto`` for ranges, and once more for single bins."""
    chosen: dict[str, HistogramMechanism] = {name: kind() for name, kind in HISTOGRAMS.items() if name != "gaussian"}
    chosen[AUTO_BINS] = Auto("bins")
    chosen["efpa, fallback"] = EFPA(fallback=True)
    return {name: seeded(histogram) for name, histogram in chosen.items()}


def seeded(histogram: HistogramMechanism) -> Estimate:
    """A method with simulated noise."""

    def estimate(counts: Counts, shape: tuple[int, ...], epsilon: str, seed: int) -> Reals:
        noise = ExactSampler(SeededSource(seed))
        meter = Meter(Accountant(Guarantee(epsilon, w=1), counts.size), noise, 0)
        values = histogram.estimate(seal(counts, 0, shape=shape), Fraction(epsilon), meter)
        return np.asarray(values.numbers, dtype=np.float64)

    return estimate


def peers_on_lines() -> dict[str, Estimate]:
    """Other packages, as far as they are installed."""
    peers: dict[str, Estimate] = {"opendp tree": opendp_tree}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from diffprivlib.tools import histogram
    except ImportError as error:
        progress(f"diffprivlib left out: {error}")
        return peers

    def diffprivlib(counts: Counts, _shape: tuple[int, ...], epsilon: str, _seed: int) -> Reals:
        size = counts.size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = histogram(
                np.arange(size), epsilon=float(epsilon), bins=size, range=(-0.5, size - 0.5), weights=counts
            )
        return np.asarray(found, dtype=np.float64)

    peers["diffprivlib"] = diffprivlib
    return peers


def opendp_tree(counts: Counts, _shape: tuple[int, ...], epsilon: str, _seed: int) -> Reals:
    """OpenDP's b-ary tree with its consistency step."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T=int))
    tree: Any = dp.t.make_b_ary_tree(domain, dp.l1_distance(T=int), leaf_count=counts.size, branching_factor=BRANCHING)
    noisy = (tree >> dp.m.then_laplace(scale=tree.map(1) / float(epsilon)))(counts.tolist())
    return np.array(dp.t.make_consistent_b_ary_tree(branching_factor=BRANCHING)(noisy))[: counts.size]


def errors(
    data: Mapping[str, Counts],
    shape: tuple[int, ...],
    methods: Mapping[str, Estimate],
    runs: int = RUNS,
    epsilons: tuple[str, ...] = EPSILONS,
) -> tuple[ErrorsOfMethods, ErrorsOfMethods]:
    """Mean absolute errors of random ranges and of single bins.

    Every row has noise of its own: one draw must not favour a method in all of them.
    """
    queries = random_ranges(shape, QUERIES, seed=1)
    ranges: ErrorsOfMethods = {}
    bins: ErrorsOfMethods = {}
    for name, counts in data.items():
        truth = RangeSums(counts, shape).answer(queries)
        for epsilon in epsilons:
            row = ranges[name, epsilon] = {}
            single = bins[name, epsilon] = {}
            for method, estimate in methods.items():
                seeds = [zlib.crc32(f"{name} {epsilon} {run}".encode()) for run in range(runs)]
                pairs = [_error(estimate(counts, shape, epsilon, s), counts, queries, truth, shape) for s in seeds]
                row[method], single[method] = (float(mean) for mean in np.mean(pairs, axis=0))
            progress(f"{name} {epsilon}: " + ", ".join(f"{m} {e / row['geometric']:.2f}" for m, e in row.items()))
    return ranges, bins


def _error(values: Reals, counts: Counts, queries: Ranges, truth: Any, shape: tuple[int, ...]) -> tuple[float, float]:
    answers = RangeSums(values, shape).answer(queries)
    return float(np.abs(answers - truth).mean()), float(np.abs(values - counts).mean())


def for_use(found: ErrorsOfMethods, use: str) -> ErrorsOfMethods:
    """The errors with ``auto`` as it is for "ranges" or "bins", and not the other."""
    own, other = (AUTO, AUTO_BINS) if use == "ranges" else (AUTO_BINS, AUTO)
    return {
        key: {AUTO if method == own else method: error for method, error in row.items() if method != other}
        for key, row in found.items()
    }


def error_table(title: str, notes: str, found: ErrorsOfMethods) -> Table:
    """Errors as multiples of plain noise, the least of each row in bold."""
    methods = [method for method in next(iter(found.values())) if method != "geometric"]
    rows: list[list[str]] = []
    for (name, epsilon), row in found.items():
        ratios = [row[method] / row["geometric"] for method in methods]
        best = min(ratios)
        cells = [f"**{ratio:.2f}**" if ratio == best else f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, epsilon, f"{row['geometric']:,.1f}", *cells])
    return Table(title, f"{notes} {versions()}", ["data", "epsilon", "geometric", *methods], rows)


def versions() -> str:
    """Of the packages that are compared with."""
    found: list[str] = []
    for package in ("opendp", "diffprivlib", "scikit-learn"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} absent")
    return f"({', '.join(found)}.)"
