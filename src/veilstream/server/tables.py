"""Releases as tables: one row per step and bin, in CSV, Parquet or Arrow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO
from typing import Any, Final

import numpy as np
import polars as pl

from veilstream.server.board import Shown, StreamBoard

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
CSV, PARQUET, ARROW = "text/csv", "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"


def table(board: StreamBoard, releases: list[Shown]) -> pl.DataFrame:
    """Columns: step, time, one per attribute, value, low, high, fresh, covers (what low and high hold), as_of
    (of which step)."""
    definition = board.definition
    labels, bins = definition.bound_domain.labels(), definition.bins
    steps = np.array([one.step for one in releases], dtype=np.int64)
    begins: list[Any] = [definition.timetable.begins(one.step) for one in releases]
    if isinstance(definition.every, str):
        begins = [EPOCH + timedelta(microseconds=tick) for tick in begins]
    repeated = np.repeat(np.arange(len(releases)), bins)
    times = pl.Series("time", begins, dtype=None if begins else pl.Datetime("us", "UTC"))
    columns: dict[str, pl.Series] = {"step": pl.Series(steps[repeated]), "time": times.gather(repeated)}
    for name in labels.columns:
        columns[name] = labels[name].gather(np.tile(np.arange(bins), len(releases)))
    values = np.concatenate([one.values for one in releases]) if releases else np.zeros(0)
    half = np.concatenate([np.broadcast_to(one.half, bins) for one in releases]) if releases else np.zeros(0)
    columns |= {"value": pl.Series(values), "low": pl.Series(values - half), "high": pl.Series(values + half)}
    columns["fresh"] = pl.Series([one.fresh for one in releases], dtype=pl.Boolean).gather(repeated)
    columns["covers"] = pl.Series([one.covers for one in releases], dtype=pl.String).gather(repeated)
    columns["as_of"] = pl.Series([one.as_of for one in releases], dtype=pl.Int64).gather(repeated)
    return pl.DataFrame(columns)


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
