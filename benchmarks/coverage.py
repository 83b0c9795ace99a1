"""How often the 95 % intervals of one-time histograms hold the count of a bin, on real lines.

Where a method smooths, its interval speaks of noise alone and its columns are called ``noise_low`` and ``noise_high``.
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
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.session import Session
from veilstream.mechanisms.traits import Traits
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.values.values import half_width

LINES: Final = ("HEPTH", "MEDCOST", "NETTRACE", "SEARCHLOGS")
EPSILONS: Final = ("1/10", "1")
RUNS: Final = 3


def run() -> Sequence[Table]:
    path = Path(os.environ.get("VEILSTREAM_DATA", ".")) / "dpbench_1d_histograms.csv.gz"
    if not path.exists():
        return []
    frame = pl.read_csv(path)
    lines = {name: frame[name].to_numpy().astype(np.int64) for name in LINES}
    rows: list[list[str]] = []
    for name, kind in HISTOGRAMS.items():
        held = [_covered(name, counts, epsilon) for counts in lines.values() for epsilon in EPSILONS]
        columns = "low, high" if Traits.of(kind).unbiased else "noise_low, noise_high"
        rows.append([f"`{name}`", columns, f"{min(held):.3f}", f"{np.mean(held):.3f}", f"{max(held):.3f}"])
        progress(f"coverage {rows[-1]}")
    return [
        Table(
            "How often 95 % intervals hold the count of a bin",
            f"{', '.join(LINES)} of DPBench (4,096 bins) at epsilon {' and '.join(EPSILONS)}, {RUNS} runs each: the "
            "least, mean and largest share of bins over lines and epsilons. Only `low` and `high` promise it.",
            ["method", "columns", "least", "mean", "largest"],
            rows,
        ),
        others(lines["MEDCOST"]),
    ]


def _covered(name: str, counts: NDArray[np.int64], epsilon: str) -> float:
    held: list[float] = []
    for seed in range(RUNS):
        guarantee = Guarantee(epsilon, w=1, delta="1e-6" if name == "gaussian" else 0)
        meter = Session(Accountant(guarantee, counts.size), ExactSampler(SeededSource(seed))).at(0)
        values = HISTOGRAMS[name]().estimate(seal(counts, 0), guarantee.pure, meter)
        width = half_width(0.95, values.std, values.law, integer=values.numbers.dtype.kind == "i")
        held.append(float((np.abs(values.numbers - counts) <= width + 1e-9).mean()))
    return float(np.mean(held))
