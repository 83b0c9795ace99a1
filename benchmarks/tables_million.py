"""Time and memory of a model of a million rows of twenty attributes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.report import Table


def run() -> Sequence[Table]:
    """One table."""
    command = [sys.executable, "-c", _MILLION]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    table = Table(
        "A million rows of 20 attributes",
        "Ten attributes of 2 to 20 categories, ten of 100 values, ε = 1: reading, fitting and drawing as many rows. "
        "Memory is the peak of the process, the table included.",
        ["processor seconds", "peak MB"],
        [[f"{float(printed[0]):.1f}", f"{float(printed[1]):,.0f}"]],
    )
    return [table]


_MILLION: Final = """
import resource, time
import numpy as np, polars as pl
from veilstream.data import Categories, Grid
from veilstream.synthesis import TableDomain, fit
rng = np.random.default_rng(0)
base = rng.normal(size=1_000_000)
columns, axes = {}, {}
for i in range(20):
    size = 2 * (i + 1) if i < 10 else 100
    noisy = base * (i % 3) + rng.normal(size=base.size)
    columns[f"x{i}"] = np.clip((noisy + 6) / 12 * size, 0, size - 1).astype(np.int32)
    axes[f"x{i}"] = Categories(range(size)) if i < 10 else Grid(0, size, size)
frame = pl.DataFrame(columns)
del columns, base, noisy
begun = time.process_time()
fit(frame, TableDomain(axes), 1).sample(seed=1)
print(time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
