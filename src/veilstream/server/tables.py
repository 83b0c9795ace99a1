"""Releases as tables: one row per step, bin and measure, in CSV, Parquet or Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.server.board import StreamBoard
from veilstream.server.shown import Shown

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CSV, PARQUET, ARROW = "text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"


def table(board: StreamBoard, releases: list[Shown]) -> pl.DataFrame:
    """Columns: step, time, one per attribute, measure (where columns are measured), value, low, high, fresh, covers
    (what low and high hold), as_of (of which step)."""
    definition, measures = board.definition, board.definition.measures
    labels, bins, series = definition.bound_domain.labels(), definition.bins, board.series
    steps = np.array([one.step for one in releases], dtype=np.int64)
    begins: list[Any] = [definition.timetable.begins(one.step) for one in releases]
    if isinstance(definition.every, str):
        begins = [EPOCH + timedelta(microseconds=tick) for tick in begins]
    repeated = np.repeat(np.arange(len(releases)), series)
    times = pl.Series("time", begins, dtype=None if begins else pl.Datetime("us", "UTC"))
    columns: dict[str, pl.Series] = {"step": pl.Series(steps[repeated]), "time": times.gather(repeated)}
    for name in labels.columns:
        columns[name] = labels[name].gather(np.tile(np.arange(bins), len(repeated) // bins))
    if measures is not None:
        named = np.tile(np.repeat(np.arange(len(measures.labels)), bins), len(releases))
        columns["measure"] = pl.Series(measures.labels).gather(named)
    columns["value"] = pl.Series(_joined([one.values for one in releases]), nan_to_null=True)
    columns |= {name: pl.Series(_joined([getattr(one, name) for one in releases])) for name in ("low", "high")}
    columns["fresh"] = pl.Series([one.fresh for one in releases], dtype=pl.Boolean).gather(repeated)
    columns["covers"] = pl.Series([one.covers for one in releases], dtype=pl.String).gather(repeated)
    columns["as_of"] = pl.Series([one.as_of for one in releases], dtype=pl.Int64).gather(repeated)
    return pl.DataFrame(columns)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0)


def write(frame: pl.DataFrame, kind: str) -> bytes:
    """The table as bytes of the media type ``kind``."""
    file = BytesIO()
    if kind == CSV:
        frame.write_csv(file, datetime_format="%Y-%m-%dT%H:%M:%S%:z")
    elif kind == PARQUET:
        frame.write_parquet(file)
    else:
        ipc: Any = import_module("pyarrow").ipc
        found: Any = getattr(frame, "to_arrow")()  # noqa: B009
        with ipc.new_stream(file, found.schema) as writer:
            writer.write_table(found)
    return file.getvalue()
