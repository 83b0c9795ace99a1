"""Who a row belongs to: one identity per person, however the id is typed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError

EXACT_FLOAT = 1 << 53


@dataclass(frozen=True, slots=True)
class People:
    """Identities of the rows: a 64-bit word, and a second one where some id is text.

    Integer ids are their own first word with a second word of zero. Text is hashed to 128 bits under the
    key, so two of n people share an identity with probability below n²/2¹²⁸.
    """

    low: NDArray[np.int64] = field(repr=False)
    high: NDArray[np.uint64] | None = field(repr=False)
    present: NDArray[np.bool_] | None = field(repr=False)
    """Which rows have an id; None for all."""


def identify(column: pl.Series, key: bytes) -> People:
    """The identity of every row's person.

    An id is what it says as text: 1, 1.0 and "1" are one person, because a person taken for two would be
    counted twice. "01" and " 1" are other texts and other people. Null, NaN and the empty text are nobody.

    >>> identify(pl.Series(["7", "", None]), b"k" * 16).low
    array([7, 0, 0])
    """
    if isinstance(column.dtype, pl.Object):
        column = pl.Series(column.name, [_text(column.name, value) for value in column], dtype=pl.String)
    if isinstance(column.dtype, pl.UInt64 | pl.Int128 | pl.UInt128):
        column = column.cast(pl.String)
    if column.dtype.is_integer():
        return _from_integers(column.cast(pl.Int64))
    if column.dtype.is_float():
        return _from_integers(_from_floats(column))
    if isinstance(column.dtype, pl.Null):
        return _from_integers(column.cast(pl.Int64))
    if isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        return _from_text(column.cast(pl.String), key)
    raise InvalidInputError(f"user column '{column.name}' of type {column.dtype}: integers or text are needed")


def _from_integers(column: pl.Series) -> People:
    if column.null_count() == 0:
        return People(column.to_numpy(), None, None)
    return People(column.fill_null(0).to_numpy(), None, column.is_not_null().to_numpy())


def _from_floats(column: pl.Series) -> pl.Series:
    known = column.fill_nan(None)
    exact = known.drop_nulls()
    if not ((exact == exact.floor()) & (exact.abs() <= EXACT_FLOAT)).all():
        raise InvalidInputError(
            f"user column '{column.name}': an id is fractional or beyond 2**53, where two people look alike"
        )
    return known.cast(pl.Int64)


def _from_text(column: pl.Series, key: bytes) -> People:
    whole = column.cast(pl.Int64, strict=False)
    plain = (whole.cast(pl.String) == column).fill_null(False)
    present = ((column != "") & column.is_not_null()).fill_null(False)
    low = whole.fill_null(0).to_numpy().copy()
    named = (present & ~plain).to_numpy()
    low[~plain.to_numpy()] = 0
    kept = None if bool(present.all()) else present.to_numpy()
    if not named.any():
        return People(low, None, kept)
    encoded: Any = getattr(column.filter(named), "to_arrow")().dictionary_encode()  # noqa: B009
    distinct: list[str] = encoded.dictionary.to_pylist()
    # BLAKE2 cannot be extended, so a key in front of the message makes it a keyed hash in one pass.
    digests = b"".join([hashlib.blake2b(key + name.encode(), digest_size=16).digest() for name in distinct])
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    codes: NDArray[np.int32] = encoded.indices.to_numpy()
    high = np.zeros(len(column), dtype=np.uint64)
    low[named] = words[codes, 0].view(np.int64)
    # Zero marks integers.
    high[named] = words[codes, 1] | np.uint64(1)
    return People(low, high, kept)


def _text(name: str, value: object) -> str | None:
    match value:
        case None:
            return None
        case bool() | np.bool_():
            pass
        case str():
            return value
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            number = float(value)
            if math.isnan(number):
                return None
            if number.is_integer() and abs(number) <= EXACT_FLOAT:
                return str(int(number))
        case _:
            pass
    raise InvalidInputError(
        f"user column '{name}': an id of type {type(value).__name__} that is neither an integer nor text"
    )
