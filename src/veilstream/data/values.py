"""Columns whose values are divided between the ends of a public range: sums, means and variances.

A row's value v in the public range [a, b] has the place u = (v − a)/(b − a). For a mean the row is divided between the
two ends of the range, 1 − u to the lower and u to the upper one; for a variance among three parts, (1 − u)², 2u(1 − u)
and u². The parts are never negative and add up to 1, so a row moves all of them together by 1 in the L1 norm, as it
moves a count: number of rows, sum, mean and variance come from the same vector, and none of them has to be paid for
by itself. A sum alone is one number, v over the largest |v| of the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.columns import as_numbers, as_text
from veilstream.data.encoding import Policy
from veilstream.data.read_options import has_decimal_comma
from veilstream.errors import InvalidInputError

Places: TypeAlias = NDArray[np.int32]

GRID: Final = 16
"""Places in a range are multiples of 2⁻¹⁶ of its length."""
ONE: Final = 1 << GRID
MISSING_VALUE: Final = np.int32(-(1 << 31))
"""Stands for a row that has no value in a column."""
LARGEST: Final = Fraction(10) ** 30


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column with its public range, and into how many parts a row is divided for what is asked of it.

    >>> fare = ValueColumn("fare", Fraction(0), Fraction(100), parts=2)
    >>> fare.parts_of(fare.places(pl.Series([0.0, 25.0, 1000.0]))) / ONE
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.  , 1.  ]])
    """

    name: str
    low: Fraction
    high: Fraction
    parts: int

    def __post_init__(self) -> None:
        if not -LARGEST <= self.low < self.high <= LARGEST:
            raise InvalidInputError(
                name="between",
                value=f"{self.low} {self.high}",
                limit=f"the range of '{self.name}' needs a lower end below its upper end, both of at most 10^30",
                outcome="nothing was read",
            )

    @property
    def largest(self) -> Fraction:
        """The largest absolute value of the range."""
        return max(abs(self.low), abs(self.high))

    def places(self, column: pl.Series, strange: Policy = "error") -> Places:
        """The place of every value on the grid; what lies outside the range counts as its nearer end.

        ``strange`` decides about what is no number: to drop it is to take it for missing.
        """
        numbers = numbers_of(column, strange)
        missing = np.isnan(numbers)
        low, high = float(self.low), float(self.high)
        clipped = np.clip(np.where(missing, low, numbers), low, high)
        scaled = clipped / float(self.largest) if self.parts == 1 else (clipped - low) / (high - low)
        places = np.clip(np.rint(scaled * ONE), -ONE if self.parts == 1 else 0, ONE).astype(np.int32)
        places[missing] = MISSING_VALUE
        return places

    def parts_of(self, places: Places) -> NDArray[np.int64]:
        """How each row is divided, in multiples of 2⁻¹⁶ (rows × parts); a row without a value counts nowhere."""
        missing = places == MISSING_VALUE
        u = np.where(missing, 0, places).astype(np.int64)
        if self.parts == 1:
            return u[:, None]
        if self.parts == 2:
            divided = np.stack([ONE - u, u], axis=1)
        else:
            square = (u * u + (ONE >> 1)) >> GRID
            between = np.minimum((2 * u * (ONE - u) + (ONE >> 1)) >> GRID, ONE - square)
            divided = np.stack([ONE - between - square, between, square], axis=1)
        divided[missing] = 0
        return divided

    @property
    def norm(self) -> Fraction:
        """How far one row moves the parts in the L2 norm."""
        return Fraction(1)

    def sums(self, bins: NDArray[np.int64], places: Places, size: int) -> NDArray[np.int64]:
        """The sums of the parts of the rows in each of ``size`` bins (bins × parts)."""
        divided = self.parts_of(places).astype(np.float64)
        # Whole numbers below 2⁵³ are added up exactly by floating-point numbers.
        sums = [np.bincount(bins, weights=part, minlength=size) for part in divided.T]
        return np.stack(sums, axis=1).astype(np.int64)

    def even_parts(self) -> NDArray[np.float64]:
        """The parts of a row in the middle of the range."""
        return np.array([[0.5], [0.5, 0.5], [0.25, 0.5, 0.25]][self.parts - 1])

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "low": str(self.low), "high": str(self.high), "parts": self.parts}


def numbers_of(column: pl.Series, strange: Policy = "error") -> NDArray[np.float64]:
    """The column as floats, NaN where a value is missing; ``strange`` decides about what is no number."""
    if column.dtype.is_temporal() or column.dtype.is_nested():
        raise InvalidInputError(
            name=column.name,
            value=str(column.dtype),
            limit="a measured column holds numbers",
            outcome="nothing was read",
        )
    numbers = as_numbers(column)
    if strange == "drop":
        return numbers
    text = as_text(column)
    none = text.str.strip_chars().str.to_lowercase().is_in(["", "nan", "+nan", "-nan"])
    left = (none.not_() & pl.Series(np.isnan(numbers))).fill_null(False)
    if left.any():
        comma = has_decimal_comma(text.filter(left))
        raise InvalidInputError(
            f"column '{column.name}': a row has a value that is no number",
            name=column.name,
            outcome="nothing was read",
            operator_note=f"{int(left.sum())} such rows in this batch",
            next_step="numbers with a decimal comma need --decimal ','" if comma else "correct it, or leave it empty",
        )
    return numbers
