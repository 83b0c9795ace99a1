"""Tables of releases, made up: no publisher is needed to draw."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray


def table(
    values: NDArray[np.float64],
    names: list[str] | None = None,
    *,
    half: float = 5.0,
    fresh: NDArray[np.bool_] | None = None,
    hours: bool = True,
) -> pl.DataFrame:
    """A tidy table of steps × bins."""
    steps, bins = values.shape
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(hours=t) for t in range(steps)] if hours else list(range(steps))
    step = np.repeat(np.arange(steps), bins)
    columns: dict[str, pl.Series] = {"step": pl.Series(step), "time": pl.Series(times).gather(step)}
    if names is not None:
        columns["place"] = pl.Series(names * steps)
    flat = pl.Series(values.ravel())
    columns |= {"value": flat, "low": flat - half, "high": flat + half}
    columns["fresh"] = pl.Series(np.ones(steps, dtype=np.bool_) if fresh is None else fresh).gather(step)
    return pl.DataFrame(columns)
