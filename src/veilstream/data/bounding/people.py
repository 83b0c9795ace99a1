"""The identities of a column of ids. What makes two ids one person is decided in ``identity``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.bounding.private import Private
from veilstream.data.columns import text_of_bytes
from veilstream.data.encoding import Policy
from veilstream.data.identity import (
    DOUBLE_BITS,
    IRREGULAR,
    Identity,
    Refusal,
    canonical,
    canonical_text,
    digest,
    exact_below,
)
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


def identify(column: pl.Series, key: bytes, refused: Policy = "error") -> People:
    """The identity of every row's person, by the rule of :mod:`~veilstream.data.identity`.

    ``refused`` decides about ids that the rule refuses: to drop them is to take them for nobody's.

    >>> identify(pl.Series(["7", "7.0", " ", None]), b"k" * 16).low
    array([7, 7, 0, 0])
    """
    ids = _Ids(column, refused)
    return _from_integers(ids.column) if ids.column.dtype.is_integer() else _from_text(ids, key)


def canonical_ids(column: pl.Series) -> pl.Series:
    """The canonical form of every row's id as text, null for nobody.

    >>> canonical_ids(pl.Series("id", ["7", " 7.0", "Ann ", " "])).to_list()
    ['7', '7', 'Ann', None]
    """
    read = _Ids(column, "error")
    ids = read.column
    if ids.dtype.is_integer():
        return ids.cast(pl.String)
    names = ids.drop_nulls().unique()
    forms, irregular = read.forms(names)
    if not irregular:
        return ids
    odd = names.gather(irregular)
    texts = [None if forms[index] is None else str(forms[index]) for index in irregular]
    return ids.replace(odd, pl.Series(texts, dtype=pl.String))


class _Ids(Private):
    """Ids as a column of 64-bit integers or of text, null for nobody; ``exact`` if the text comes from decimals."""

    __slots__ = ("_name", "_refused", "column", "exact")

    def __init__(self, column: pl.Series, refused: Policy) -> None:
        self._name, self._refused = column.name, refused
        self.exact = isinstance(column.dtype, pl.Decimal)
        self.column = self._integers_or_text(column)

    def _integers_or_text(self, column: pl.Series) -> pl.Series:
        dtype = column.dtype
        small = isinstance(dtype, pl.UInt64) and (
            len(column) == column.null_count() or int(_greatest(column)) <= _LARGEST
        )
        if isinstance(dtype, pl.UInt64 | pl.Int128 | pl.UInt128 | pl.Decimal | pl.String | pl.Categorical | pl.Enum):
            return column.cast(pl.Int64 if small else pl.String)
        if dtype.is_integer() or isinstance(dtype, pl.Null):
            return column.cast(pl.Int64)
        if dtype.is_float():
            return self._from_floats(column)
        if isinstance(dtype, pl.Binary):
            text = text_of_bytes(column)
            return self._without(text, text.is_null() & column.is_not_null(), Refusal.NOT_TEXT)
        if isinstance(dtype, pl.Boolean):
            return self._without(column.cast(pl.Int64), column.is_not_null(), Refusal.BOOLEAN)
        if isinstance(dtype, pl.Object):
            ids = [self.checked(canonical(value)) for value in column]
            return pl.Series(column.name, [None if one is None else str(one) for one in ids], dtype=pl.String)
        raise self._error(Refusal.TYPE)

    def _from_floats(self, column: pl.Series) -> pl.Series:
        ids = column.fill_nan(None)
        limit = float(exact_below(_MANTISSA_BITS[str(column.dtype)]))
        if (ids.is_finite() & (ids.abs() >= limit)).any():
            # One missing id is enough to make whole numbers of a table floating-point ones. To drop those that are
            # rounded would let one row drop other people's.
            raise self._error(Refusal.ROUNDED)
        ids = self._without(ids, ids.is_infinite(), Refusal.INFINITE)
        return self._without(ids, ids != ids.floor(), Refusal.FRACTION).cast(pl.Int64)

    def _without(self, ids: pl.Series, bad: pl.Series, why: Refusal) -> pl.Series:
        if not bad.any():
            return ids
        self.checked(why)
        return ids.set(bad.fill_null(False), None)

    def checked(self, identity: Identity) -> int | str | None:
        """The identity, None for nobody; one that is refused is nobody, or an error."""
        if not isinstance(identity, Refusal):
            return identity
        if self._refused == "error":
            raise self._error(identity)
        return None

    def _error(self, why: Refusal) -> InvalidInputError:
        return InvalidInputError(name=f"user column '{self._name}'", limit=why.value)

    def forms(self, names: pl.Series) -> tuple[list[int | str | None], list[int]]:
        """The canonical forms of distinct texts, and which of them had to be looked at one by one."""
        forms: list[int | str | None] = names.to_list()
        irregular: list[int] = np.flatnonzero(names.str.contains(IRREGULAR).to_numpy()).tolist()
        for index in irregular:
            forms[index] = self.checked(canonical_text(str(forms[index]), exact=self.exact))
        return forms, irregular


def _greatest(column: pl.Series) -> Any:
    return column.max()


def _from_integers(column: pl.Series) -> People:
    if column.null_count() == 0:
        return People(column.to_numpy(), None, None)
    return People(column.fill_null(0).to_numpy(), None, column.is_not_null().to_numpy())


def _from_text(ids: _Ids, key: bytes) -> People:
    """Integers in their plain form are read all at once; of the other texts each distinct one is read once."""
    column = ids.column
    integers = column.cast(pl.Int64, strict=False)
    plain = (integers.cast(pl.String) == column).fill_null(False).to_numpy()
    low = integers.fill_null(0).to_numpy().copy()
    low[~plain] = 0
    named = ~plain & column.is_not_null().to_numpy()
    if not named.any():
        return People(low, None, None if plain.all() else plain)
    encoded: Any = getattr(column.filter(named), "to_arrow")().dictionary_encode()  # noqa: B009
    names: pl.Series = getattr(pl, "from_arrow")(encoded.dictionary).rename(column.name)  # noqa: B009
    distinct = _from_names(ids, names, key)
    codes: NDArray[np.int32] = encoded.indices.to_numpy()
    low[named] = distinct.low[codes]
    high = None
    if distinct.high is not None:
        high = np.zeros(len(column), dtype=np.uint64)
        high[named] = distinct.high[codes]
    present = plain.copy()
    present[named] = True if distinct.present is None else distinct.present[codes]
    return People(low, high, None if present.all() else present)


def _from_names(ids: _Ids, names: pl.Series, key: bytes) -> People:
    """The identities of distinct texts."""
    forms, irregular = ids.forms(names)
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
