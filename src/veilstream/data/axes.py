"""One public attribute and its bins: categories, numeric edges, or a regular grid.

Every axis answers the same five questions: how many bins (``bins``), which bin a column's values fall in
(``encode``, -1 for none), what the bins are called (``labels``), which bins a query means (``select``), and
how the axis is written in JSON (``to_json``).
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.arguments import refuses, with_checked_arguments
from veilstream.data.columns import BLANKS, NUMERAL, ROUNDED, as_integers, as_numbers, as_text, canonical_category
from veilstream.errors import InvalidDomainError, InvalidInputError, shown

Category: TypeAlias = str | int | bool
LARGEST_END: Final = sys.float_info.max
COLUMN: Final = "it must be a Polars series of texts, numbers or truth values"
NUMERAL_OR_TRUTH: Final = rf"{NUMERAL}|^(?i:true|false)$"
MAX_LOOKUP = 1 << 24
"""Integer categories within a range of this many values are looked up in a table rather than searched."""


@with_checked_arguments
@dataclass(frozen=True, slots=True, init=False)
class Categories:
    """One bin per public value: all strings, all integers, or all booleans.

    >>> Categories(["a", "b"]).encode(pl.Series(["b", "a", "z", None]))
    array([ 1,  0, -1, -1])
    """

    values: tuple[Category, ...]

    @refuses("categories", "a list of public values is needed")
    def __init__(self, values: Iterable[Category]) -> None:
        object.__setattr__(self, "values", tuple(values))
        if not self.values:
            raise InvalidDomainError(name="categories", limit="0 values given, at least 1 is needed")
        kinds = {type(value) for value in self.values}
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InvalidDomainError(f"categories of type {names}: all must be strings, all integers or all booleans")
        if len(set(self.values)) < len(self.values):
            repeated = next(value for value in self.values if self.values.count(value) > 1)
            raise InvalidDomainError(f"categories: {repeated!r} is given more than once, once is the limit")
        if isinstance(self.values[0], str) and not all(
            str(value).isprintable() or _encodes(value) for value in self.values
        ):
            raise InvalidDomainError("categories: a text holds half a character, which no file can hold")
        if isinstance(self.values[0], int) and not all(-(1 << 63) <= int(v) < 1 << 63 for v in self.values):
            raise InvalidDomainError("categories: an integer lies outside 64 bits")

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.values)

    @refuses("column", COLUMN)
    def encode(self, column: pl.Series) -> NDArray[np.int64]:
        """The bin of every row, -1 where the value is not among the public ones.

        >>> Categories(["1", "1.5"]).encode(pl.Series([1.0, 1.5, 2.0])), Categories([1]).encode(pl.Series(["1.0", "x"]))
        (array([ 0,  1, -1]), array([ 0, -1]))
        """
        if isinstance(self.values[0], str):
            return self._encode_texts(as_text(column))
        if isinstance(self.values[0], bool):
            flags = as_text(column).str.strip_chars(BLANKS).str.to_lowercase()
            truths = {str(value).lower(): code for code, value in enumerate(self.values)}
            return flags.replace_strict(truths, default=-1, return_dtype=pl.Int64).to_numpy()
        known = np.array(self.values, dtype=np.int64)
        if column.dtype.is_float() and np.abs(known.astype(np.float64)).max() >= ROUNDED:
            raise InvalidInputError(
                name=f"column '{column.name}' of type",
                value=str(column.dtype),
                limit="floating-point numbers round whole numbers from 2^53 on, which its categories are",
                outcome="nothing was read",
                next_step="write the column as integers or text",
            )
        numbers, valid = as_integers(column)
        codes = _look_up(known, numbers)
        return codes if valid.all() else np.where(valid, codes, -1)

    def _encode_texts(self, text: pl.Series) -> NDArray[np.int64]:
        """The bin of the text itself; else of the one number or truth value that it writes in another way."""
        names = cast("tuple[str, ...]", self.values)
        known = text.cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int64)
        left = (known.is_null() & text.str.contains(NUMERAL_OR_TRUTH)).fill_null(False)
        if left.any():
            codes = _codes_of_numerals(names)
            found = {other: codes.get(canonical_category(other)) for other in text.filter(left).unique()}
            known = known.fill_null(text.replace_strict(found, default=None, return_dtype=pl.Int64))
        return known.fill_null(-1).to_numpy()

    def labels(self) -> pl.Series:
        """What tables call each bin, in their order."""
        return pl.Series(self.values)

    def select(self, name: str, wanted: object) -> NDArray[np.int64]:
        """The bins of a value or a list of values."""
        single = isinstance(wanted, str | int | bool)
        listed = [wanted] if single else list(cast("Iterable[object]", wanted))
        missing = [value for value in listed if value not in self.values]
        if missing:
            raise InvalidInputError(f"range on '{name}': {missing[0]!r} is not a public value")
        return np.unique([self.values.index(cast("Category", value)) for value in listed]).astype(np.int64)

    def to_json(self) -> list[Category]:
        """The value that ``Domain.from_json`` reads."""
        return list(self.values)


def _encodes(text: object) -> bool:
    try:
        str(text).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=64)
def _codes_of_numerals(names: tuple[str, ...]) -> dict[str | None, int]:
    """The bins of canonical numbers and truth values that one of the names alone writes."""
    forms = [canonical_category(name) for name in names]
    times = Counter(forms)
    return {form: code for code, form in enumerate(forms) if form is not None and times[form] == 1}


def _look_up(values: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    low, high = int(values.min()), int(values.max())
    if high - low < MAX_LOOKUP:
        table = np.full(high - low + 3, -1, dtype=np.int64)
        table[values - low + 1] = np.arange(len(values))
        return table[np.clip(numbers, low - 1, high + 1) - (low - 1)]
    order = np.argsort(values)
    position = order[np.minimum(np.searchsorted(values[order], numbers), len(values) - 1)]
    return np.where(values[position] == numbers, position, -1)


@with_checked_arguments
@dataclass(frozen=True, slots=True, init=False)
class Edges:
    """Numeric bins [e₀, e₁), [e₁, e₂), …; the last one also holds its upper edge.

    >>> Edges([0, 18, 65, 120]).encode(pl.Series([0, 18, 120, 121]))
    array([ 0,  1,  2, -1])
    """

    edges: tuple[float, ...]

    @refuses("edges", "all must be numbers")
    def __init__(self, edges: Iterable[float]) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in edges))
        if len(self.edges) < 2:
            raise InvalidDomainError(f"edges: {len(self.edges)} given, at least 2 are needed")
        if not all(map(math.isfinite, self.edges)):
            raise InvalidDomainError("edges: all must be finite numbers")
        for low, high in pairwise(self.edges):
            if low >= high:
                raise InvalidDomainError(f"edges: {low:g} is followed by {high:g}, they must grow")

    @property
    def bins(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    @refuses("column", COLUMN)
    def encode(self, column: pl.Series) -> NDArray[np.int64]:
        """The bin of every row, -1 for numbers outside all edges, text and nulls."""
        edges, numbers = np.array(self.edges), as_numbers(column)
        codes = np.searchsorted(edges, numbers, side="right").astype(np.int64) - 1
        codes[numbers == edges[-1]] = self.bins - 1
        codes[~(numbers <= edges[-1])] = -1
        return codes

    def labels(self) -> pl.Series:
        """What tables call each bin, in their order."""
        return _interval_labels(self.edges)

    def select(self, name: str, wanted: object) -> NDArray[np.int64]:
        """The bins between two edges."""
        low, high = _ends(name, wanted)
        return _between(name, np.array(self.edges), low, high, slack=0.0)

    def to_json(self) -> dict[str, Any]:
        """The value that ``Domain.from_json`` reads."""
        return {"edges": [_plain(edge) for edge in self.edges]}


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class Grid:
    """``cells`` equal bins between ``low`` and ``high``; a map is the product of two grids.

    >>> Grid(0.0, 1.0, 4).encode(pl.Series([0.0, 0.3, 1.0, 1.1]))
    array([ 0,  1,  3, -1])
    """

    low: float
    high: float
    cells: int

    def __post_init__(self) -> None:
        if not -LARGEST_END <= self.low < self.high <= LARGEST_END:
            raise InvalidDomainError(
                f"grid from {shown(self.low)} to {shown(self.high)}: low must lie below high, both finite"
            )
        if type(self.cells) is not int or self.cells < 1:
            raise InvalidDomainError(f"grid of {self.cells} cells: a whole number of at least 1 is needed")

    @property
    def bins(self) -> int:
        """The number of bins."""
        return self.cells

    def bounds(self) -> NDArray[np.float64]:
        """The ``cells + 1`` borders of the cells."""
        return np.linspace(self.low, self.high, self.cells + 1)

    @refuses("column", COLUMN)
    def encode(self, column: pl.Series) -> NDArray[np.int64]:
        """The cell of every row, -1 for numbers outside the grid, text and nulls."""
        numbers = as_numbers(column)
        inside = (numbers >= self.low) & (numbers <= self.high)
        everywhere = bool(inside.all())
        numbers = numbers if everywhere else np.where(inside, numbers, self.low)
        position = (numbers - self.low) / (self.high - self.low) * self.cells
        cells = np.minimum(position.astype(np.int64), self.cells - 1)
        return cells if everywhere else np.where(inside, cells, -1)

    def labels(self) -> pl.Series:
        """What tables call each bin, in their order."""
        return _interval_labels(self.bounds().tolist())

    def select(self, name: str, wanted: object) -> NDArray[np.int64]:
        """The cells between two borders, which may be off by rounding."""
        low, high = _ends(name, wanted)
        return _between(name, self.bounds(), low, high, slack=1e-6 * (self.high - self.low) / self.cells)

    def to_json(self) -> dict[str, Any]:
        """The value that ``Domain.from_json`` reads."""
        return {"low": _plain(self.low), "high": _plain(self.high), "cells": self.cells}


Axis: TypeAlias = Categories | Edges | Grid


def axis_from_json(name: str, spec: object) -> Axis:
    """The axis that a JSON value describes."""
    if isinstance(spec, list):
        return Categories(cast("list[Category]", spec))
    if isinstance(spec, dict):
        fields = cast("dict[str, Any]", spec)
        try:
            if set(fields) == {"edges"}:
                return Edges(fields["edges"])
            if set(fields) == {"low", "high", "cells"}:
                return Grid(float(fields["low"]), float(fields["high"]), fields["cells"])
        except InvalidDomainError:
            raise
        except (TypeError, ValueError) as error:
            raise InvalidDomainError(f"attribute '{name}': edges and ends must be numbers") from error
    raise InvalidDomainError(
        f"attribute '{name}': give a list of values, {{'edges': [...]}} or {{'low', 'high', 'cells'}}"
    )


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() and abs(number) < 1 << 53 else float(number)


def _interval_labels(borders: Sequence[float]) -> pl.Series:
    names = [f"{_plain(round(border, 12))}" for border in borders]
    pairs = list(pairwise(names))
    return pl.Series([f"[{a}, {b})" for a, b in pairs[:-1]] + [f"[{pairs[-1][0]}, {pairs[-1][1]}]"])


def _ends(name: str, wanted: object) -> tuple[float, float]:
    if isinstance(wanted, tuple) and len(cast("tuple[object, ...]", wanted)) == 2:
        low, high = cast("tuple[float, float]", wanted)
        return float(low), float(high)
    raise InvalidInputError(f"range on '{name}': give a pair (low, high) of edges")


def _between(name: str, borders: NDArray[np.float64], low: float, high: float, slack: float) -> NDArray[np.int64]:
    places: list[int] = []
    for end in (low, high):
        nearest = np.argsort(np.abs(borders - end), kind="stable")[:2]
        if not abs(borders[nearest[0]] - end) <= slack:
            near = " and ".join(f"{edge:g}" for edge in np.sort(borders[nearest]))
            raise InvalidInputError(f"range on '{name}': {end:g} is not an edge, the nearest are {near}")
        places.append(int(nearest[0]))
    if places[0] >= places[1]:
        raise InvalidInputError(f"range on '{name}': {low:g} must lie below {high:g}")
    return np.arange(places[0], places[1], dtype=np.int64)
