"""Real series for experiments, read from a directory that the caller names; none of them is part of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.errors import BrokenFile, InvalidInput

FLU_WEEKS: Final = 209


def flu_5_24(directory: Path) -> NDArray[np.int64]:
    """Weekly outpatients with influenza-like illness aged 5 to 24 in the United States, 209 weeks from 2006 week 40."""
    table = _read(directory / "ilinet_national_weekly.csv.gz")
    rows = table.filter((pl.col("year") > 2006) | ((pl.col("year") == 2006) & (pl.col("week") >= 40)))
    return _counts(rows.sort("year", "week")["age_5_24"].head(FLU_WEEKS), FLU_WEEKS)


def unemployment(directory: Path, level: str = "UNEMPLOY") -> NDArray[np.int64]:
    """Unemployed people in the United States in thousands, monthly; ``level`` names the series.

    The paper's series (African American women aged 16 to 19) is not among them.
    """
    column = _read(directory / "fred_unemployment_levels_monthly.csv.gz")
    if level not in column.columns:
        raise InvalidInput(f"level {level!r}: no such series of unemployment; nothing was read")
    known = column[level].drop_nulls()
    return _counts(known, len(known))


def seattle_bikes(directory: Path) -> NDArray[np.int64]:
    """Bicycles over Fremont Bridge in Seattle per whole day; hours without a count add nothing."""
    table = _read(directory / "seattle_fremont_bridge_bikes_hourly.csv.gz")
    time, *counters = table.columns
    days = (
        table.with_columns(pl.col(time).cast(pl.String).str.slice(0, 10).alias("day"))
        .group_by("day")
        .agg(pl.sum_horizontal(pl.col(counters).cast(pl.Float64).fill_nan(None).fill_null(0)).sum().alias("bikes"))
        .sort("day")
    )
    return _counts(days["bikes"], len(days))


def _read(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise BrokenFile(f"{path.name}: there is no such file in the directory of data sets; nothing was read")
    return pl.read_csv(path, infer_schema_length=None)


def _counts(column: pl.Series, length: int) -> NDArray[np.int64]:
    numbers: NDArray[np.float64] = column.cast(pl.Float64).to_numpy()
    if numbers.size != length or not np.isfinite(numbers).all():
        raise BrokenFile(f"series '{column.name}': {numbers.size} values, {length} whole ones are needed; stopped")
    whole: NDArray[np.int64] = np.rint(numbers).astype(np.int64)
    return whole[:, None]
