"""Ways to publish a table, asked the same range counts: copulas, boxes and dense histograms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np

from research.tables.sources import CodedTable, Codes, RangeCounts, Reals, TableSource, rows_in
from veilstream.data import Categories
from veilstream.data.bounding.keyed import Key
from veilstream.evaluate.queries import Ranges
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis import CopulaModel, DPCopula, TableDomain
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import SealedRecords, seal_records
from veilstream.trusted.rows import ordered_rows
from veilstream.values.boxes import Boxes

Answers = Callable[[Ranges], Reals]


class TableMethod(Protocol):
    """Publishes a table for a budget; what was published answers ranges. Noise is simulated: ``seed`` repeats it."""

    def release(self, table: CodedTable, epsilon: Fraction, seed: int) -> Answers: ...


def simulated_meter(epsilon: Fraction, bins: int, seed: int) -> Meter:
    """A meter with repeatable noise, for experiments alone."""
    return Meter(Accountant(Guarantee(epsilon, w=1), bins), ExactSampler(SeededSource(seed)), 0)


def simulated_model(table: CodedTable, epsilon: Fraction, seed: int, copula: DPCopula) -> CopulaModel:
    """A model of a table with repeatable noise."""
    columns = [np.ascontiguousarray(column) for column in table.codes.T]
    rows = ordered_rows(columns, content_hashes(columns, Key(seed.to_bytes(16, "little"))), table.shape, t=0)
    layout = copula.layout(table.shape)
    values = copula.estimate(layout.seal(rows), epsilon, simulated_meter(epsilon, layout.size, seed))
    return CopulaModel(plain_domain(table.shape), layout, np.asarray(values.numbers, dtype=np.float64), epsilon)


def plain_domain(shape: tuple[int, ...]) -> TableDomain:
    """Attributes without names of their own."""
    return TableDomain({f"x{i}": Categories(range(size)) for i, size in enumerate(shape)})


@dataclass(frozen=True, slots=True)
class ByCopula:
    """As many rows drawn from a model as the table has, counted in ranges and scaled to the noisy number of rows."""

    copula: DPCopula = field(default_factory=DPCopula)

    def release(self, table: CodedTable, epsilon: Fraction, seed: int) -> Answers:
        model = simulated_model(table, epsilon, seed, self.copula)
        drawn = model.sample_codes(len(table.codes), seed)
        return lambda ranges: rows_in(drawn, ranges) * (model.rows / len(table.codes))


class _OfRecords(Protocol):
    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes: ...


@dataclass(frozen=True, slots=True)
class ByBoxes:
    """Boxes of a sparse histogram on a domain of any size: PSD, filter priority."""

    method: _OfRecords

    def release(self, table: CodedTable, epsilon: Fraction, seed: int) -> Answers:
        records = seal_records(table.codes, table.shape, t=0)
        boxes = self.method.estimate_records(records, epsilon, simulated_meter(epsilon, 1, seed))
        return lambda ranges: np.asarray(boxes.count(ranges.low, ranges.high), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class ByCells:
    """A dense histogram: P-HP, Privelet+. A domain of more cells than ``most_cells`` is made coarser first.

    The widest attribute's neighbouring values are joined in twos until the cells are few enough, which reads no data;
    a cell's count is spread evenly over what it holds.
    """

    method: HistogramMechanism
    most_cells: int = 1 << 20

    def release(self, table: CodedTable, epsilon: Fraction, seed: int) -> Answers:
        joined = joined_values(table.shape, self.most_cells)
        shape = tuple(-(-size // width) for size, width in zip(table.shape, joined, strict=True))
        cells = seal_records(table.codes // np.array(joined), shape, t=0).dense()
        noisy = self.method.estimate(cells, epsilon, simulated_meter(epsilon, cells.size, seed)).numbers
        counts = np.asarray(noisy, dtype=np.float64)
        return lambda ranges: _summed(counts, table.shape, joined, ranges)


def joined_values(shape: tuple[int, ...], most_cells: int) -> tuple[int, ...]:
    """How many neighbouring values of each attribute one cell holds.

    >>> joined_values((1000, 1000), 1 << 16)
    (4, 4)
    """
    joined = [1] * len(shape)
    cells = [*shape]
    while math.prod(cells) > most_cells:
        widest = max(range(len(shape)), key=lambda axis: cells[axis])
        joined[widest] *= 2
        cells[widest] = -(-shape[widest] // joined[widest])
    return tuple(joined)


def _summed(counts: Reals, shape: tuple[int, ...], joined: tuple[int, ...], ranges: Ranges) -> Reals:
    shares: list[Reals] = []
    for axis, (size, width) in enumerate(zip(shape, joined, strict=True)):
        low = np.arange(0, size, width)
        high = np.minimum(low + width, size)
        inside = np.minimum(high, ranges.high[:, axis, None]) - np.maximum(low, ranges.low[:, axis, None])
        shares.append(np.maximum(inside, 0) / (high - low))
    answers = np.empty(len(ranges.low))
    step = max(1, (1 << 23) * shares[0].shape[1] // counts.size)
    for begin in range(0, answers.size, step):
        piece = slice(begin, begin + step)
        left = shares[0][piece] @ counts.reshape(shares[0].shape[1], -1)
        for share in shares[1:]:
            left = np.einsum("qi,qij->qj", share[piece], left.reshape(len(left), share.shape[1], -1))
        answers[piece] = left[:, 0]
    return answers


def range_errors(
    source: TableSource, counts: RangeCounts, method: TableMethod, epsilon: str, seed: int
) -> dict[str, float]:
    """Errors of one release of the table on ranges of its own, and the time it took: by the clock and of processors.

    Processor time, of all threads of this process, is what a busy machine leaves comparable.
    """
    table, (ranges, truth) = _loaded(source), _asked(source, counts, seed)
    begun, used = time.perf_counter(), time.process_time()
    answers = method.release(table, Fraction(epsilon), seed)
    times = {"seconds of a release": time.perf_counter() - begun, "processor seconds": time.process_time() - used}
    return {**counts.errors(answers(ranges), truth, len(table.codes)), **times}


@lru_cache(maxsize=2)
def _loaded(source: TableSource) -> CodedTable:
    return source.load()


@lru_cache(maxsize=16)
def _asked(source: TableSource, counts: RangeCounts, seed: int) -> tuple[Ranges, Reals]:
    table = _loaded(source)
    ranges = counts.ranges(table.shape, seed)
    return ranges, table.count(ranges)


__all__ = [
    "Answers",
    "ByBoxes",
    "ByCells",
    "ByCopula",
    "Codes",
    "TableMethod",
    "joined_values",
    "plain_domain",
    "range_errors",
    "simulated_meter",
    "simulated_model",
]
