"""Where the parts of a published model lie in the vector that a stream releases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.rows import SealedRows, SealedTable

MAX_VALUES = 10**7


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the parts, then for each part its margins, and last for each part what is not a count.

    ``split`` are the attributes whose every combination of values is a part of its own; the ``modelled`` rest has
    margins and dependence. Not a count are: the correlations, the kind of copula, and tables of ``groups`` ×
    ``groups`` for the edges of a tree (0 for none).

    >>> layout = Layout((2, 100, 50), split=(0,))
    >>> layout.parts, layout.modelled, layout.size
    (2, (1, 2), 306)
    """

    shape: tuple[int, ...]
    split: tuple[int, ...] = ()
    groups: int = 0

    def __post_init__(self) -> None:
        if self.size > MAX_VALUES:
            raise InvalidInputError(f"model of {self.size} numbers in {self.parts} parts: the limit is {MAX_VALUES}")

    @property
    def parts(self) -> int:
        return math.prod(self.shape[axis] for axis in self.split)

    @property
    def modelled(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.shape)) if axis not in self.split)

    @property
    def _margins(self) -> int:
        return sum(self.shape[axis] for axis in self.modelled)

    @property
    def _pairs(self) -> int:
        return math.comb(len(self.modelled), 2)

    @property
    def _tables(self) -> int:
        return max(len(self.modelled) - 1, 0) * self.groups**2

    @property
    def spare(self) -> int:
        """Numbers that are not counts."""
        return self.parts * (self._pairs + 1 + self._tables)

    @property
    def size(self) -> int:
        return self.parts * (1 + self._margins) + self.spare

    def seal(self, rows: SealedRows) -> SealedTable:
        """Rows as a stream of this layout takes them."""
        if rows.shape != self.shape:
            raise InvalidInputError(f"table of shape {rows.shape} for a model of {self.shape}")
        return SealedTable(rows, self.split, self.spare)

    def pack(self, sizes: NDArray[np.float64], parts: list[Part]) -> NDArray[np.float64]:
        """The vector of a model."""
        counts = [margin for part in parts for margin in part.margins]
        others = [piece for part in parts for piece in (part.correlations, [part.kind], part.tables)]
        return np.concatenate([sizes, *counts, *(np.asarray(piece, dtype=np.float64) for piece in others)])

    def unpack(self, numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[Part]]:
        """The sizes of the parts and the parts of a model."""
        if numbers.shape != (self.size,):
            raise InvalidInputError(f"{numbers.size} numbers for a model of {self.size}")
        sizes = numbers[: self.parts]
        return sizes, list(self._parts(numbers))

    def _parts(self, numbers: NDArray[np.float64]) -> Iterator[Part]:
        at, other = self.parts, self.size - self.spare
        for _ in range(self.parts):
            margins: list[NDArray[np.float64]] = []
            for axis in self.modelled:
                margins.append(numbers[at : at + self.shape[axis]])
                at += self.shape[axis]
            kind = other + self._pairs
            last = kind + 1 + self._tables
            yield Part(tuple(margins), numbers[other:kind], float(numbers[kind]), numbers[kind + 1 : last])
            other = last


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What is published about the rows of one part."""

    margins: tuple[NDArray[np.float64], ...]
    correlations: NDArray[np.float64]
    kind: float
    tables: NDArray[np.float64]
