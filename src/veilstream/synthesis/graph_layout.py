"""Where the parts of a published graph of marginals lie in the vector that a stream releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.synthesis.layout import MAX_VALUES
from veilstream.synthesis.margins import shares
from veilstream.trusted.rows import SealedRows, SealedTable

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
Pair = tuple[int, int]
MOST_GROUPS: Final = 32
"""Values of an attribute that a table of a pair tells apart."""
MOST_PAIRS: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class PairTable:
    """A noisy table of two attributes' groups and the standard deviation of its noise."""

    pair: Pair
    counts: Reals
    std: float


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The number of rows, every margin, then the number of groups and of pairs, the pairs, their noise, their tables.

    How many pairs are measured, and which, is chosen step by step; the vector has room for all there may be.
    ``ordered`` says of which attributes neighbouring values are alike.

    >>> GraphLayout((2, 100, 50), (False, True, True)).size
    3236
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
    def most_pairs(self) -> int:
        return min(math.comb(len(self.shape), 2), MOST_PAIRS)

    @property
    def spare(self) -> int:
        """Numbers that are not margins."""
        widest = sorted((min(size, MOST_GROUPS) for size in self.shape), reverse=True)
        cells = widest[0] * widest[1] if len(widest) > 1 else 0
        return 2 + self.most_pairs * (3 + cells)

    @property
    def size(self) -> int:
        return 1 + sum(self.shape) + self.spare

    def seal(self, rows: SealedRows) -> SealedTable:
        """Rows as a stream of this layout takes them."""
        if rows.shape != self.shape:
            raise InvalidInputError(f"table of shape {rows.shape} for a model of {self.shape}")
        return SealedTable(rows, (), self.spare)

    def pack(self, total: float, margins: Sequence[Reals], groups: int, tables: Sequence[PairTable]) -> Reals:
        """The vector of a model."""
        heads = [number for table in tables for number in (*map(float, table.pair), table.std)]
        pieces = [[total], *margins, [float(groups), float(len(tables))], heads, *(table.counts for table in tables)]
        numbers = np.concatenate([np.asarray(piece, dtype=np.float64).reshape(-1) for piece in pieces])
        return np.concatenate([numbers, np.zeros(self.size - numbers.size)])

    def unpack(self, numbers: Reals) -> tuple[float, list[Reals], int, list[PairTable]]:
        """What ``pack`` was given."""
        if numbers.shape != (self.size,):
            raise InvalidInputError(f"{numbers.size} numbers for a model of {self.size}")
        at = 1
        margins: list[Reals] = []
        for size in self.shape:
            margins.append(numbers[at : at + size])
            at += size
        groups, count = int(numbers[at]), int(numbers[at + 1])
        heads = numbers[at + 2 : at + 2 + 3 * count].reshape(count, 3)
        at += 2 + 3 * count
        sizes = [1 + int(label.max()) for label in self.labels(margins, groups)]
        tables: list[PairTable] = []
        for first, second, std in heads.tolist():
            j, k = int(first), int(second)
            cells = sizes[j] * sizes[k]
            tables.append(PairTable((j, k), numbers[at : at + cells].reshape(sizes[j], sizes[k]), std))
            at += cells
        return float(numbers[0]), margins, groups, tables

    def labels(self, margins: Sequence[Reals], groups: int) -> list[Integers]:
        """The group of every value, attribute by attribute, from the published margins."""
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
