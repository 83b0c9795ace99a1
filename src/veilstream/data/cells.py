"""Columns whose values are counted in public cells: what quantiles are read from.

A row counts half in the cell of its value and half in the group of cells around it; with few cells it counts in its
cell alone. The parts of a row add up to 1, as those of a mean do, so a row moves all of them together as far as a count
in the L1 norm, and where there are groups by 1/√2 in the L2 norm. Two levels make the number of rows below any cut
less noisy than the cells alone would: with K cells by a factor of about K^(1/4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.encoding import Policy
from veilstream.data.values import GRID, LARGEST, MISSING_VALUE, ONE, Places, numbers_of
from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import rational, sqrt_up
from veilstream.values.choices import DEFAULT_CELLS, MOST_CELLS

FEW_CELLS: Final = 48
"""Fewer cells than this are not grouped: two levels would be noisier, on average over all cuts."""


@dataclass(frozen=True, slots=True)
class CellColumn:
    """A column with the public edges of its cells, of which ``group`` successive ones make a group (1: no groups).

    A value counts in the cell that begins at or below it; what lies outside counts in the first or the last cell.

    >>> minutes = CellColumn.even("minutes", Fraction(0), Fraction(60), 4)
    >>> minutes.places(pl.Series([0.0, 15.0, 59.0, 1000.0])).tolist(), minutes.parts
    ([0, 1, 3, 3], 4)
    """

    name: str
    edges: tuple[Fraction, ...]
    group: int = 1

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        ends = (*self.edges[:1], *self.edges[-1:])
        if not 2 <= self.cells <= MOST_CELLS or not rising or any(abs(end) > LARGEST for end in ends):
            raise InvalidInputError(
                name="edges",
                value=f"{len(self.edges)} edges",
                limit=f"the cells of '{self.name}' need 3 to {MOST_CELLS + 1} rising edges of at most 10^30",
                outcome="nothing was read",
            )
        if not 1 <= self.group <= self.cells:
            raise InvalidInputError(name="group", value=self.group, limit=f"from 1 to the {self.cells} cells")

    @classmethod
    def even(cls, name: str, low: Fraction, high: Fraction, cells: int = DEFAULT_CELLS) -> CellColumn:
        """Cells of one width between two ends."""
        if not 2 <= cells <= MOST_CELLS or not -LARGEST <= low < high <= LARGEST:
            raise InvalidInputError(
                name="cells",
                value=f"{cells} from {low} to {high}",
                limit=f"'{name}' needs 2 to {MOST_CELLS} cells and a lower end below its upper end",
                outcome="nothing was read",
            )
        return cls(name, tuple(low + (high - low) * Fraction(i, cells) for i in range(cells + 1)), best_group(cells))

    @classmethod
    def between_edges(cls, name: str, edges: Sequence[Any]) -> CellColumn:
        """Cells between public edges of any widths."""
        exact = tuple(rational(edge, f"edges of {name}") for edge in edges)
        return cls(name, exact, best_group(len(exact) - 1))

    @property
    def cells(self) -> int:
        return len(self.edges) - 1

    @property
    def low(self) -> Fraction:
        return self.edges[0]

    @property
    def high(self) -> Fraction:
        return self.edges[-1]

    @property
    def groups(self) -> int:
        """The number of groups, 0 where there are none."""
        return 0 if self.group == 1 else -(-self.cells // self.group)

    @property
    def parts(self) -> int:
        """Numbers of a bin: its cells, then its groups."""
        return self.cells + self.groups

    @property
    def norm(self) -> Fraction:
        """How far one row moves the parts in the L2 norm."""
        return sqrt_up(Fraction(1, 2)) if self.groups else Fraction(1)

    def places(self, column: pl.Series, strange: Policy = "error") -> Places:
        """The cell of every value; ``strange`` decides about what is no number."""
        numbers = numbers_of(column, strange)
        missing = np.isnan(numbers)
        inner = np.array([float(edge) for edge in self.edges[1:-1]])
        places = np.searchsorted(inner, np.where(missing, 0.0, numbers), side="right").astype(np.int32)
        places[missing] = MISSING_VALUE
        return places

    def sums(self, bins: NDArray[np.int64], places: Places, size: int) -> NDArray[np.int64]:
        """The sums of the parts of the rows in each of ``size`` bins, in multiples of 2⁻¹⁶ (bins × parts)."""
        present = places != MISSING_VALUE
        flat = bins[present] * self.cells + places[present]
        counts = np.bincount(flat, minlength=size * self.cells).reshape(size, self.cells).astype(np.int64, copy=False)
        if not self.groups:
            return counts << GRID
        grouped = np.add.reduceat(counts, np.arange(0, self.cells, self.group), axis=1)
        return np.concatenate([counts, grouped], axis=1) * (ONE >> 1)

    def even_parts(self) -> NDArray[np.float64]:
        """The parts of a row that is spread evenly over the cells."""
        flat = np.full(self.cells, 1 / self.cells)
        return flat if not self.groups else self.strategy() @ flat

    def strategy(self) -> NDArray[np.float64]:
        """The matrix that makes the parts of a bin from the numbers of rows in its cells."""
        return _strategy(self.cells, self.group)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "edges": [str(edge) for edge in self.edges], "group": self.group}


def best_group(cells: int) -> int:
    """How many cells a group has: as many as there are groups, and 1 where cells are few.

    >>> best_group(20), best_group(64), best_group(1024)
    (1, 8, 32)
    """
    return 1 if cells < FEW_CELLS else round(math.sqrt(cells))


@lru_cache(maxsize=16)
def _strategy(cells: int, group: int) -> NDArray[np.float64]:
    single = np.eye(cells)
    if group == 1:
        return single
    return np.concatenate([single, np.add.reduceat(single, np.arange(0, cells, group), axis=0)]) / 2
