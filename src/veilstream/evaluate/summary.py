"""Means over repeated runs, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from scipy.stats import t as student

from veilstream.evaluate.runner import METRIC, VALUE

LEVEL: Final = 0.95
"""Confidence of the interval of a mean."""


def summary(table: pl.DataFrame, by: Sequence[str], metric: str | None = None) -> pl.DataFrame:
    """Mean over all other columns (seeds), with a Student interval at 95 % and the number of runs.

    A single run has no interval: ``low`` and ``high`` are its own value.

    >>> table = pl.DataFrame({"x": [1, 1, 2], "metric": ["mae"] * 3, "value": [1.0, 3.0, 5.0]})
    >>> summary(table, ["x"]).select("x", "mean", "runs").rows()
    [(1, 2.0, 2), (2, 5.0, 1)]
    """
    rows = table if metric is None else table.filter(pl.col(METRIC) == metric)
    means = rows.group_by(list(by), maintain_order=True).agg(
        pl.col(VALUE).mean().alias("mean"),
        (pl.col(VALUE).std() / pl.len().sqrt()).fill_null(0.0).alias("_error"),
        pl.len().cast(pl.Int64).alias("runs"),
    )
    quantiles = np.asarray(student.ppf((1 + LEVEL) / 2, np.maximum(means["runs"].to_numpy() - 1, 1)))
    half = pl.Series("half", quantiles * means["_error"].to_numpy())
    return means.with_columns(low=means["mean"] - half, high=means["mean"] + half).drop("_error")
