"""One-time histograms on the DPBench data: error against plain noise and outside peers, and time against size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final, cast

import numpy as np

from benchmarks.histogram_errors import (
    AUTO_BINS,
    BRANCHING,
    QUERIES,
    RUNS,
    WAVE,
    Counts,
    catalogue,
    error_table,
    errors,
    for_use,
    line_data,
    opendp_tree,
    peers_on_lines,
    plane_data,
)
from benchmarks.histogram_figure import draw
from benchmarks.histogram_sizes import bound_table, sizes_of_lines, sizes_of_planes
from benchmarks.marginal_peers import marginals_table
from benchmarks.report import ROOT, Table, progress
from benchmarks.sparse_histograms import cpu_seconds
from benchmarks.uniform_grid import uniform_grid
from veilstream.mechanisms.histograms import HISTOGRAMS, Auto
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

FIGURE: Final = ROOT / "docs" / "figures" / "histograms.png"
CENSUS: Final = (96, 2, 12, 2, 2, 3)


def run(quick: bool = False) -> Sequence[Table]:
    """All tables of the suite, and the figure; quick: errors on a few data sets, printed only."""
    line, plane = line_data(), plane_data()
    methods = {**catalogue(), **peers_on_lines()}
    if quick:
        few = {name: line[name] for name in list(line)[:2]}
        return [
            error_table("Range queries, 1-D, 4,096 bins", _RANGES, for_use(errors(few, (4096,), methods)[0], "ranges"))
        ]
    ranges, bins = errors(line, (4096,), methods)
    boxes, cells = errors(plane, (256, 256), {**catalogue(), "ug": uniform_grid})
    ranges = for_use(ranges, "ranges")
    draw({key: row for key, row in ranges.items() if key[0] != WAVE}, FIGURE)
    return [
        error_table("Range queries, 1-D, 4,096 bins", _RANGES, ranges),
        error_table("Single bins, 1-D, 4,096 bins", f"{_BINS} As above.", for_use(bins, "bins")),
        error_table(
            "Range queries, 2-D, 256 × 256",
            f"As for one dimension, with random boxes. {_GRID}",
            for_use(boxes, "ranges"),
        ),
        error_table("Single bins, 2-D, 256 × 256", f"{_BINS} {_GRID}", for_use(cells, "bins")),
        *sizes_of_lines(),
        *sizes_of_planes(),
        bound_table(),
        marginals_table(),
        _speed(),
    ]


_RANGES: Final = (
    f"Mean absolute error of {QUERIES:,} random ranges, {RUNS} runs. `geometric` in counts, the others in multiples "
    "of it: below 1 is better. `auto` is told that ranges are its use. `opendp tree` is OpenDP's b-ary tree of "
    f"branching {BRANCHING} with its consistency step; `diffprivlib` its `histogram`, which clips at 0. `{WAVE}` is "
    "made up: three periods of a sine between 200 and 800."
)
_BINS: Final = "Mean absolute error of a bin; `auto` is told that single bins are its use."
_GRID: Final = (
    "`ug` is a peer in this folder, not in the catalogue: the uniform grid of Qardaji, Yang and Li, which is told the "
    "true number of records. OpenDP's tree has one dimension."
)


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
    tree = cpu_seconds(lambda: opendp_tree(data["10⁴"], (10**4,), "0.1", 0), 3)
    rows: list[list[str]] = [["opendp tree", f"{tree * 1e3:,.0f}", *["-"] * len(sizes), "1.0×"]]
    chosen: dict[str, HistogramMechanism] = {name: kind() for name, kind in HISTOGRAMS.items() if name != "gaussian"}
    chosen[AUTO_BINS] = Auto("bins")
    for name, histogram in chosen.items():
        seconds = {label: _seconds(histogram, data[label], shape, noise) for label, shape in sizes.items()}
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
