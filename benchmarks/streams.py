"""One step of the adaptive streams on a large grid, and ten thousand steps on a durable ledger."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)
from numpy.typing import NDArray

import veilstream as vs
from benchmarks.report import Table, best_seconds, progress
from veilstream.mechanisms.streams import DSAT, DSFT, BudgetAbsorption, BudgetDistribution, FixedRate, Sample, Uniform
from veilstream.mechanisms.traits import Traits
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

BINS: Final = 1 << 20
WINDOW: Final = 40
LONG_STEPS: Final = 10_000
LONG_BINS: Final = 1_000
MECHANISMS: Final[tuple[Any, ...]] = (
    Uniform(),
    Sample(),
    FixedRate(),
    DSFT(threshold=0.0),
    DSAT(None, spacing=0.0),
    BudgetDistribution(),
    BudgetAbsorption(),
    BudgetDistribution(columns=16),
)

LONG: Final[tuple[Any, ...]] = (FixedRate(), DSAT(None), BudgetDistribution(), BudgetAbsorption())


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [_one_step(), _long_run()]


def _steps(mechanism: Any, counts: NDArray[np.int64], jump: bool) -> dict[str, float]:
    """Best seconds of a step that releases and of one that keeps the last release, each with its peer in turn."""
    guarantee = vs.Guarantee(1, w=WINDOW)
    accountant = Accountant(guarantee, BINS)
    noise = SecureNoise()
    state = mechanism.start(guarantee, BINS)
    best = dict.fromkeys(("release", "noise", "keep", "distance"), float("inf"))
    other = counts + 3
    for t in range(3 * WINDOW):
        now = seal(counts + 1000 * t if jump else counts, t)
        meter = Meter(accountant, noise, t)
        start = time.perf_counter()
        state, values = mechanism.step(state, now, meter)
        seconds = time.perf_counter() - start
        paid = [charge.epsilon for charge in meter.charges if charge.purpose == "publish"]
        asked = bool(meter.charges)
        if t and values.fresh and paid:
            best["release"] = min(best["release"], seconds)
            best["noise"] = min(best["noise"], best_seconds(partial(noise.laplace, 1 / paid[0], BINS), 1))
        elif not values.fresh and (asked or Traits.of(mechanism).oblivious):
            best["keep"] = min(best["keep"], seconds)
            best["distance"] = min(best["distance"], best_seconds(partial(_distance, counts, other), 1))
    return best


def _distance(a: NDArray[np.int64], b: NDArray[np.int64]) -> object:
    return np.abs(a - b).sum()


def _one_step() -> Table:
    counts = default_rng(1).poisson(2, BINS).astype(np.int64)
    rows: list[list[str]] = []
    for mechanism in MECHANISMS:
        moving, quiet = _steps(mechanism, counts, jump=True), _steps(mechanism, counts, jump=False)
        keeps = quiet["keep"] < float("inf")
        name = type(mechanism).__name__ + (" of 16 columns" if getattr(mechanism, "columns", 1) > 1 else "")
        rows.append(
            [
                name,
                f"{moving['release'] * 1e3:.1f}",
                f"{moving['release'] / moving['noise']:.2f}×",
                f"{quiet['keep'] * 1e3:.2f}" if keeps else "-",
                f"{quiet['keep'] / quiet['distance']:.2f}×" if keeps else "-",
            ]
        )
        progress(" ".join(rows[-1]))
    return Table(
        title=f"One step on {BINS:,} bins",
        notes=(
            f"w = {WINDOW}, ε = 1; mechanism and meter, without the ledger. A step that releases against drawing as "
            "many exact Laplace noises (aim: at most 3×); one that keeps the last release against "
            "`np.abs(a - b).sum()` of that size (aim: at most 3×). Steps and their peers in turn, best of each."
        ),
        columns=["mechanism", "release ms", "against noise", "keep ms", "against L1 distance"],
        rows=rows,
    )


def _sync_seconds(folder: Path) -> float:
    """Mean seconds to write 4 KiB and have the disk confirm it: the least a durable step can cost."""
    writes = 200
    with (folder / "sync").open("wb", buffering=0) as file:
        start = time.perf_counter()
        for _ in range(writes):
            file.write(bytes(4096))
            os.fsync(file.fileno())
        return (time.perf_counter() - start) / writes


def _long_run() -> Table:
    base = default_rng(2).poisson(50, LONG_BINS)
    rows: list[list[str]] = []
    for mechanism in LONG:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.db"
            sync = _sync_seconds(Path(folder)) * LONG_STEPS
            with vs.Publisher(LONG_BINS, vs.Guarantee(1, w=120), mechanism, ledger=path) as publisher:
                start, used = time.perf_counter(), time.process_time()
                for t in range(LONG_STEPS):
                    publisher.feed(base + (t // 50) % 40)
                seconds, busy = time.perf_counter() - start, time.process_time() - used
            size = path.stat().st_size / 1e6
        rows.append(
            [
                type(mechanism).__name__,
                f"{seconds:.1f}",
                f"{busy:.1f}",
                f"{sync:.1f}",
                f"{seconds / sync:.1f}×",
                f"{size:.0f}",
            ]
        )
        progress(" ".join(rows[-1]))
    return Table(
        title=f"{LONG_STEPS:,} steps of {LONG_BINS:,} bins on a durable ledger",
        notes=(
            "`Publisher.feed` on an SQLite file, one transaction a step, once (aim: under 60 s). The peer is as many "
            "bare writes of 4 KiB, each confirmed by the disk (`fsync`), measured just before."
        ),
        columns=["mechanism", "seconds", "of these processor", "bare fsync seconds", "against fsync", "ledger MB"],
        rows=rows,
    )
