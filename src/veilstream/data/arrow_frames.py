"""Arrow data as frames of Polars."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl


def frame_from_arrow(data: Any) -> pl.DataFrame:
    """A table or a record batch as a frame, with instants in UTC and text that is not UTF-8 as bytes.

    Instants are the same in every zone. Engines write them in the zone of their session, which may have a name that
    Polars does not know, such as ``GMT+5`` or ``+05:30``.

    >>> import pyarrow
    >>> moment = pyarrow.array([0], pyarrow.timestamp("us", "GMT+5"))
    >>> frame_from_arrow(pyarrow.table({"at": moment}))["at"].dtype
    Datetime(time_unit='us', time_zone='UTC')
    """
    arrow: Any = import_module("pyarrow")
    table = arrow.Table.from_batches([data]) if isinstance(data, arrow.RecordBatch) else data
    for index, entry in enumerate(table.schema):
        if arrow.types.is_timestamp(entry.type) and entry.type.tz is not None:
            instants = table.column(index).cast(arrow.timestamp(entry.type.unit, "UTC"))
            table = table.set_column(index, entry.name, instants)
        elif arrow.types.is_large_string(entry.type) or arrow.types.is_string(entry.type):
            # Files and engines hand over text unchecked, and Polars takes it unchecked.
            text = table.column(index)
            if not _is_text(arrow, text):
                table = table.set_column(index, entry.name, text.cast(_bytes(arrow, entry.type)))
    frame: pl.DataFrame = getattr(pl, "from_arrow")(table)  # noqa: B009
    return frame


def _is_text(arrow: Any, column: Any) -> bool:
    try:
        column.validate(full=True)
    except arrow.ArrowInvalid:
        return False
    return True


def _bytes(arrow: Any, kind: Any) -> Any:
    return arrow.large_binary() if arrow.types.is_large_string(kind) else arrow.binary()
