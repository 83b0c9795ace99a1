"""Spatial and sparse histograms: time against plain noise, and range queries on domains that cannot be listed."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Table, progress
from veilstream.evaluate.queries import Ranges, random_ranges_of_volume
from veilstream.mechanisms.histograms import PSD, DPCube, FilterPriority, Geometric
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import SealedRecords, seal_records
from veilstream.values.boxes import Boxes

REPEATS: Final = 5
RECORDS: Final = 50_000
LENGTH: Final = 1000
QUERIES: Final = 100
RUNS: Final = 3
SHAPES: Final = ((10**4,), (10**5,), (10**6,), (100, 100), (1024, 1024), (96, 2, 12, 2, 2, 3))
DENSE: Final[dict[str, HistogramMechanism]] = {
    "psd": PSD(),
    "psd, hybrid": PSD("hybrid"),
    "psd, kd": PSD("kd"),
    "fp": FilterPriority(),
    "dpcube": DPCube(),
}


class SparseMechanism(Protocol):
    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes: ...


class Even:
    """The peer that knows nothing but the number of records: a noisy total, spread evenly."""

    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes:
        return PSD("quad", height=0).estimate_records(records, epsilon, meter)


SPARSE: Final[dict[str, SparseMechanism]] = {
    "even": Even(),
    "psd": PSD(),
    "psd, height 10": PSD(height=10),
    "psd, hybrid": PSD("hybrid"),
    "psd, kd": PSD("kd"),
    "psd, kd of height 8": PSD("kd", height=8),
    "fp": FilterPriority(),
    "fp, 6 levels": FilterPriority(levels=6),
    "fp, plain filter": FilterPriority(levels=1),
}


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [_speed(), *(_sparse(name, make) for name, make in DATA.items())]


def cpu_seconds(call: Callable[[], object], repeats: int) -> float:
    """The least processor time of ``repeats`` calls: all run on one thread, and other programs do not count."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def _meter(epsilon: Fraction) -> Meter:
    return Meter(Accountant(Guarantee(epsilon, w=1), 1), SecureNoise(), 0)


def _speed() -> Table:
    generator = np.random.default_rng(1)  # noqa: TID251 (public test data)
    rows: list[list[str]] = []
    for shape in SHAPES:
        counts = generator.poisson(generator.pareto(1.5, int(np.prod(shape)))).astype(np.int64)
        x = seal(counts, 0, shape=shape)

        def once(mechanism: HistogramMechanism, x: object = x) -> object:
            return mechanism.estimate(x, Fraction(1), _meter(Fraction(1)))  # type: ignore[arg-type]

        peer = cpu_seconds(partial(once, Geometric()), REPEATS)
        name = " × ".join(f"{length:,}" for length in shape)
        for label, mechanism in DENSE.items():
            own = cpu_seconds(partial(once, mechanism), REPEATS)
            rows.append([name, label, f"{own * 1e3:.0f}", f"{own / peer:.0f}×"])
            progress(f"{name}, {label}: {own * 1e3:.0f} ms")
    return Table(
        title="Time on listed domains",
        notes="Processor time. Counts with a heavy tail, ε = 1. Aim: 10⁴ bins within 100 ms, 10⁶ within 3 s.",
        columns=["bins", "method", "ms", "time against geometric"],
        rows=rows,
    )


def _normal(dimensions: int) -> NDArray[np.int64]:
    """Dependent normal attributes, as in the evaluation of DPCopula."""
    generator = np.random.default_rng(2)  # noqa: TID251 (public test data)
    shared = generator.normal(0, 1, (RECORDS, 1))
    own = generator.normal(0, 1, (RECORDS, dimensions))
    return np.clip(LENGTH / 2 + LENGTH / 8 * (shared + own), 0, LENGTH - 1).astype(np.int64)


def _crowded(dimensions: int) -> NDArray[np.int64]:
    """Half of the records in 50 cells, the others anywhere."""
    generator = np.random.default_rng(3)  # noqa: TID251 (public test data)
    places = generator.integers(0, LENGTH, (50, dimensions))
    heavy = places[generator.integers(0, 50, RECORDS // 2)]
    return np.concatenate([heavy, generator.integers(0, LENGTH, (RECORDS - RECORDS // 2, dimensions))])


DATA: Final[dict[str, Callable[[int], NDArray[np.int64]]]] = {"normal": _normal, "crowded": _crowded}


def _exact(rows: NDArray[np.int64], ranges: Ranges) -> NDArray[np.float64]:
    inside = (((rows >= low) & (rows < high)).all(axis=1) for low, high in zip(ranges.low, ranges.high, strict=True))
    return np.array([part.sum() for part in inside], dtype=np.float64)


def _sparse(kind: str, make: Callable[[int], NDArray[np.int64]]) -> Table:
    rows: list[list[str]] = []
    for dimensions in (2, 4, 8):
        data = make(dimensions)
        shape = (LENGTH,) * dimensions
        records = seal_records(data, shape, 0)
        ranges = random_ranges_of_volume(shape, QUERIES, "1/50", seed=7)
        truth = _exact(data, ranges)
        for label, mechanism in SPARSE.items():
            call = partial(mechanism.estimate_records, records)
            errors: dict[str, float] = {}
            for epsilon in ("0.1", "1"):
                exact = Fraction(epsilon)
                each = [call(exact, _meter(exact)).count(ranges.low, ranges.high) for _ in range(RUNS)]
                errors[epsilon] = float(np.mean(np.abs(np.array(each) - truth)))
            seconds = cpu_seconds(lambda call=call: call(Fraction(1), _meter(Fraction(1))), RUNS)  # type: ignore[misc]
            tracemalloc.start()
            size = call(Fraction(1), _meter(Fraction(1))).size
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            rows.append(
                [
                    f"{LENGTH}^{dimensions}",
                    label,
                    f"{errors['0.1']:,.0f}",
                    f"{errors['1']:,.0f}",
                    f"{size:,}",
                    f"{seconds:.2f}",
                    f"{peak / 1e6:.0f}",
                ]
            )
            progress(f"{kind}, {dimensions} attributes, {label}: {errors}, {seconds:.2f} s")
    return Table(
        title=f"Domains that cannot be listed, {RECORDS:,} records, {kind}",
        notes=(
            f"{make.__doc__} Mean absolute error of {QUERIES} random boxes of 2% of the domain, {RUNS} runs, in "
            "records; `even` spreads a noisy total over the domain. Processor time and memory at ε = 1."
        ),
        columns=["domain", "method", "error, ε = 0.1", "error, ε = 1", "boxes", "s", "peak MB"],
        rows=rows,
    )
