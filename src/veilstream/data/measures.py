"""What is published of measured columns: sums, means, variances and quantiles from one vector of fractional counts.

A row is divided into parts that are never negative and add up to 1: between the ends of a public range (``values``) or
among public cells (``cells``). It moves all parts of a column together as a count is moved, so that several statistics
of a column are paid for once. All of it is whole multiples of 2⁻¹⁶, made row by row, and added up as whole numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, cast

from veilstream.data.cells import CellColumn
from veilstream.data.values import GRID, ONE, ValueColumn
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import rational, sqrt_up
from veilstream.values.choices import DEFAULT_CELLS

Statistic: TypeAlias = Literal["count", "sum", "mean", "variance"]
Column: TypeAlias = ValueColumn | CellColumn

MEDIAN: Final = "median"
QUANTILE: Final = "quantile "
PARTS: Final[dict[str, int]] = {"sum": 1, "mean": 2, "count": 2, "variance": 3}
"""Parts of a row that a statistic of the values needs."""
DEFAULT_SHARES: Final = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))


@dataclass(frozen=True, slots=True)
class QuantileOptions:
    """Which quantiles are published, as shares of the rows below them, and in which cells rows are counted.

    Rows are counted in groups of cells too, unless ``grouped`` says otherwise.
    """

    shares: tuple[Fraction, ...] = DEFAULT_SHARES
    cells: int = DEFAULT_CELLS
    edges: tuple[Any, ...] | None = None
    grouped: bool = True

    def __post_init__(self) -> None:
        for share in self.shares:
            if not 0 < share < 1:
                raise InvalidInputError(
                    name="at", value=str(share), limit="above 0 and below 1", outcome="nothing was read"
                )

    def column(self, name: str, ends: Sequence[Any]) -> CellColumn:
        """The cells of a column between the ends of its range."""
        if self.edges is not None:
            column = CellColumn.between_edges(name, self.edges)
        else:
            low, high = (rational(end, f"between of {name}") for end in ends)
            column = CellColumn.even(name, low, high, self.cells)
        return column if self.grouped else replace(column, group=1)


USUAL_QUANTILES: Final = QuantileOptions()


@dataclass(frozen=True, slots=True)
class ValueMeasures:
    """What is published of which columns, and how a row moves the vector of all parts.

    >>> asked = ValueMeasures.of({"mean": {"fare": (0, 100)}, "sum": {"fare": (0, 100), "tip": (0, 20)}})
    >>> [(column.name, column.parts) for column in asked.columns], asked.parts, asked.labels
    ([('fare', 2), ('tip', 1)], 3, ('mean fare', 'sum fare', 'sum tip'))
    >>> ValueMeasures.of({"quantiles": {"fare": (0, 100)}}).labels
    ('quantile 0.1 fare', 'median fare', 'quantile 0.9 fare')
    """

    columns: tuple[Column, ...]
    asked: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        ranges: Mapping[str, Mapping[str, Sequence[Any]]],
        quantiles: QuantileOptions = USUAL_QUANTILES,
    ) -> ValueMeasures:
        """From statistic, column and range, as a job gives them."""
        needed: dict[str, int] = {}
        between: dict[str, tuple[Fraction, Fraction]] = {}
        cells: dict[str, CellColumn] = {}
        asked: list[tuple[str, str]] = []
        for statistic, columns in ranges.items():
            for name, ends in columns.items():
                low, high = (rational(end, f"between of {name}") for end in ends)
                if between.setdefault(name, (low, high)) != (low, high):
                    raise InvalidInputError(
                        name="between",
                        value=f"{low} {high}",
                        limit=f"column '{name}' has another range already: one for each column",
                        outcome="nothing was read",
                    )
                if statistic in PARTS:
                    needed[name] = max(needed.get(name, 0), PARTS[statistic])
                    asked.append((statistic, name))
                    continue
                cells[name] = quantiles.column(name, ends)
                shares = quantiles.shares if statistic == "quantiles" else (Fraction(1, 2),)
                asked.extend((name_of_quantile(share), name) for share in sorted(shares))
        # The number of rows is read off the cells where nothing but it is asked of the values.
        counted = {name for name in cells if all(statistic not in PARTS or statistic == "count"
                                                 for statistic, of in asked if of == name)}  # fmt: skip
        values = [ValueColumn(name, *between[name], parts) for name, parts in needed.items() if name not in counted]
        return cls((*values, *cells.values()), tuple(dict.fromkeys(asked)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column.name for column in self.columns))

    @property
    def parts(self) -> int:
        """Numbers of the vector for each bin."""
        return sum(column.parts for column in self.columns)

    @property
    def labels(self) -> tuple[str, ...]:
        """What is published, in words."""
        return tuple(f"{statistic} {name}" for statistic, name in self.asked)

    def column(self, statistic: str, name: str) -> tuple[Column, slice]:
        """The column that a statistic is read from, and where its parts lie among those of a bin."""
        first, found = 0, None
        for column in self.columns:
            if column.name == name and (found is None or (share_of(statistic) is not None)):
                found = column, slice(first, first + column.parts)
            first += column.parts
        if found is None:
            raise InvalidInputError(name="column", value=name, limit=f"measured are {', '.join(self.names)}")
        return found

    @property
    def single_quantiles(self) -> tuple[CellColumn, tuple[Fraction, ...]] | None:
        """The column and the shares where quantiles of one column are all that is asked for, else None."""
        shares = [share_of(statistic) for statistic, _ in self.asked]
        known = tuple(sorted({share for share in shares if share is not None}))
        column = self.columns[0]
        single = len(self.columns) == 1 and None not in shares
        return (column, known) if single and isinstance(column, CellColumn) else None

    def drawn(self) -> ValueMeasures:
        """The same parts, of which only what one picture shows is wanted: one statistic, or the quantiles of a
        column."""
        statistic, name = next((pair for pair in self.asked if pair[0] != "count"), self.asked[0])
        quantiles = [pair for pair in self.asked if share_of(pair[0]) is not None and pair[1] == name]
        single = ((statistic, name),)
        return ValueMeasures(self.columns, single if share_of(statistic) is None else tuple(quantiles))

    def movement(self, rows: int, most: Fraction | None = None) -> tuple[Fraction, Fraction]:
        """How far one person with so many rows in a step moves the vector, in the L1 and the L2 norm.

        ``most`` bounds besides what one person adds to a sum, in the units of its column.

        >>> fares = ValueMeasures.of({"sum": {"fare": (0, 100)}})
        >>> fares.movement(5), fares.movement(5, Fraction(150))[0]
        ((Fraction(5, 1), Fraction(5, 1)), Fraction(3, 2))
        """
        bounds = [Fraction(rows)] * len(self.columns)
        if most is not None:
            bounds = [Fraction(steps, ONE) for steps in self.most_steps(most)]
        each = [min(Fraction(rows), bound) for bound in bounds]
        far = [moved * column.norm for moved, column in zip(each, self.columns, strict=True)]
        squared = sum((moved**2 for moved in far), Fraction(0))
        return sum(each, Fraction(0)), far[0] if len(far) == 1 else sqrt_up(squared)

    def most_steps(self, most: Fraction) -> tuple[int, ...]:
        """What one person may add to the sum of each column, in multiples of 2⁻¹⁶ of its largest value.

        Only for sums: a row of a mean, a variance or a quantile has the same weight whatever its value is.
        """
        steps = [math.floor(most / column.largest * ONE) for column in self.columns if isinstance(column, ValueColumn)]
        if len(steps) < len(self.columns) or any(column.parts > 1 for column in self.columns) or min(steps) < 1:
            raise InvalidInputError(
                name="most_per_user",
                value=str(most),
                limit="it bounds what one person adds to a sum, by at least 2^-16 of the largest value; means, "
                "variances and quantiles count rows of any value alike",
                outcome="nothing was read",
                next_step="bound the rows of a person instead (counts_per_user), or publish sums alone",
            )
        return tuple(steps)

    def to_json(self, most: Fraction | None = None) -> str:
        """Canonical text, by which a ledger knows the measures and the bound on a sum again."""
        columns = [column.to_json() for column in self.columns]
        asked = [list(pair) for pair in self.asked]
        bound = None if most is None else str(most)
        return json.dumps({"kind": "measures", "grid": GRID, "columns": columns, "asked": asked, "most": bound})

    @classmethod
    def from_json(cls, text: str) -> ValueMeasures | None:
        """The measures that a ledger recorded, None where it releases something else."""
        fields: dict[str, Any] = read_json(text)
        if fields["kind"] != "measures":
            return None
        columns = tuple(_column(one) for one in cast(Iterable[dict[str, Any]], fields["columns"]))
        return cls(columns, tuple((statistic, name) for statistic, name in fields["asked"]))


def _column(fields: dict[str, Any]) -> Column:
    if "edges" in fields:
        return CellColumn(fields["name"], tuple(Fraction(edge) for edge in fields["edges"]), fields["group"])
    return ValueColumn(fields["name"], Fraction(fields["low"]), Fraction(fields["high"]), fields["parts"])


def name_of_quantile(share: Fraction) -> str:
    """A quantile in words.

    >>> name_of_quantile(Fraction(1, 2)), name_of_quantile(Fraction(9, 10)), name_of_quantile(Fraction(1, 3))
    ('median', 'quantile 0.9', 'quantile 1/3')
    """
    if share == Fraction(1, 2):
        return MEDIAN
    decimal = format(float(share), ".6g")
    return f"{QUANTILE}{decimal if Fraction(decimal) == share else share}"


def share_of(statistic: str) -> Fraction | None:
    """The share of rows below a quantile; None for what is not one.

    >>> share_of("median"), share_of("quantile 0.9"), share_of("mean")
    (Fraction(1, 2), Fraction(9, 10), None)
    """
    if statistic == MEDIAN:
        return Fraction(1, 2)
    return Fraction(statistic.removeprefix(QUANTILE)) if statistic.startswith(QUANTILE) else None
