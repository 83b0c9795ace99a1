"""Points for the experiments on small moves, and ranges to count them in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from research.workloads.base import generator
from veilstream.errors import InvalidInputError, UnreadableFileError

Reals = NDArray[np.float64]
TAXI_FILE: Final = "tdrive_beijing_2008-02-02_16h.parquet"
GRID_FILE: Final = "dpbench_2d_histograms_sparse.csv.gz"
BOX: Final = (116.2, 116.6, 39.75, 40.05)
"""West, east, south, north of Beijing, in degrees."""
KILOMETRES: Final = (85.3, 111.2)
"""Of a degree of longitude and of latitude there."""
GRID_SIDE: Final = 256


@lru_cache(maxsize=2)
def plane_points(name: str, count: int, seed: int, data: Path | None) -> Reals:
    """Points of the unit square: ``even``, ``clusters`` (50, reflected at the sides), ``taxis``, or a grid of DPBench.

    The sides of the taxis' box are 34.1 and 33.4 km; the longer one is 1. A count of a grid's cell is so many points,
    evenly spread in the cell; ``count`` limits them, by a random choice.
    """
    rng = generator(seed)
    match name:
        case "even":
            return rng.random((count, 2))
        case "clusters":
            centres, spread = rng.random((50, 2)), 0.005 + 0.05 * rng.random(50)
            chance = rng.random(50) ** 2
            which = rng.choice(50, count, p=chance / chance.sum())
            drawn: Reals = centres[which] + rng.normal(size=(count, 2)) * spread[which, None]
            return np.asarray(1 - np.abs(1 - np.abs(drawn)), dtype=np.float64)
        case "taxis":
            return _chosen(_taxis(data), count, rng)
        case _:
            return _chosen(_grid(name, data, rng), count, rng)


def line_points(name: str, count: int, seed: int, data: Path | None) -> Reals:
    """Points of the unit line: ``exponential`` (the largest is 1), ``clusters`` or ``taxis`` (from west to east)."""
    if name == "exponential":
        drawn: Reals = generator(seed).exponential(size=count)
        return np.asarray(drawn / drawn.max(), dtype=np.float64)
    return np.sort(plane_points(name, count, seed, data)[:, 0])


def _chosen(points: Reals, count: int, rng: np.random.Generator) -> Reals:  # noqa: TID251 (a type)
    return points if len(points) <= count else rng.permutation(points)[:count]


def _taxis(data: Path | None) -> Reals:
    west, east, south, north = BOX
    table = pl.read_parquet(_file(data, TAXI_FILE), columns=["lon", "lat"])
    inside = table.filter(pl.col("lon").is_between(west, east) & pl.col("lat").is_between(south, north))
    side = max((east - west) * KILOMETRES[0], (north - south) * KILOMETRES[1])
    x = (inside["lon"].to_numpy() - west) * KILOMETRES[0] / side
    y = (inside["lat"].to_numpy() - south) * KILOMETRES[1] / side
    return np.stack([x, y], axis=1)


def _grid(name: str, data: Path | None, rng: np.random.Generator) -> Reals:  # noqa: TID251 (a type)
    cells = pl.read_csv(_file(data, GRID_FILE)).filter(pl.col("dataset") == name)
    if cells.is_empty():
        raise InvalidInputError(name="points", value=name, limit="no such grid")
    corners = np.repeat(cells.select("row", "col").to_numpy(), cells["count"].cast(pl.Int64).to_numpy(), axis=0)
    return (corners + rng.random(corners.shape)) / GRID_SIDE


def _file(data: Path | None, name: str) -> Path:
    path = None if data is None else data / name
    if path is None or not path.is_file():
        raise UnreadableFileError(f"{name}: there is no such file in the directory of data sets")
    return path


def random_squares(width: float, count: int, seed: int, axes: int = 2) -> tuple[Reals, Reals]:
    """Corners of ``count`` squares (or stretches) of one width, evenly placed in the unit square."""
    low: Reals = generator(seed).random((count, axes)) * (1 - width)
    return low, low + width


def counts_in(points: Reals, low: Reals, high: Reals) -> NDArray[np.int64]:
    """How many points lie in each box low ≤ x < high.

    >>> counts_in(np.array([[0.1, 0.2], [0.4, 0.9]]), np.array([[0.0, 0.0]]), np.array([[0.5, 0.5]])).tolist()
    [1]
    """
    ordered = points[np.argsort(points[:, 0])]
    first, last = (np.searchsorted(ordered[:, 0], corner[:, 0]) for corner in (low, high))
    if points.shape[1] == 1:
        return np.asarray(last - first, dtype=np.int64)
    return np.array(
        [
            int(((ordered[a:b, 1] >= bottom) & (ordered[a:b, 1] < top)).sum())
            for a, b, bottom, top in zip(first, last, low[:, 1], high[:, 1], strict=True)
        ],
        dtype=np.int64,
    )


def mean_squares(answers: Sequence[Reals], truths: Sequence[NDArray[np.int64]]) -> list[float]:
    """Mean squared errors, one for each set of answers."""
    return [float(np.square(answer - truth).mean()) for answer, truth in zip(answers, truths, strict=True)]
