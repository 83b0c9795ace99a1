"""Released points as tables, with intervals where there are any."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from veilstream.metric import ChosenMedian, HatGrid, MetricGuarantee, PointMechanism, nodes
from veilstream.values.release import Release

PRIVATE_WIDTH: Final = "the width of this median's noise depends on the points and is not told, so it has no interval"
OWN_NAME: Final = "a coordinate is called low, high or covers, so there is no room for the columns of an interval"


def grid_cells(mechanism: PointMechanism, guarantee: MetricGuarantee, count: int) -> int | None:
    return mechanism.cells_for(guarantee, count) if isinstance(mechanism, HatGrid) else None


def points_table(
    kind: str, release: Release, guarantee: MetricGuarantee, at: list[str], cells: int | None
) -> pl.DataFrame:
    """One row per sorted point, per node of the grid, or the median alone."""

    values = pl.Series("points" if kind == "grid" else at[0], np.asarray(release.values, dtype=np.float64))
    if cells is None:
        ranks = pl.Series("rank", np.arange(1, len(values) + 1))
        return pl.DataFrame([ranks, values]) if kind == "sorted" else pl.DataFrame([values])
    shape = nodes(guarantee.space, cells)
    spacing = max(guarantee.space.extents) / cells
    index = np.indices(shape).reshape(len(shape), -1)
    columns = [
        pl.Series(name, float(start) + along * float(spacing))
        for name, start, along in zip(at, guarantee.space.low, index, strict=True)
    ]
    return pl.DataFrame([*columns, values])


def with_intervals(
    table: pl.DataFrame,
    mechanism: PointMechanism,
    release: Release,
    guarantee: MetricGuarantee,
    count: int,
    level: float,
) -> pl.DataFrame:
    """The table with intervals of the noise, or of a median's rank; noise of a private width has none."""

    if {"low", "high", "covers"} & set(table.columns):
        # A coordinate has such a name, and keeps it.
        return table
    if isinstance(mechanism, ChosenMedian):
        low, high = mechanism.ranks(guarantee, count, level)
        return table.with_columns(
            pl.lit(low).alias("low"), pl.lit(high).alias("high"), pl.lit("rank among the points").alias("covers")
        )
    if np.isnan(np.asarray(release.std, dtype=np.float64)).any():
        return table
    low_ends, high_ends = release.interval(level)
    return table.with_columns(
        pl.Series("low", low_ends), pl.Series("high", high_ends), pl.lit(release.covers).alias("covers")
    )


def why_no_interval(table: pl.DataFrame, release: Release) -> str | None:
    """Why the numbers of a table have no interval; None where they have one."""
    if {"low", "high", "covers"} <= set(table.columns):
        return None
    return PRIVATE_WIDTH if np.isnan(np.asarray(release.std, dtype=np.float64)).any() else OWN_NAME
