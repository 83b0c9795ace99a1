"""One-time histograms on the DPBench data: error against plain noise and outside peers, and time against size."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.held_back_lines import fresh_lines, held_back_lines, hindsight
from benchmarks.histogram_figure import draw
from benchmarks.report import Table, progress
from benchmarks.sparse_histograms import cpu_seconds
from veilstream.evaluate.queries import Ranges, RangeSums, random_ranges
from veilstream.mechanisms.histograms import EFPA, HISTOGRAMS, Auto, Barak, Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import ExactSampler, SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

Counts: TypeAlias = NDArray[np.int64]
Estimate: TypeAlias = Callable[[Counts, tuple[int, ...], str, int], NDArray[np.float64]]
ErrorsOfMethods: TypeAlias = dict[tuple[str, str], dict[str, float]]

ROOT: Final = Path(__file__).resolve().parent.parent
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", ROOT.parent / "shared" / "data"))
FIGURE: Final = ROOT / "docs" / "figures" / "histograms.png"
EPSILONS: Final = ("0.01", "0.1", "1")
QUERIES: Final = 2000
RUNS: Final = 2
HELD_BACK_RUNS: Final = 5
"""Of each method: the best of many is picked by its mean, which chance must not decide."""
WAVE: Final = "smooth wave"
BRANCHING: Final = 16
CENSUS: Final = (96, 2, 12, 2, 2, 3)


def run(quick: bool = False) -> Sequence[Table]:
    """All tables of the suite, and the figure; quick: errors on a few data sets, printed only."""
    line, plane = _line_data(), _plane_data()
    methods = _methods()
    if quick:
        few = {name: line[name] for name in list(line)[:2]}
        return [
            _error_table("Range queries, 1-D, 4,096 bins", _RANGES, _errors(few, (4096,), {**methods, **_peers()})[0])
        ]
    ranges, bins = _errors(line, (4096,), {**methods, **_peers()})
    boxes, _ = _errors(plane, (256, 256), methods)
    draw({key: row for key, row in ranges.items() if key[0] != WAVE}, FIGURE)
    return [
        _error_table("Range queries, 1-D, 4,096 bins", _RANGES, ranges),
        _error_table("Single bins, 1-D, 4,096 bins", "Mean absolute error of a bin, as above.", bins),
        _error_table("Range queries, 2-D, 256 × 256", "As for one dimension, with random boxes.", boxes),
        _marginals(),
        _speed(),
    ]


_RANGES: Final = (
    f"Mean absolute error of {QUERIES:,} random ranges, {RUNS} runs. `geometric` in counts, the others in multiples "
    f"of it: below 1 is better. `opendp tree` is OpenDP's b-ary tree of branching {BRANCHING} with its consistency "
    f"step; `diffprivlib` its `histogram`, which clips at 0. `{WAVE}` is made up: three periods of a sine between 200 "
    "and 800."
)


def held_back() -> Sequence[Table]:
    """Lines that nothing was tuned on: a suite of its own, because it is quick."""
    methods = {**_methods(), **_peers(), "auto, bins": _seeded(Auto("bins"))}
    ranges, bins = _errors(fresh_lines(DATA), (4096,), methods, HELD_BACK_RUNS)
    seen_ranges, seen_bins = _errors(held_back_lines(DATA), (4096,), methods, HELD_BACK_RUNS)
    return [
        hindsight("Lines held back, ranges", _HELD_BACK, ranges, "auto"),
        hindsight("Lines held back, single bins", _HELD_BACK, bins, "auto, bins"),
        hindsight("Other lines, ranges", _SEEN, seen_ranges, "auto"),
        hindsight("Other lines, single bins", _SEEN, seen_bins, "auto, bins"),
    ]


_HELD_BACK: Final = (
    "Lines of 4,096 bins that nobody looked at before the rules of `auto` and all methods were fixed. Errors, "
    f"means of {HELD_BACK_RUNS} runs, over that of the method that is best in hindsight for the line and epsilon; "
    "`auto` (told what it is for), the seven methods of least geometric mean, and OpenDP's tree."
)


_SEEN: Final = (
    "Lines on which nothing was tuned, but whose figures were known when the present `haar` and the present rules for "
    "single bins were made. As above."
)


def _line_data() -> dict[str, Counts]:
    table = pl.read_csv(DATA / "dpbench_1d_histograms.csv.gz")
    data = {name: table[name].cast(pl.Int64).to_numpy() for name in table.columns if name != "bin"}
    wave = 500 + 300 * np.sin(np.arange(4096) * 6 * np.pi / 4096)
    return {**data, WAVE: np.rint(wave).astype(np.int64)}


def _plane_data() -> dict[str, Counts]:
    table = pl.read_csv(DATA / "dpbench_2d_histograms_sparse.csv.gz")
    grids: dict[str, Counts] = {}
    for (name,), cells in table.group_by("dataset", maintain_order=True):
        grid = np.zeros((256, 256), dtype=np.int64)
        grid[cells["row"].to_numpy(), cells["col"].to_numpy()] = cells["count"].cast(pl.Int64).to_numpy()
        grids[str(name)] = grid.reshape(-1)
    return grids


def _methods() -> dict[str, Estimate]:
    chosen: dict[str, HistogramMechanism] = {name: kind() for name, kind in HISTOGRAMS.items() if name != "gaussian"}
    chosen["efpa, fallback"] = EFPA(fallback=True)
    return {name: _seeded(histogram) for name, histogram in chosen.items()}


def _seeded(histogram: HistogramMechanism) -> Estimate:
    def estimate(counts: Counts, shape: tuple[int, ...], epsilon: str, seed: int) -> NDArray[np.float64]:
        noise = ExactSampler(SeededSource(seed))
        meter = Meter(Accountant(Guarantee(epsilon, w=1), counts.size), noise, 0)
        values = histogram.estimate(seal(counts, 0, shape=shape), Fraction(epsilon), meter)
        return np.asarray(values.numbers, dtype=np.float64)

    return estimate


def _peers() -> dict[str, Estimate]:
    peers: dict[str, Estimate] = {"opendp tree": _opendp_tree}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from diffprivlib.tools import histogram
    except ImportError as error:
        progress(f"diffprivlib left out: {error}")
        return peers

    def diffprivlib(counts: Counts, _shape: tuple[int, ...], epsilon: str, _seed: int) -> NDArray[np.float64]:
        size = counts.size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, _ = histogram(
                np.arange(size), epsilon=float(epsilon), bins=size, range=(-0.5, size - 0.5), weights=counts
            )
        return np.asarray(found, dtype=np.float64)

    peers["diffprivlib"] = diffprivlib
    return peers


def _opendp_tree(counts: Counts, _shape: tuple[int, ...], epsilon: str, _seed: int) -> NDArray[np.float64]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T=int))
    tree: Any = dp.t.make_b_ary_tree(domain, dp.l1_distance(T=int), leaf_count=counts.size, branching_factor=BRANCHING)
    noisy = (tree >> dp.m.then_laplace(scale=tree.map(1) / float(epsilon)))(counts.tolist())
    return np.array(dp.t.make_consistent_b_ary_tree(branching_factor=BRANCHING)(noisy))[: counts.size]


def _errors(
    data: dict[str, Counts], shape: tuple[int, ...], methods: dict[str, Estimate], runs: int = RUNS
) -> tuple[ErrorsOfMethods, ErrorsOfMethods]:
    """Mean absolute errors of random ranges and of single bins."""
    queries = random_ranges(shape, QUERIES, seed=1)
    ranges: ErrorsOfMethods = {}
    bins: ErrorsOfMethods = {}
    for name, counts in data.items():
        truth = RangeSums(counts, shape).answer(queries)
        for epsilon in EPSILONS:
            row = ranges[name, epsilon] = {}
            single = bins[name, epsilon] = {}
            for method, estimate in methods.items():
                pairs = [
                    _error(estimate(counts, shape, epsilon, s), counts, queries, truth, shape) for s in range(runs)
                ]
                row[method], single[method] = (float(mean) for mean in np.mean(pairs, axis=0))
            progress(f"{name} {epsilon}: " + ", ".join(f"{m} {e / row['geometric']:.2f}" for m, e in row.items()))
    return ranges, bins


def _error(
    values: NDArray[np.float64], counts: Counts, queries: Ranges, truth: Any, shape: tuple[int, ...]
) -> tuple[float, float]:
    answers = RangeSums(values, shape).answer(queries)
    return float(np.abs(answers - truth).mean()), float(np.abs(values - counts).mean())


def _error_table(title: str, notes: str, errors: ErrorsOfMethods) -> Table:
    methods = [method for method in next(iter(errors.values())) if method != "geometric"]
    rows: list[list[str]] = []
    for (name, epsilon), row in errors.items():
        ratios = [row[method] / row["geometric"] for method in methods]
        best = min(ratios)
        cells = [f"**{ratio:.2f}**" if ratio == best else f"{ratio:.2f}" for ratio in ratios]
        rows.append([name, epsilon, f"{row['geometric']:,.1f}", *cells])
    return Table(title, f"{notes} {_versions()}", ["data", "epsilon", "geometric", *methods], rows)


def _versions() -> str:
    found: list[str] = []
    for package in ("opendp", "diffprivlib", "scikit-learn"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} absent")
    return f"({', '.join(found)}.)"


def _marginals() -> Table:
    """All two-way marginals of a survey of 16 yes/no questions."""
    survey = pl.read_csv(DATA / "nltcs_hd.csv.gz")
    shape = (2,) * survey.width
    cells = np.ravel_multi_index(tuple(survey[name].to_numpy() for name in survey.columns), shape)
    counts = np.bincount(cells, minlength=1 << survey.width).astype(np.int64)
    pairs = [(a, b) for a in range(survey.width) for b in range(a)]
    truth = [_marginal(counts, shape, pair) for pair in pairs]
    rows: list[list[str]] = []
    for epsilon in EPSILONS:
        errors: list[float] = []
        for histogram in (Geometric(), Barak(order=2)):
            estimate = _seeded(histogram)
            found = [estimate(counts, shape, epsilon, seed) for seed in range(RUNS)]
            errors.append(
                float(
                    np.mean(
                        [
                            np.abs(_marginal(values, shape, pair) - true).mean()
                            for values in found
                            for pair, true in zip(pairs, truth, strict=True)
                        ]
                    )
                )
            )
        rows.append([epsilon, f"{errors[0]:,.1f}", f"{errors[1]:,.1f}", f"{errors[1] / errors[0]:.2f}"])
        progress(f"marginals {epsilon}: barak {errors[1] / errors[0]:.2f} of geometric")
    return Table(
        "Two-way marginals of 16 binary attributes",
        f"Mean absolute error per cell of all {len(pairs)} marginals (NLTCS, {survey.height:,} people, 65,536 cells).",
        ["epsilon", "geometric", "barak, order 2", "ratio"],
        rows,
    )


def _marginal(values: Any, shape: tuple[int, ...], kept: tuple[int, ...]) -> NDArray[np.float64]:
    other = tuple(axis for axis in range(len(shape)) if axis not in kept)
    return np.asarray(values.reshape(shape).sum(axis=other), dtype=np.float64)


def _speed() -> Table:
    """Secure noise, smooth data."""
    noise = SecureNoise()
    sizes: dict[str, tuple[int, ...]] = {
        "10⁴": (10**4,),
        "10⁵": (10**5,),
        "10⁶": (10**6,),
        "1024 × 1024": (1024, 1024),
        "census 96×2×12×2×2×3": CENSUS,
    }
    data = {label: _smooth(int(np.prod(shape))) for label, shape in sizes.items()}
    tree = cpu_seconds(lambda: _opendp_tree(data["10⁴"], (10**4,), "0.1", 0), 3)
    rows: list[list[str]] = [["opendp tree", f"{tree * 1e3:,.0f}", *["-"] * len(sizes), "1.0×"]]
    for name, kind in HISTOGRAMS.items():
        if name == "gaussian":
            continue
        seconds = {label: _seconds(kind(), data[label], shape, noise) for label, shape in sizes.items()}
        growth = np.log10(seconds["10⁶"] / seconds["10⁴"]) / 2
        times = [f"{value * 1e3:,.0f}" for value in seconds.values()]
        rows.append([name, *times, f"n^{growth:.2f}", f"{tree / seconds['10⁴']:.1f}×"])
        progress(f"{name}: " + ", ".join(f"{label} {value * 1e3:,.0f} ms" for label, value in seconds.items()))
    return Table(
        "Time of one release, ms",
        "Processor time, best of three (one from 10⁶ bins on), epsilon 0.1, cryptographic noise. Growth: between "
        "10⁴ and 10⁶ bins. "
        "Aim: 100 ms at 10⁴ and 3 s at 10⁶. NoiseFirst and StructureFirst stay near-linear by bounding their O(n²) "
        "programmes as their docstrings say.",
        ["method", *sizes, "growth", "speed against OpenDP's tree, 10⁴"],
        rows,
    )


def _smooth(size: int) -> Counts:
    place = np.arange(size) / size
    return cast(Counts, np.rint(50 * np.abs(np.sin(30 * place)) + (np.arange(size) * 7919) % 11).astype(np.int64))


def _seconds(histogram: HistogramMechanism, counts: Counts, shape: tuple[int, ...], noise: SecureNoise) -> float:
    def once() -> None:
        meter = Meter(Accountant(Guarantee("0.1", w=1), counts.size), noise, 0)
        histogram.estimate(seal(counts, 0, shape=shape), Fraction(1, 10), meter)

    return cpu_seconds(once, 3 if counts.size <= 10**5 else 1)
