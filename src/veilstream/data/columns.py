"""What the values of a column mean, each by itself, whatever the type of the column is.

The type of a column often depends on its rows: one missing value makes whole numbers floating-point numbers, one text
makes them texts. If the type decided what a value means, one person's row would decide about everybody's. So 1, 1.0,
``Decimal("1.00")`` and ``"1"`` mean the same here, true and ``"True"`` too, and what cannot be read is left out by
itself. Floating-point numbers from 2^53 on may be other whole numbers that were rounded, and mean none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.identity import Refusal, canonical_text, is_missing

ROUNDED: Final = float(1 << 53)
BLANKS: Final = " \t"
NUMERAL: Final = r"^[ \t]*[+-]?[0-9.][0-9.eE+-]*[ \t]*$"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
TEXTUAL: Final = (pl.String, pl.Categorical, pl.Enum)
INSTANT: Final = pl.Datetime("us", "UTC")
LOCAL: Final = pl.Datetime("us")
_Found: TypeAlias = tuple[type[pl.DataType] | pl.DataType, Any]


def as_numbers(column: pl.Series) -> NDArray[np.float64]:
    """The column as floats; text that is no number, and all that is missing, become NaN.

    >>> as_numbers(pl.Series(["1.5", "x", None]))
    array([1.5, nan, nan])
    """
    if isinstance(column.dtype, pl.Object):
        found: NDArray[np.float64] = by_value(column, as_numbers, math.nan)
        return found
    if not column.dtype.is_numeric() or isinstance(column.dtype, pl.Decimal):
        column = as_text(column).str.strip_chars(BLANKS)
    numbers = column.cast(pl.Float64, strict=False)
    return (numbers.fill_null(math.nan) if numbers.null_count() else numbers).to_numpy()


def as_integers(column: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The column as integers, and which rows are integers at all, in a number or in text.

    >>> as_integers(pl.Series([1.0, 1.5, None]))
    (array([1, 0, 0]), array([ True, False, False]))
    >>> as_integers(pl.Series(["1.0", " 7", "x"]))
    (array([1, 7, 0]), array([ True,  True, False]))
    """
    if isinstance(column.dtype, pl.Object):
        whole = pl.Series(by_value(column, _as_whole, None).tolist(), dtype=pl.Int64)
    else:
        whole = _as_whole(column)
    if whole.null_count() == 0:
        return whole.to_numpy(), np.ones(len(whole), dtype=np.bool_)
    return whole.fill_null(0).to_numpy(), whole.is_not_null().to_numpy()


def _as_whole(column: pl.Series) -> pl.Series:
    if column.dtype.is_float():
        column = column.set(((column == column.floor()) & (column.abs() < ROUNDED)).fill_null(False).not_(), None)
    elif not column.dtype.is_integer():
        column = as_text(column).str.strip_chars(BLANKS)
        numbers = column.cast(pl.Int64, strict=False)
        left = (numbers.is_null() & column.str.contains(NUMERAL)).fill_null(False)
        return numbers.set(left, None) if not left.any() else numbers.fill_null(_written_whole(column, left))
    return column.cast(pl.Int64, strict=False)


def _written_whole(column: pl.Series, left: pl.Series) -> pl.Series:
    """Whole numbers that are written with a point or an exponent."""
    forms = {text: canonical_text(text) for text in column.filter(left).unique()}
    known = {text: form for text, form in forms.items() if isinstance(form, int)}
    return column.replace_strict(known, default=None, return_dtype=pl.Int64)


def as_text(column: pl.Series) -> pl.Series:
    """The column as text, null for what is none: a number as it is canonically written, a truth value as true or false.

    >>> as_text(pl.Series([1.0, 1.5, None])).to_list(), as_text(pl.Series([b"a", bytes([255])])).to_list()
    (['1', '1.5', None], ['a', None])
    """
    dtype = column.dtype
    if isinstance(dtype, pl.Object):
        return pl.Series(column.name, by_value(column, as_text, None).tolist(), dtype=pl.String)
    if dtype.is_float():
        whole = column.set(((column == column.floor()) & (column.abs() < ROUNDED)).fill_null(False).not_(), None)
        return whole.cast(pl.Int64).cast(pl.String).fill_null(column.cast(pl.String))
    if isinstance(dtype, pl.Decimal):
        return column.cast(pl.String).str.replace(r"(\.[0-9]*?)0+$", "$1").str.strip_suffix(".")
    if isinstance(dtype, pl.Binary):
        return text_of_bytes(column)
    if isinstance(dtype, TEXTUAL) or dtype.is_integer() or dtype.is_temporal() or isinstance(dtype, pl.Boolean):
        return column.cast(pl.String)
    return pl.Series(column.name, [None], dtype=pl.String).new_from_index(0, len(column))


