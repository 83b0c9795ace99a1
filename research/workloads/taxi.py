"""Taxis on a grid, from a file of positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from research.workloads.base import Counts, at_least, generator
from veilstream.errors import InvalidInputError, UnreadableFileError

BEIJING = (116.2, 116.6, 39.8, 40.05)
"""West, east, south, north: within the fifth ring road and a little more."""


@dataclass(frozen=True, slots=True)
class TaxiGrid:
    """How many taxis are in each cell of a ``side`` × ``side`` grid, step by step.

    ``path`` is a Parquet file with columns ``taxi``, time, lon and lat (T-Drive, Geolife). A taxi counts once a step,
    where it was last seen, and not before it was first seen; fixes outside the ``box`` place it nowhere.

    The paper: one week of 10,357 taxis by hours on 10 × 10 cells, "amplified" to 110,357 with dummy points at sparse
    times and places. Assumed: ``amplify`` = k stands for k taxis, the others at a Gaussian distance of ``spread`` cells
    from the first, the same for each of them at all times; nothing is added where there was no taxi.

    Li, Xiong, Jiang, Liu, CIKM 2015, section 7.1; data of Yuan et al.: T-Drive, 2010.
    """

    path: Path
    side: int = 10
    every: str = "1m"
    amplify: int = 1
    spread: float = 0.5
    taxi: str = "taxi_id"
    box: tuple[float, float, float, float] = BEIJING

    def __post_init__(self) -> None:
        at_least(self.side, 1, "side")
        at_least(self.amplify, 1, "amplify")
        west, east, south, north = self.box
        if not (west < east and south < north):
            raise InvalidInputError(name="box", value=self.box, limit="west < east and south < north are needed")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.side, self.side)

    @property
    def steps(self) -> int:
        return self._fixes()["step"].n_unique()

    def snapshots(self, seed: int) -> Iterator[Counts]:
        rng = generator(seed)
        fixes = self._fixes()
        taxis = fixes["taxi"].drop_nulls().unique().sort()
        column, row = (np.full((taxis.len(), self.amplify), np.nan) for _ in range(2))
        away = rng.normal(scale=self.spread, size=(2, taxis.len(), self.amplify))
        away[:, :, 0] = 0
        for _, step in fixes.group_by("step", maintain_order=True):
            group = step.drop_nulls("taxi")
            who = taxis.search_sorted(group["taxi"]).to_numpy()
            column[who] = group["column"].to_numpy()[:, None] + away[0, who]
            row[who] = group["row"].to_numpy()[:, None] + away[1, who]
            with np.errstate(invalid="ignore"):
                inside = (column >= 0) & (column < self.side) & (row >= 0) & (row < self.side)
            cells = row[inside].astype(np.int64) * self.side + column[inside].astype(np.int64)
            yield np.bincount(cells, minlength=self.side**2).astype(np.int64)

    def _fixes(self) -> pl.DataFrame:
        """The last fix of every taxi in every step, in cells of the grid; steps without any keep an empty place."""
        try:
            read = pl.read_parquet(self.path, columns=[self.taxi, "time", "lon", "lat"])
        except (OSError, pl.exceptions.PolarsError):
            raise UnreadableFileError(
                f"{self.path.name}: not a Parquet file with columns {self.taxi}, time, lon, lat"
            ) from None
        west, east, south, north = self.box
        last = (
            read.select(
                pl.col(self.taxi).alias("taxi"),
                pl.col("time").dt.truncate(self.every).alias("step"),
                pl.col("time"),
                ((pl.col("lon") - west) / (east - west) * self.side).alias("column"),
                ((pl.col("lat") - south) / (north - south) * self.side).alias("row"),
            )
            .sort("time")
            .group_by("step", "taxi", maintain_order=True)
            .last()
        )
        steps = last.select(pl.datetime_range(pl.col("step").min(), pl.col("step").max(), self.every).alias("step"))
        steps = steps.with_columns(pl.col("step").cast(last.schema["step"])).with_row_index("number")
        joined = steps.join(last, on="step", how="left", maintain_order="left")
        return joined.select(pl.col("number").cast(pl.Int64).alias("step"), "taxi", "column", "row")
