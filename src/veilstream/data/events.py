"""Events: rows of a person, a time and attributes, not yet read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from veilstream.data.encoding import Dropped
from veilstream.data.read_options import ReadOptions
from veilstream.data.readers import AS_FOUND, open_batches
from veilstream.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Events:
    """An opened source with only the columns that are needed. Iterators can be read once."""

    user: str
    time: str
    by: tuple[str, ...]
    source: Any = field(repr=False)
    options: ReadOptions = AS_FOUND

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.user, self.time, *self.by)))

    def batches(self, dropped: Dropped | None = None) -> Iterator[pl.DataFrame]:
        """The rows, a bounded number at a time; those of a file that cannot be read are added to ``dropped``, if it
        is given, and refused if it is not."""
        return open_batches(self.source, self.columns, self.options, time=self.time, user=self.user, dropped=dropped)


def read_events(
    source: Any, *, user: str, time: str, by: Iterable[str] = (), options: ReadOptions = AS_FOUND
) -> Events:
    """Name the columns of a source of events; rows are read when they are bounded.

    ``source`` is a CSV (plain or gzip) or Parquet file, a list, glob or directory of them, ``"-"`` for standard
    input, a Polars, pandas or Arrow table, a DuckDB relation, a lazy frame, a record batch reader, a mapping
    from column to array, or an iterator of any of those tables. In CSV files every column is read as text and
    an empty field is a missing value; ``options`` say what their bytes do not.

    >>> rows = {"id": [1, 2], "t": [0, 1], "place": ["a", "b"]}
    >>> events = read_events(rows, user="id", time="t", by=["place"])
    >>> [batch.shape for batch in events.batches()]
    [(2, 3)]
    """
    attributes = tuple(by)
    for name in (time, *attributes):
        if name == user:
            raise InvalidInputError(
                f"column '{name}': it is the person's id and cannot also be a time or an attribute",
                outcome="nothing was read",
            )
    return Events(user, time, attributes, source, options)
