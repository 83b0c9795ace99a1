"""How often the 95 % intervals of one-time histograms hold the count of a bin, on real lines.

Where nothing is known of what a method smooths away, its interval speaks of noise alone and its columns are called
``noise_low`` and ``noise_high``.
Data: DPBench's lines in the directory that VEILSTREAM_DATA names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.coverage_others import others
from benchmarks.report import Table, progress
from veilstream.mechanisms.histograms import HISTOGRAMS, Auto
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.session import Session
from veilstream.mechanisms.traits import Traits
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.values.values import half_width

LINES: Final = ("HEPTH", "MEDCOST", "NETTRACE", "SEARCHLOGS")
EPSILONS: Final = ("1/10", "1", "10")
RUNS: Final = 3
UP_TO_ROUNDING: Final = 1e-9


def run() -> Sequence[Table]:
    path = Path(os.environ.get("VEILSTREAM_DATA", ".")) / "dpbench_1d_histograms.csv.gz"
    if not path.exists():
        return []
    frame = pl.read_csv(path)
    lines = {name: frame[name].to_numpy().astype(np.int64) for name in LINES}
    rows: list[list[str]] = []
    methods: dict[str, HistogramMechanism] = {name: kind() for name, kind in HISTOGRAMS.items()}
    methods["auto"], methods["auto, for bins"] = Auto(), Auto("bins")
    for name, method in methods.items():
        found = [_covered(method, counts, epsilon) for counts in lines.values() for epsilon in EPSILONS]
        # Auto takes methods of both kinds.
        for columns in dict.fromkeys(columns for columns, _, _ in found):
            held, width = np.array([part for named, *part in found if named == columns]).T
            cells = [*(f"{share:.3f}" for share in (min(held), np.mean(held), max(held))), f"{np.mean(width):.2f}"]
            rows.append([f"`{name}`", columns, *cells])
            progress(f"coverage {rows[-1]}")
    return [
        Table(
            "How often 95 % intervals hold the count of a bin",
            f"{', '.join(LINES)} of DPBench (4,096 bins) at epsilon {' and '.join(EPSILONS)}, {RUNS} runs each: the "
            "least, mean and largest share of bins over lines and epsilons, and the mean of half their widths "
            "times epsilon. Only `low` and `high` promise it.",
            ["method", "columns", "least", "mean", "largest", "half width · ε"],
            rows,
        ),
        others(lines["MEDCOST"]),
    ]


def _covered(method: HistogramMechanism, counts: NDArray[np.int64], epsilon: str) -> tuple[str, float, float]:
    """What the columns are called, the share of bins whose count they hold, and half their width times ε."""
    gaussian = Traits.of(method).gaussian_only
    guarantee = Guarantee(epsilon, w=1, delta="1e-6" if gaussian else 0)
    held: list[float] = []
    widths: list[float] = []
    holding = Traits.of(method).unbiased
    for seed in range(RUNS):
        meter = Session(Accountant(guarantee, counts.size), ExactSampler(SeededSource(seed))).at(0)
        values = method.estimate(seal(counts, 0), guarantee.pure, meter)
        half = half_width(0.95, values.std, values.law, integer=values.numbers.dtype.kind == "i")
        holding = holding or values.law.covers == "count"
        held.append(float((np.abs(values.numbers - counts) <= half + UP_TO_ROUNDING).mean()))
        widths.append(float(np.mean(half) * guarantee.pure))
    return "low, high" if holding else "noise_low, noise_high", float(np.mean(held)), float(np.mean(widths))
