"""Where the parts of a published graph of marginals lie in the vector that a stream releases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.junction import Scope
from veilstream.synthesis.layout import MAX_VALUES
from veilstream.synthesis.margins import Margins, shares
from veilstream.trusted.rows import SealedRows, SealedTable

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
MOST_GROUPS: Final = 32
"""Values of an attribute that a table of several tells apart."""
MOST_PAIRS: Final = 256
MOST_AXES: Final = 10
"""Attributes of one table."""
FEWEST_FOR_ORDER: Final = 8
"""Values of an ordered attribute from which on correlations with others are measured."""
FEWEST_CELLS: Final = 1 << 13
"""Room for the cells of tables of many attributes, however small these are."""


@dataclass(frozen=True, slots=True, eq=False)
class Marginal:
    """A noisy table of the groups of two or more attributes and the standard deviation of its noise."""

    scope: Scope
    counts: Reals
    std: float

    def with_another(self, other: Marginal) -> Marginal:
        """The mean of two tables of the same attributes by their variances."""
        weights = [1 / max(std**2, 1e-18) for std in (self.std, other.std)]
        counts = (weights[0] * self.counts + weights[1] * other.counts) / sum(weights)
        return Marginal(self.scope, counts, 1 / math.sqrt(sum(weights)))


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """All that a model holds: margins, the groups that tables tell apart, correlations and tables."""

    margins: Margins
    labels: list[Integers]
    """For every attribute the group of each of its values."""
    correlations: Reals
    tables: list[Marginal]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The number of rows, every margin, the noise of margins, the group of every value, correlations, and tables.

    How many tables are measured, and of what, is chosen step by step; the vector has room for all there may be.
    ``ordered`` says of which attributes neighbouring values are alike.

    >>> GraphLayout((2, 100, 50), (False, True, True)).size
    6490
    """

    shape: tuple[int, ...]
    ordered: tuple[bool, ...]

    def __post_init__(self) -> None:
        if self.size > MAX_VALUES:
            raise InvalidInputError(f"model of {self.size} numbers: the limit is {MAX_VALUES}")

    @property
    def modelled(self) -> tuple[int, ...]:
        return tuple(range(len(self.shape)))

    @property
    def most_tables(self) -> int:
        return min(math.comb(len(self.shape), 2), MOST_PAIRS)

    @property
    def most_cells(self) -> int:
        """Cells of all tables together."""
        widest = sorted((min(size, MOST_GROUPS) for size in self.shape), reverse=True)
        if len(widest) < 2:
            return 0
        return max(self.most_tables * widest[0] * widest[1], min(self.most_tables * math.prod(widest), FEWEST_CELLS))

    def has_room(self, labels: Sequence[Integers], scopes: Sequence[Scope]) -> bool:
        """Whether the vector of a model has room for tables of these attributes' groups."""
        sizes = [1 + int(label.max()) for label in labels]
        cells = sum(math.prod(sizes[axis] for axis in scope) for scope in scopes)
        return len(scopes) <= self.most_tables and cells <= self.most_cells

    @property
    def spare(self) -> int:
        """Numbers that are not margins."""
        heads = self.most_tables * (2 + MOST_AXES)
        return len(self.shape) + sum(self.shape) + self.correlations + 1 + heads + self.most_cells

    @property
    def numeric(self) -> tuple[int, ...]:
        """Attributes with an order and so many values that a correlation says much of two of them."""
        return tuple(axis for axis, size in enumerate(self.shape) if self.ordered[axis] and size >= FEWEST_FOR_ORDER)

    @property
    def correlations(self) -> int:
        return math.comb(len(self.numeric), 2)

    @property
    def size(self) -> int:
        return 1 + sum(self.shape) + self.spare

    def seal(self, rows: SealedRows) -> SealedTable:
        """Rows as a stream of this layout takes them."""
        if rows.shape != self.shape:
            raise InvalidInputError(f"table of shape {rows.shape} for a model of {self.shape}")
        return SealedTable(rows, (), self.spare)

    def pack(self, parts: Published) -> Reals:
        """The vector of a model."""
        tables = parts.tables
        heads = [
            number for table in tables for number in (table.std, float(len(table.scope)), *map(float, table.scope))
        ]
        pieces = [
            [parts.margins.total],
            *parts.margins.counts,
            parts.margins.std,
            *parts.labels,
            parts.correlations,
            [float(len(tables))],
            heads,
            *(table.counts for table in tables),
        ]
        numbers = np.concatenate([np.asarray(piece, dtype=np.float64).reshape(-1) for piece in pieces])
        return np.concatenate([numbers, np.zeros(self.size - numbers.size)])

    def unpack(self, numbers: Reals) -> Published:
        """What ``pack`` was given."""
        if numbers.shape != (self.size,):
            raise InvalidInputError(f"{numbers.size} numbers for a model of {self.size}")
        ends = np.cumsum([1, *self.shape]).tolist()
        counts = [numbers[first:last] for first, last in itertools.pairwise(ends)]
        at = ends[-1] + len(self.shape)
        margins = Margins(tuple(counts), float(numbers[0]), tuple(numbers[ends[-1] : at].tolist()))
        labels: list[Integers] = []
        for size in self.shape:
            labels.append(numbers[at : at + size].astype(np.int64))
            at += size
        correlations = numbers[at : at + self.correlations]
        at += self.correlations
        number = int(numbers[at])
        at += 1
        heads: list[tuple[Scope, float]] = []
        for _ in range(number):
            length = int(numbers[at + 1])
            heads.append((tuple(map(int, numbers[at + 2 : at + 2 + length].tolist())), float(numbers[at])))
            at += 2 + length
        sizes = [1 + int(label.max()) for label in labels]
        tables: list[Marginal] = []
        for scope, std in heads:
            shape = [sizes[axis] for axis in scope]
            cells = math.prod(shape)
            tables.append(Marginal(scope, numbers[at : at + cells].reshape(shape), std))
            at += cells
        return Published(margins, labels, correlations, tables)

    def labels(self, margins: Sequence[Reals], groups: int) -> list[Integers]:
        """At most so many groups of every attribute's values, from published margins."""
        return [grouped(shares(margin), groups, ordered) for margin, ordered in zip(margins, self.ordered, strict=True)]


def grouped(p: Reals, count: int, ordered: bool) -> Integers:
    """At most ``count`` groups of values: neighbours of about equal mass, or the frequent ones alone and a rest.

    >>> grouped(np.array([0.1, 0.1, 0.6, 0.1, 0.1]), 3, ordered=True).tolist()
    [0, 0, 1, 2, 2]
    >>> grouped(np.array([0.1, 0.2, 0.5, 0.1, 0.1]), 3, ordered=False).tolist()
    [2, 1, 0, 2, 2]
    """
    if p.size <= count:
        return np.arange(p.size)
    if ordered:
        middle = np.cumsum(p) - p / 2
        wide = np.minimum((middle * count).astype(np.int64), count - 1)
        return np.asarray(np.unique(wide, return_inverse=True)[1], dtype=np.int64).reshape(-1)
    labels = np.full(p.size, count - 1, dtype=np.int64)
    labels[np.argsort(-p, kind="stable")[: count - 1]] = np.arange(count - 1)
    return labels
