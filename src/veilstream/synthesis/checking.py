"""How far the tables of drawn rows are from those of the table itself, measured for a budget."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.rationals import Exact
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.kinds import TableModel
from veilstream.synthesis.restructuring import independent
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.trusted.statistics.marginal_counts import marginal_counts, table_distances
from veilstream.values.values import NoiseLaw, Values, half_width

Codes = list[NDArray[np.int64]]
Reals = NDArray[np.float64]
LEVEL: Final = 0.95
MOST_PAIRS: Final = 30
FEWEST_PAIRS: Final = 3
"""Pairs of attributes whose tables are measured."""
NARROW: Final = 0.03
"""Half of an interval's width, as a share of the rows, up to which one more pair is measured."""
MOST_VALUES: Final = 256
"""Values of an attribute that a table tells apart: more are gathered into ranges."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured total variation, a share of the rows; ``low`` and ``high`` hold the exact one with 95 %."""

    error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """How far the table of a pair is from that of drawn rows, and from independent attributes with their margins."""

    drawn: Interval
    independent: Interval


@dataclass(frozen=True)
class TableCheck:
    """Publishes how far the table of each of some sets of attributes is from a public one: L1 distances, in rows.

    One row is in one cell of every table, so that a person moves each distance by at most their rows, and all of them
    by that times their number. ``drawn`` is the fingerprint of what is compared with, by which a ledger knows it again.

    >>> TableCheck.of([(0,)], [np.array([3.0, 4.0])]).scopes
    ((0,),)
    """

    scopes: tuple[Scope, ...]
    drawn: str
    tables: InitVar[tuple[Reals, ...]]

    def __post_init__(self, tables: tuple[Reals, ...]) -> None:
        object.__setattr__(self, "_tables", tables)

    @classmethod
    def of(cls, scopes: Sequence[Scope], tables: Sequence[Reals]) -> TableCheck:
        """The check of public tables."""
        content = hashlib.sha256(b"".join(np.ascontiguousarray(table).tobytes() for table in tables))
        return cls(tuple(scopes), content.hexdigest()[:32], tuple(tables))

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        """The distances, then zeros."""
        if not isinstance(x, SealedTable):
            raise InvalidInputError("TableCheck: it measures tables, not histograms")
        public: tuple[Reals, ...] = getattr(self, "_tables")  # noqa: B009 (no field, so that ledgers do not hold it)
        distances = table_distances(marginal_counts(x.rows, labels_of(x.rows.shape), self.scopes), public)
        noisy = meter.laplace(distances, epsilon, "distance of tables")
        numbers, std = np.zeros(x.size), np.zeros(x.size)
        numbers[: len(self.scopes)] = noisy.numbers
        std[: len(self.scopes)] = noisy.std
        return Values(numbers, std, NoiseLaw.LAPLACE)


def check_of(model: TableModel, drawn: Codes, scopes: Sequence[Scope]) -> TableCheck:
    """The check of drawn rows, as many of them as the published table has, and after them of independent attributes."""
    labels = labels_of(model.domain.shape)
    joint = [counts_of(drawn, scope, labels) / max(drawn[0].size, 1) for scope in scopes]
    apart = [independent(table) for table in joint]
    return TableCheck.of([*scopes, *scopes], [model.rows * table.reshape(-1) for table in (*joint, *apart)])


def labels_of(shape: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """What tables tell apart: every value of an attribute, or as many ranges of them as there is room for.

    >>> [label.tolist() for label in labels_of((3,))], int(labels_of((1000,))[0].max())
    ([[0, 1, 2]], 255)
    """
    return [np.arange(size) if size <= MOST_VALUES else np.arange(size) * MOST_VALUES // size for size in shape]


def counts_of(columns: Codes, scope: Scope, labels: Sequence[NDArray[np.int64]]) -> Reals:
    """How many rows are in each cell of some attributes' table."""
    shape = tuple(1 + int(labels[axis].max()) for axis in scope)
    cells = np.zeros(columns[0].size, dtype=np.int64)
    for axis, size in zip(scope, shape, strict=True):
        cells = cells * size + labels[axis][columns[axis]]
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)


def measurements(values: Values, pairs: int, rows: int) -> list[Measurement]:
    """Measured distances as total variations, with their intervals."""
    scopes = 2 * pairs
    unit = 2 * max(rows, 1)
    errors = np.asarray(values.numbers[:scopes], dtype=np.float64) / unit
    std = np.broadcast_to(np.asarray(values.std, dtype=np.float64), values.numbers.shape)[:scopes]
    half = np.asarray(half_width(LEVEL, std, NoiseLaw.LAPLACE, integer=False), dtype=np.float64) / unit
    ends = np.clip(np.stack([errors, errors - half, errors + half], axis=1), 0.0, 1.0)
    found = [Interval(error, low, high) for error, low, high in ends.tolist()]
    return [Measurement(one, other) for one, other in zip(found[:pairs], found[pairs:], strict=True)]


def pairs_to_measure(pairs: Sequence[Scope], rows: int, epsilon: Fraction, max_contribution: Fraction) -> list[Scope]:
    """So many of the pairs, first ones first, that the interval of each is narrow; a few at least.

    >>> len(pairs_to_measure([(0, 1)] * 50, rows=10_000, epsilon=Fraction(1, 10), max_contribution=Fraction(1)))
    10
    """
    noise = 2 * float(max_contribution / epsilon) * math.log(1 / (1 - LEVEL)) / (2 * max(rows, 1))
    return list(pairs[: min(max(int(NARROW / noise), FEWEST_PAIRS), MOST_PAIRS)])


def measured_tables(
    rows: SealedRows,
    model: TableModel,
    drawn: Codes,
    scopes: Sequence[Scope],
    epsilon: Exact,
    ledger: Ledger,
    *,
    name: str,
) -> tuple[dict[Scope, Measurement], Fraction]:
    """The errors of tables of drawn rows against the table itself, for a budget of their own, and what was spent.

    The stream ``name`` holds the charge: measuring the same rows again costs nothing.
    """
    sealed: Any = SealedTable(rows, (), spare=2 * len(scopes))
    publisher = Publisher(
        sealed.size,
        Guarantee(epsilon, w=1),
        Uniform(check_of(model, drawn, scopes)),
        ledger,
        stream=name,
        max_contribution=math.ceil(sealed.l1),
    )
    release = publisher.feed(sealed, 0)
    values = Values(np.asarray(release.values, dtype=np.float64), np.asarray(release.std, dtype=np.float64))
    return dict(zip(scopes, measurements(values, len(scopes), model.rows), strict=True)), release.spent