def text_of_bytes(column: pl.Series) -> pl.Series:
    """Bytes as the text that they hold in UTF-8, null where they hold none."""
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        return pl.Series(column.name, [_decoded(one) for one in column], dtype=pl.String)


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def canonical_category(text: str) -> str | None:
    """How a number or a truth value is canonically written; None for other text.

    >>> canonical_category("1.50"), canonical_category(" 07"), canonical_category("True"), canonical_category("x")
    ('1.5', '7', 'true', None)
    """
    if text.lower() in ("true", "false"):
        return text.lower()
    form = canonical_text(text, exact=True) if any(map(str.isdigit, text)) else None
    return None if form is None or isinstance(form, Refusal) else str(form)


def by_value(column: pl.Series, read: Callable[[pl.Series], Any], missing: Any) -> Any:
    """What ``read`` finds in the values of a column of Python objects, ``missing`` where a value has no type."""
    found: Any = None
    for rows, piece in pieces(column):
        part = read(piece)
        part = np.array(part.to_list(), dtype=object) if isinstance(part, pl.Series) else part
        if found is None:
            found = np.full(len(column), missing, dtype=part.dtype)
        found[rows] = part
    return np.full(len(column), missing) if found is None else found


def pieces(column: pl.Series) -> Iterator[tuple[NDArray[np.int64], pl.Series]]:
    """The values of a column of Python objects by their own types: which rows, and these as a column of that type.

    Values of no type that is read are in none; those that are missing are in one of nulls.

    >>> [(rows.tolist(), piece.dtype) for rows, piece in pieces(pl.Series([1, "a", None, [], 2], dtype=pl.Object))]
    [([0, 4], Int64), ([1], String), ([2], Null)]
    """
    rows: dict[Any, list[int]] = {}
    values: dict[Any, list[Any]] = {}
    for row, value in enumerate(column):
        found = _typed(value)
        if found is not None:
            rows.setdefault(found[0], []).append(row)
            values.setdefault(found[0], []).append(found[1])
    for dtype, mine in rows.items():
        yield np.array(mine, dtype=np.int64), pl.Series(column.name, values[dtype], dtype=dtype)


def _typed(value: Any) -> _Found | None:
    """A value as one of a plain type, None if it has none."""
    if is_missing(value):
        return pl.Null, None
    given: Any = value
    match value:
        case bool() | np.bool_():
            return pl.Boolean, bool(value)
        case str():
            return _typed_text(str.__str__(value))
        case bytes() | bytearray():
            return pl.Binary, bytes(value)
        case int() | np.integer():
            return _typed_integer(int(given))
        case float() | np.floating():
            return pl.Float64, float(given)
        case Decimal():
            known = value.is_finite() and abs(value.adjusted()) <= 400
            return (pl.String, format(value, "f")) if known else None
        case Fraction():
            return _typed_fraction(value)
        case np.datetime64():
            return _typed_datetime64(given)
        case datetime():
            return _typed_datetime(value)
        case date():
            return LOCAL, (value.toordinal() - EPOCH.toordinal()) * 86_400_000_000
        case _:
            return None


def _typed_text(text: str) -> _Found:
    try:
        text.encode()
    except UnicodeEncodeError:
        return pl.Binary, text.encode("utf-8", "surrogatepass")
    return pl.String, text


def _typed_integer(value: int) -> _Found | None:
    if -(1 << 63) <= value < 1 << 63:
        return pl.Int64, value
    return (pl.String, str(value)) if abs(value) < 10**400 else None


def _typed_fraction(value: Fraction) -> _Found | None:
    if value.denominator == 1:
        return _typed_integer(value.numerator)
    try:
        return pl.Float64, float(value)
    except OverflowError:
        return None


def _typed_datetime(value: datetime) -> _Found | None:
    # Timestamps of pandas have nanoseconds, and lie beyond Python's own years when they are moved to UTC.
    plain = datetime(
        value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, fold=value.fold
    )
    ticks = (plain.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
    offset = value.utcoffset()
    return (LOCAL, ticks) if offset is None else (INSTANT, ticks - offset // MICROSECOND)


def _typed_datetime64(value: np.datetime64) -> _Found | None:
    item: object = value.item()
    if isinstance(item, datetime | date):
        return _typed(item)
    nanoseconds = np.datetime_data(value.dtype) == ("ns", 1)
    return (LOCAL, item // 1000) if isinstance(item, int) and nanoseconds else None
