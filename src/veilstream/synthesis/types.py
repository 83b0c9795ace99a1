"""The numeric types of a table's columns, so that drawn rows come back as narrow as they went in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from veilstream.data.axes import Categories, Edges
from veilstream.synthesis.domain import TableDomain


def numeric_types(source: Any) -> dict[str, pl.DataType]:
    """The types of the numeric columns of a Parquet file or of a Polars, pandas or Arrow table; else none are known.

    >>> numeric_types(pl.DataFrame({"age": [3]}, schema={"age": pl.Int8}))
    {'age': Int8}
    """
    schema: Mapping[str, pl.DataType] = {}
    table: Any = source
    if isinstance(source, pl.DataFrame):
        schema = source.schema
    elif isinstance(source, str | Path) and str(source).endswith((".parquet", ".pq")) and Path(source).is_file():
        schema = pl.read_parquet_schema(source)
    elif hasattr(table, "iloc"):
        schema = pl.DataFrame(table.iloc[:0]).schema
    elif hasattr(table, "schema") and hasattr(table, "slice"):
        schema = pl.DataFrame(table.slice(0, 0)).schema
    return {name: kind for name, kind in schema.items() if kind.is_numeric()}


def in_types(frame: pl.DataFrame, domain: TableDomain, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The same rows in these types, column by column, where a type holds every value of the public domain."""
    casts = [pl.col(name).cast(kind) for name, kind in types.items() if _holds(domain, frame, name, kind)]
    return frame.with_columns(casts)


def _holds(domain: TableDomain, frame: pl.DataFrame, name: str, kind: pl.DataType) -> bool:
    if name not in domain.axes or not frame[name].dtype.is_numeric():
        return False
    if not kind.is_integer():
        return kind.is_float()
    axis = domain.axes[name]
    if isinstance(axis, Categories):
        ends = pl.Series(axis.values)
    else:
        ends = pl.Series(np.array(axis.edges) if isinstance(axis, Edges) else axis.bounds())
    whole = frame[name].dtype.is_integer()
    return whole and ends.min() is not None and ends.cast(kind, strict=False).null_count() == 0
