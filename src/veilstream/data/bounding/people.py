"""The identities of a column of ids. What makes two ids one person is decided in ``identity``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.bounding.identity import (
    DOUBLE_BITS,
    IRREGULAR,
    Identity,
    Refusal,
    canonical,
    canonical_text,
    digest,
    exact_below,
)
from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError

_MANTISSA_BITS: Final = {"Float16": 11, "Float32": 24, "Float64": DOUBLE_BITS}
_LARGEST: Final = (1 << 63) - 1


class People(Private):
    """Identities of the rows: a 64-bit integer, and a second one where some id is text.

    Integer ids are their own first integer, and the second is zero. Text is hashed to 128 bits under the key, so two
    of n people share an identity with probability below n²/2¹²⁸. ``present`` says which rows have an id; None for all.
    """

    __slots__ = ("high", "low", "present")

    def __init__(
        self, low: NDArray[np.int64], high: NDArray[np.uint64] | None, present: NDArray[np.bool_] | None
    ) -> None:
        self.low, self.high, self.present = low, high, present


def identify(column: pl.Series, key: bytes) -> People:
    """The identity of every row's person, by the rule of :mod:`~veilstream.data.bounding.identity`.

    >>> identify(pl.Series(["7", "7.0", " ", None]), b"k" * 16).low
    array([7, 7, 0, 0])
    """
    ids, exact = _integers_or_text(column)
    return _from_integers(ids) if ids.dtype.is_integer() else _from_text(ids, key, exact)


def canonical_ids(column: pl.Series) -> pl.Series:
    """The canonical form of every row's id as text, null for nobody.

    >>> canonical_ids(pl.Series("id", ["7", " 7.0", "Ann ", " "])).to_list()
    ['7', '7', 'Ann', None]
    """
    ids, exact = _integers_or_text(column)
    if ids.dtype.is_integer():
        return ids.cast(pl.String)
    names = ids.drop_nulls().unique()
    forms, irregular = _forms(names, exact)
    if not irregular:
        return ids
    odd = names.gather(irregular)
    texts = [None if forms[index] is None else str(forms[index]) for index in irregular]
    return ids.replace(odd, pl.Series(texts, dtype=pl.String))


def _integers_or_text(column: pl.Series) -> tuple[pl.Series, bool]:
    """Ids as a column of 64-bit integers or of text, and whether the text comes from decimals."""
    dtype = column.dtype
    if isinstance(dtype, pl.UInt64) and (len(column) == column.null_count() or int(_greatest(column)) <= _LARGEST):
        return column.cast(pl.Int64), False
    if isinstance(dtype, pl.UInt64 | pl.Int128 | pl.UInt128 | pl.String | pl.Categorical | pl.Enum):
        return column.cast(pl.String), False
    if dtype.is_integer() or isinstance(dtype, pl.Null):
        return column.cast(pl.Int64), False
    if dtype.is_float():
        return _from_floats(column), False
    if isinstance(dtype, pl.Decimal):
        return column.cast(pl.String), True
    if isinstance(dtype, pl.Binary):
        return _from_bytes(column), False
    if isinstance(dtype, pl.Object):
        return _from_objects(column), False
    raise _refused(column, Refusal.BOOLEAN if isinstance(dtype, pl.Boolean) else Refusal.TYPE)


def _greatest(column: pl.Series) -> Any:
    return column.max()


def _refused(column: pl.Series, why: Refusal) -> InvalidInputError:
    return InvalidInputError(name=f"user column '{column.name}'", limit=why.value)


def _from_integers(column: pl.Series) -> People:
    if column.null_count() == 0:
        return People(column.to_numpy(), None, None)
    return People(column.fill_null(0).to_numpy(), None, column.is_not_null().to_numpy())


def _from_floats(column: pl.Series) -> pl.Series:
    known = column.fill_nan(None)
    ids = known.drop_nulls()
    limit = float(exact_below(_MANTISSA_BITS[str(column.dtype)]))
    if ids.is_infinite().any():
        raise _refused(column, Refusal.INFINITE)
    if (ids.abs() >= limit).any():
        raise _refused(column, Refusal.ROUNDED)
    if (ids != ids.floor()).any():
        raise _refused(column, Refusal.FRACTION)
    return known.cast(pl.Int64)


def _from_bytes(column: pl.Series) -> pl.Series:
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        raise _refused(column, Refusal.NOT_TEXT) from None


def _from_objects(column: pl.Series) -> pl.Series:
    ids = [_checked(column, canonical(value)) for value in column]
    return pl.Series(column.name, [None if one is None else str(one) for one in ids], dtype=pl.String)


def _checked(column: pl.Series, identity: Identity) -> int | str | None:
    if isinstance(identity, Refusal):
        raise _refused(column, identity)
    return identity


def _from_text(column: pl.Series, key: bytes, exact: bool) -> People:
    """Integers in their plain form are read all at once; of the other texts each distinct one is read once."""
    integers = column.cast(pl.Int64, strict=False)
    plain = (integers.cast(pl.String) == column).fill_null(False).to_numpy()
    low = integers.fill_null(0).to_numpy().copy()
    low[~plain] = 0
    named = ~plain & column.is_not_null().to_numpy()
    if not named.any():
        return People(low, None, None if plain.all() else plain)
    encoded: Any = getattr(column.filter(named), "to_arrow")().dictionary_encode()  # noqa: B009
    names: pl.Series = getattr(pl, "from_arrow")(encoded.dictionary).rename(column.name)  # noqa: B009
    distinct = _from_names(names, key, exact)
    codes: NDArray[np.int32] = encoded.indices.to_numpy()
    low[named] = distinct.low[codes]
    high = None
    if distinct.high is not None:
        high = np.zeros(len(column), dtype=np.uint64)
        high[named] = distinct.high[codes]
    present = plain.copy()
    present[named] = True if distinct.present is None else distinct.present[codes]
    return People(low, high, None if present.all() else present)


def _forms(names: pl.Series, exact: bool) -> tuple[list[int | str | None], list[int]]:
    """The canonical forms of distinct texts, and which of them had to be looked at one by one."""
    forms: list[int | str | None] = names.to_list()
    irregular: list[int] = np.flatnonzero(names.str.contains(IRREGULAR).to_numpy()).tolist()
    for index in irregular:
        forms[index] = _checked(names, canonical_text(str(forms[index]), exact=exact))
    return forms, irregular


def _from_names(names: pl.Series, key: bytes, exact: bool) -> People:
    """The identities of distinct texts."""
    forms, irregular = _forms(names, exact)
    low, present = np.zeros(len(forms), dtype=np.int64), np.ones(len(forms), dtype=np.bool_)
    texts = np.ones(len(forms), dtype=np.bool_)
    for index in irregular:
        form = forms[index]
        if not isinstance(form, str):
            texts[index], present[index] = False, form is not None
            low[index] = form or 0
    digests = b"".join([digest(form, key) for form in forms if isinstance(form, str)])
    if not digests:
        return People(low, None, present)
    halves = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    high = np.zeros(len(forms), dtype=np.uint64)
    low[texts] = halves[:, 0].view(np.int64)
    # Zero marks integers.
    high[texts] = halves[:, 1] | np.uint64(1)
    return People(low, high, present)
