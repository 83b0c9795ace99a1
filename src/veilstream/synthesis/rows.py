"""From any table to sealed rows in the order of a keyed hash."""

from __future__ import annotations

import os
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data import Categories, Domain, Policy
from veilstream.data.bounding.choice import first_of_each
from veilstream.data.bounding.keyed import Key, Words
from veilstream.data.bounding.people import identify
from veilstream.data.encoding import left_out
from veilstream.data.readers import open_batches
from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.synthesis.domain import TableDomain, table_domain
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.rows import SealedRows, ordered_rows

Columns = list[NDArray[np.int64]]
DROP: Final = 'leave such rows out with unknown="drop" (--unknown drop)'


@hide_frames
def read_rows(
    source: Any,
    domain: Domain,
    *,
    user: str | None = None,
    rows_per_user: int = 1,
    unknown: Policy = "error",
    t: int = 0,
    key: Key | None = None,
) -> SealedRows:
    """Seal a table: a CSV or Parquet file, or a Polars, pandas or Arrow table.

    With ``user``, the column of people's ids, at most ``rows_per_user`` rows of each are used, chosen by a keyed
    hash; rows without an id are left out. Without it the caller promises that nobody has more than that many rows.
    The key only keeps the choice of samples out of everybody's hands: the guarantee holds whatever it is.

    >>> from veilstream.data import Categories
    >>> read_rows({"place": ["a", "b", "a"]}, TableDomain({"place": Categories(["a", "b"])}))
    SealedRows(shape=2, span=0..0, l1=1)
    """
    if type(rows_per_user) is not int or rows_per_user < 1:
        raise InvalidInputError(
            name="rows_per_user", value=rows_per_user, limit="a whole number of at least 1", outcome="nothing was read"
        )
    schema, secret = table_domain(domain), key or Key(os.urandom(16))
    columns: list[Columns] = []
    people: list[tuple[NDArray[np.int64], Words]] = []
    names: list[str] = list(dict.fromkeys((*schema.names, *(() if user is None else (user,)))))
    for frame in open_batches(source, names, dropped=left_out(unknown)):
        codes, usable = _encoded(frame, schema, unknown)
        if user is not None:
            identified = identify(frame[user], secret.derive(b"people"), unknown)
            high = np.zeros(len(frame), dtype=np.uint64) if identified.high is None else identified.high
            if identified.present is not None:
                usable &= identified.present
            people.append((identified.low[usable], high[usable]))
        columns.append([column[usable] for column in codes])
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)] if columns else _nothing(schema)
    hashes = content_hashes(joined, secret)
    if user is not None and people:
        low, high = (np.concatenate(parts) for parts in zip(*people, strict=True))
        chosen = first_of_each(low, high, secret.hash(*joined, 1), rows_per_user)
        joined = [column[chosen] for column in joined]
        hashes = content_hashes(joined, secret)
    return ordered_rows(joined, hashes, schema.shape, t, rows_per_user)


def content_hashes(columns: Columns, key: Key) -> Words:
    """A hash of every row's content and of its number among the rows of equal content.

    The hashes of n + 1 rows are those of n of them and one more, whichever row is added and wherever.
    """
    rows = columns[0].size
    if rows == 0:
        return np.zeros(0, dtype=np.uint64)
    content = key.hash(*columns)
    order = np.argsort(content, kind="stable")
    ranked = content[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.lexsort((*columns, content))
    new = np.ones(rows, dtype=np.bool_)
    new[1:] = content[order[1:]] != content[order[:-1]]
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    position = np.arange(rows)
    number = np.empty(rows, dtype=np.int64)
    number[order] = position - np.maximum.accumulate(np.where(new, position, 0))
    return key.hash(content, number)


def _encoded(frame: pl.DataFrame, schema: TableDomain, unknown: Policy) -> tuple[Columns, NDArray[np.bool_]]:
    codes = schema.columns(frame)
    usable = np.ones(len(frame), dtype=np.bool_)
    for name, column in zip(schema.names, codes, strict=True):
        inside = column >= 0
        if unknown == "error" and not inside.all():
            raise UnknownValueError(
                f"attribute '{name}': a row has a value that is missing or outside its bins",
                next_step=_cure(frame, name, schema),
            )
        usable &= inside
    return codes, usable


def _cure(frame: pl.DataFrame, name: str, schema: TableDomain) -> str:
    """What to do about values that bins do not hold: other bins where the type of the column is another than theirs."""
    axis, kind = schema.axes[name], frame.schema[name]
    if kind == pl.String and not isinstance(axis, Categories):
        return f"the column holds texts and its bins are numbers: list the values of '{name}' in the domain, or {DROP}"
    if kind.is_numeric() and isinstance(axis, Categories) and all(type(value) is str for value in axis.values):
        return f"the column holds numbers and its bins are texts: write numbers for '{name}' in the domain, or {DROP}"
    return UnknownValueError.next_step


def _nothing(schema: TableDomain) -> Columns:
    return [np.zeros(0, dtype=np.int64) for _ in schema.names]
