"""How far range counts of drawn rows are from the table: expected for nothing, measured for a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.session import Session
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact, rational
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger
from veilstream.synthesis.checking import Measurement, measured_tables, pairs_to_measure
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kinds import TableMechanism, TableModel, for_domain, model_of
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable, ordered_rows
from veilstream.trusted.statistics.pair_tables import count_ranges, range_error
from veilstream.values.values import NoiseLaw, Values, half_width

Codes = list[NDArray[np.int64]]
SHARE_OF_TABLES: Final = Fraction(3, 4)
"""Of what is for measuring: the rest is for ranges."""
RANGES: Final = 200
"""Random ranges over all attributes, and as many over each single one."""


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean absolute error of random range counts, as shares of the rows: over all attributes, and attribute by
    attribute."""

    all_attributes: float
    each: tuple[float, ...]
    epsilon: Fraction
    """What it cost: 0 for expected errors."""
    half_width: float = 0.0
    """Half the width of the 95 % interval around each, where they were measured with noise."""


def random_boxes(
    shape: tuple[int, ...], axes: tuple[int, ...], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Low and high ends of ``RANGES`` boxes: random intervals on ``axes``, everything on the others."""
    words = SeededSource((seed, *axes)).words(2 * RANGES * len(shape))
    uniform = (words >> np.uint64(11)).reshape(2, RANGES, len(shape)) * 2.0**-53
    ends = np.sort((uniform * np.array(shape)).astype(np.int64), axis=0)
    low, high = np.zeros_like(ends[0]), np.broadcast_to(np.array(shape, dtype=np.int64), ends[0].shape).copy()
    chosen = list(axes)
    low[:, chosen], high[:, chosen] = ends[0][:, chosen], ends[1][:, chosen] + 1
    return low, high


def _workloads(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    every = tuple(range(len(shape)))
    return [every, *((axis,) for axis in every)]


def _answers(codes: Codes, shape: tuple[int, ...], rows: float, seed: int) -> list[NDArray[np.float64]]:
    columns = [column.astype(np.int32) for column in codes]
    scale = rows / max(columns[0].size, 1)
    counts = [count_ranges(columns, *random_boxes(shape, axes, seed)) for axes in _workloads(shape)]
    return [np.asarray(count * scale, dtype=np.float64) for count in counts]


def expected_errors(
    model: TableModel, copula: TableMechanism, epsilon: Exact, *, seed: int = 0, rows: int = 0
) -> Errors:
    """What noise and sampling alone do, found without the table: drawn rows are fitted again with simulated noise.

    It says nothing of how well a copula describes the table: that can only be measured.
    """
    count = min(rows or model.rows, 100_000)
    drawn = model.sample_codes(count, seed)
    hashes = SeededSource((seed, 7)).words(count)
    layout, guarantee = model.layout, Guarantee(epsilon, w=1)
    table = layout.seal(ordered_rows(drawn, hashes, layout.shape, t=0))
    session = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource((seed, 8))))
    values = for_domain(copula, model.domain).estimate(table, guarantee.epsilon, session.at(0))
    refitted = model_of(model.domain, layout, np.asarray(values.numbers, dtype=np.float64), Fraction(0))
    truth = _answers(drawn, layout.shape, count, seed)
    answers = _answers(refitted.sample_codes(count, seed + 1), layout.shape, refitted.rows, seed)
    errors = [float(np.abs(a - b).mean()) / max(count, 1) for a, b in zip(truth, answers, strict=True)]
    return Errors(errors[0], tuple(errors[1:]), Fraction(0))


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """Publishes the mean absolute error of public answers to random ranges, one number per set of ranges.

    There are those over all attributes at once, and perhaps those over single ones. A mean over ranges moves by at
    most what one count moves, whatever their number, so that a hundredth of an ordinary budget measures it well.

    >>> RangeCheck(((1.0, 2.0),), seed=0).seed
    0
    """

    answers: tuple[tuple[float, ...], ...]
    seed: int

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        """The mean errors, then zeros."""
        if not isinstance(x, SealedTable):
            raise InvalidInputError("RangeCheck: it measures tables, not histograms")
        numbers, std = np.zeros(x.size), np.zeros(x.size)
        asked = zip(_workloads(x.rows.shape), self.answers, strict=False)
        for index, (axes, answers) in enumerate(asked):
            low, high = random_boxes(x.rows.shape, axes, self.seed)
            error = range_error(x.rows, low, high, np.array(answers))
            noisy = meter.laplace(error, epsilon / len(self.answers), "range error")
            numbers[index] = float(noisy.numbers[0]) / len(answers)
            std[index] = float(np.mean(noisy.std)) / len(answers)
        return Values(numbers, std, NoiseLaw.MIXED)


def measured_errors(
    rows: SealedRows,
    model: TableModel,
    drawn: Codes,
    epsilon: Exact,
    ledger: Ledger,
    *,
    name: str,
    seed: int = 0,
    each: bool = True,
) -> Errors:
    """The errors of drawn rows against the table itself, for a budget of their own on the ledger.

    Without ``each``, all of it is for ranges over all attributes; those of single attributes are NaN. The stream
    ``name`` holds the charge: measuring the same rows again costs nothing.
    """
    answers = _answers(drawn, rows.shape, model.rows, seed)[: None if each else 1]
    check = RangeCheck(tuple(tuple(float(a) for a in each) for each in answers), seed)
    sealed: Any = SealedTable(rows, (), spare=len(rows.shape) + 1)
    guarantee = Guarantee(epsilon, w=1)
    publisher = Publisher(
        sealed.size, guarantee, Uniform(check), ledger, stream=name, max_contribution=math.ceil(sealed.l1)
    )
    release = publisher.feed(sealed, 0)
    shares = np.full(1 + len(rows.shape), np.nan)
    shares[: len(answers)] = np.maximum(release.values[: len(answers)], 0.0) / max(model.rows, 1)
    std = float(np.max(release.std)) / max(model.rows, 1)
    half = float(half_width(0.95, std, NoiseLaw.LAPLACE, integer=False))
    return Errors(float(shares[0]), tuple(shares[1:].tolist()), release.spent, half)


def measured_all(
    rows: SealedRows,
    model: TableModel,
    drawn: Codes,
    pairs: Sequence[Scope],
    epsilon: Exact,
    ledger: Ledger,
    *,
    name: str,
) -> tuple[Errors, dict[Scope, Measurement]]:
    """Errors of ranges over all attributes, and of the tables of the first of some pairs, for a budget on the ledger.

    How many pairs follows from public numbers. A ledger whose stream ``name`` is from before tables were measured gives
    back what it holds of ranges.
    """
    names, of_tables = [spec.name for spec in ledger.streams()], f"{name} of tables"
    if not pairs or (name in names and of_tables not in names):
        return measured_errors(rows, model, drawn, epsilon, ledger, name=name), {}
    budget = rational(epsilon, "measure")
    share = budget * SHARE_OF_TABLES
    scopes = pairs_to_measure(pairs, model.rows, share, rows.l1)
    tables, spent = measured_tables(rows, model, drawn, scopes, share, ledger, name=of_tables)
    ranges = measured_errors(rows, model, drawn, budget - share, ledger, name=name, each=False)
    return replace(ranges, epsilon=ranges.epsilon + spent), tables
