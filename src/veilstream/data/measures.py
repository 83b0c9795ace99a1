"""Measured values: sums, means and variances of a column, as fractional counts of a public range.

A row's value v in the public range [a, b] has the place u = (v − a)/(b − a). For a mean the row is divided between the
two ends of the range, 1 − u to the lower and u to the upper one; for a variance among three parts, (1 − u)², 2u(1 − u)
and u². The parts are never negative and add up to 1, so a row moves all of them together by 1 in the L1 norm, as it
moves a count: number of rows, sum, mean and variance come from the same vector, and none of them has to be paid for
by itself. A sum alone is one number, v over the largest |v| of the range.

All of it is whole multiples of 2⁻¹⁶, made row by row; what is added up are whole numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.axes import as_numbers
from veilstream.data.read_options import has_decimal_comma
from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import rational, sqrt_up

Statistic: TypeAlias = Literal["count", "sum", "mean", "variance"]
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

    def places(self, column: pl.Series) -> Places:
        """The place of every value on the grid; what lies outside the range counts as its nearer end."""
        numbers = _numbers(column)
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

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "low": str(self.low), "high": str(self.high), "parts": self.parts}


@dataclass(frozen=True, slots=True)
class ValueMeasures:
    """What is published of which columns, and how a row moves the vector of all parts.

    >>> asked = ValueMeasures.of({"mean": {"fare": (0, 100)}, "sum": {"fare": (0, 100), "tip": (0, 20)}})
    >>> [(column.name, column.parts) for column in asked.columns], asked.parts, asked.labels
    ([('fare', 2), ('tip', 1)], 3, ('mean fare', 'sum fare', 'sum tip'))
    """

    columns: tuple[ValueColumn, ...]
    asked: tuple[tuple[Statistic, str], ...]

    @classmethod
    def of(cls, ranges: Mapping[str, Mapping[str, Sequence[Any]]]) -> ValueMeasures:
        """From statistic, column and range, as a job gives them."""
        needed: dict[str, int] = {}
        between: dict[str, tuple[Fraction, Fraction]] = {}
        asked: list[tuple[Statistic, str]] = []
        for statistic, columns in ranges.items():
            for name, ends in columns.items():
                parts = {"sum": 1, "mean": 2, "count": 2, "variance": 3}[statistic]
                needed[name] = max(needed.get(name, 0), parts)
                low, high = (rational(end, f"between of {name}") for end in ends)
                if between.setdefault(name, (low, high)) != (low, high):
                    raise InvalidInputError(
                        name="between",
                        value=f"{low} {high}",
                        limit=f"column '{name}' has another range already: one for each column",
                        outcome="nothing was read",
                    )
                asked.append((cast(Statistic, statistic), name))
        columns_of = tuple(ValueColumn(name, *between[name], parts) for name, parts in needed.items())
        return cls(columns_of, tuple(dict.fromkeys(asked)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def parts(self) -> int:
        """Numbers of the vector for each bin."""
        return sum(column.parts for column in self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """What is published, in words."""
        return tuple(f"{statistic} {name}" for statistic, name in self.asked)

    def column(self, name: str) -> tuple[ValueColumn, slice]:
        """A column and where its parts lie among those of a bin."""
        first = 0
        for column in self.columns:
            if column.name == name:
                return column, slice(first, first + column.parts)
            first += column.parts
        raise InvalidInputError(name="column", value=name, limit=f"measured are {', '.join(self.names)}")

    def first(self) -> ValueMeasures:
        """The same parts, of which only the first statistic is wanted."""
        return ValueMeasures(self.columns, self.asked[:1])

    def movement(self, rows: int, most: Fraction | None = None) -> tuple[Fraction, Fraction]:
        """How far one person with so many rows in a step moves the vector, in the L1 and the L2 norm.

        ``most`` bounds besides what one person adds to a sum, in the units of its column.

        >>> fares = ValueMeasures.of({"sum": {"fare": (0, 100)}})
        >>> fares.movement(5), fares.movement(5, Fraction(150))[0]
        ((Fraction(5, 1), Fraction(5, 1)), Fraction(3, 2))
        """
        each = [
            Fraction(rows) if most is None else min(Fraction(rows), self._steps(most, column) / ONE)
            for column in self.columns
        ]
        squared = sum((moved**2 for moved in each), Fraction(0))
        return sum(each, Fraction(0)), each[0] if len(each) == 1 else sqrt_up(squared)

    def _steps(self, most: Fraction, column: ValueColumn) -> Fraction:
        return Fraction(math.floor(most / column.largest * ONE))

    def most_steps(self, most: Fraction) -> tuple[int, ...]:
        """What one person may add to the sum of each column, in multiples of 2⁻¹⁶ of its largest value."""
        return tuple(int(self._steps(most, column)) for column in self.columns)

    def to_json(self, most: Fraction | None = None) -> str:
        """Canonical text, by which a ledger knows the measures and the bound on a sum again."""
        columns = [column.to_json() for column in self.columns]
        asked = [list(pair) for pair in self.asked]
        bound = None if most is None else str(most)
        return json.dumps({"kind": "measures", "grid": GRID, "columns": columns, "asked": asked, "most": bound})

    @classmethod
    def from_json(cls, text: str) -> ValueMeasures | None:
        """The measures that a ledger recorded, None where it releases something else."""
        fields: dict[str, Any] = json.loads(text)
        if fields["kind"] != "measures":
            return None
        columns = tuple(
            ValueColumn(one["name"], Fraction(one["low"]), Fraction(one["high"]), one["parts"])
            for one in cast(Iterable[dict[str, Any]], fields["columns"])
        )
        return cls(columns, tuple((statistic, name) for statistic, name in fields["asked"]))


STATISTICS: Final[tuple[Statistic, ...]] = get_args(Statistic)


def _numbers(column: pl.Series) -> NDArray[np.float64]:
    """The column as floats, NaN where a value is missing; text that is no number is refused."""
    if not (column.dtype.is_numeric() or isinstance(column.dtype, pl.String | pl.Null)):
        raise InvalidInputError(
            name=column.name,
            value=str(column.dtype),
            limit="a measured column holds numbers",
            outcome="nothing was read",
        )
    if isinstance(column.dtype, pl.String):
        column = column.str.strip_chars().replace("", None)
    numbers = as_numbers(column)
    strange = int(np.count_nonzero(np.isnan(numbers))) - column.null_count()
    if isinstance(column.dtype, pl.String):
        strange -= int(column.str.to_lowercase().is_in(["nan", "+nan", "-nan"]).sum() or 0)
    elif column.dtype.is_float():
        strange -= int(column.is_nan().sum() or 0)
    if strange > 0:
        comma = has_decimal_comma(column.filter(pl.Series(np.isnan(numbers))))
        raise InvalidInputError(
            f"column '{column.name}': a row has a value that is no number",
            name=column.name,
            outcome="nothing was read",
            operator_note=f"{strange} such rows in this batch",
            next_step="numbers with a decimal comma need --decimal ','" if comma else "correct it, or leave it empty",
        )
    return numbers
