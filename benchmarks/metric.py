"""Points that move little: time and error of medians, sorted points and grids against named peers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.report import Table, best_seconds, progress
from veilstream.metric import (
    ChosenMedian,
    GridRanges,
    HatGrid,
    MetricGuarantee,
    PointMechanism,
    SmoothMedian,
    SortedPoints,
    Space,
    simulate_points,
)
from veilstream.metric.grid import best_grid

Reals = NDArray[np.float64]
LINE: Final = Space(0, 1)
SQUARE: Final = Space((0, 0), (1, 1))
RUNS: Final = 200
PLACES: Final = 24
ROOM: Final = 0.05
RANGES: Final = 300
RANGE_SIDE: Final = 0.1
NOISES: Final[tuple[Literal["flow", "nodes", "cells"] | None, ...]] = (None, "flow", "nodes", "cells")
PLAIN_CELLS: Final = (10, 20, 40, 80, 160, 320)
DATA: Final = Path(os.environ.get("VEILSTREAM_DATA", "."))


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [_medians(), *_ranges(), _times()]


def _points(count: int, axes: int = 1) -> Reals:
    # Public points for a measurement; nothing is released.
    drawn: Reals = np.random.default_rng(7).beta(2, 5, size=(count, axes))  # noqa: TID251
    return drawn


def _peer_median(points: Reals, epsilon: float, seed: int) -> float:
    tools: Any = import_module("diffprivlib.tools")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(tools.median(points, epsilon=epsilon, bounds=(0.0, 1.0), random_state=seed))


def _error(points: Reals, draw: Callable[[int], float]) -> float:
    truth = float(np.sort(points)[(points.size + 1) // 2 - 1])
    return float(np.median([abs(draw(seed) - truth) for seed in range(RUNS)]))


def _drawn(mechanism: PointMechanism, guarantee: MetricGuarantee, points: Reals, seed: int) -> float:
    return float(simulate_points(mechanism, guarantee, points, seed).numbers[0])


def _medians() -> Table:
    rows: list[list[str]] = []
    for count in (31, 101, 1001):
        points = _points(count)[:, 0]
        for epsilon in (0.1, 1.0):
            cells = [str(count), f"{epsilon:g}"]
            for mechanism in (SmoothMedian(), ChosenMedian()):
                for distance in ("1", "0.1", "0.01", "0.001"):
                    guarantee = MetricGuarantee(epsilon, distance, LINE)
                    cells.append(f"{_error(points, partial(_drawn, mechanism, guarantee, points)):.2g}")
            cells.append(f"{_error(points, partial(_peer_median, points, epsilon)):.2g}")
            rows.append(cells)
            progress("median " + ", ".join(cells))
    return Table(
        title="Median absolute error of a private median",
        notes=(
            f"Beta(2, 5) points on [0, 1], {RUNS} draws each. δ = 1 is the standard guarantee, for which the peer is "
            "`diffprivlib.tools.median` (exponential mechanism over the gaps between points; its guarantee is of the "
            "same kind, a replaced person). The exponential mechanism is nearer than Cauchy noise of smooth "
            "sensitivity in almost every cell; both gain from small moves."
        ),
        columns=[
            "points",
            "ε",
            *(f"SmoothMedian δ={d}" for d in ("1", "0.1", "0.01", "0.001")),
            *(f"ChosenMedian δ={d}" for d in ("1", "0.1", "0.01", "0.001")),
            "diffprivlib",
        ],
        rows=rows,
    )


def _isotonic_peer(points: Reals, seed: int) -> Any:
    isotonic: Any = import_module("sklearn.isotonic")
    # The peer's noise is for a measurement of time; nothing is released.
    noisy = np.sort(points) + np.random.default_rng(seed).laplace(0, 0.001, points.size)  # noqa: TID251
    return isotonic.IsotonicRegression().fit_transform(np.arange(points.size), noisy)


def _grid(points: Reals, guarantee: MetricGuarantee, cells: int, low: Reals, high: Reals) -> Reals:
    values = simulate_points(HatGrid(cells), guarantee, points, 1)
    return GridRanges(values.numbers, SQUARE, cells).count(low, high)


def _grid_peer(points: Reals, cells: int, low: Reals, high: Reals) -> Reals:
    counts = np.histogram2d(points[:, 0], points[:, 1], bins=cells, range=[[0, 1], [0, 1]])[0]
    # The peer's noise is for a measurement of time; nothing is released.
    noisy = counts + np.random.default_rng(1).laplace(0, 1, counts.shape)  # noqa: TID251
    return GridRanges(noisy.reshape(-1), SQUARE, cells, plain=True).count(low, high)


def _ranges() -> Sequence[Table]:
    """Errors of counts in ranges by δ against the plain histogram, which keeps the same promise."""
    rows: list[list[str]] = []
    # Queries and points of a measurement; nothing is released.
    rng = np.random.default_rng(3)  # noqa: TID251
    for name, everything in _plane_points().items():
        for count in (10_000, 100_000):
            placed = [_placed(everything[rng.choice(len(everything), count)], rng) for _ in range(PLACES)]
            public = best_grid(MetricGuarantee(1, "1.4", SQUARE), count, "cells")[0]
            plain = {cells: _over_places(placed, partial(_plain_answers, cells)) for cells in (public, *PLAIN_CELLS)}
            for distance in ("0.001", "0.005", "0.01", "0.02", "0.05", "0.1"):
                guarantee = MetricGuarantee(1, distance, SQUARE)
                own = [_over_places(placed, partial(_grid_answers, noise, guarantee)) for noise in NOISES]
                cells, noise = best_grid(guarantee, count)
                measured = [*own, plain[public], min(plain[cells] for cells in PLAIN_CELLS)]
                rows.append(
                    [name, f"{count:,}", distance, f"{noise}, {cells}", *(f"{error:.1f}" for error in measured)]
                )
                progress("ranges " + ", ".join(rows[-1]))
    if not rows:
        return []
    return [
        Table(
            title="Counts in ranges, by the distance that is protected",
            notes=(
                f"Root mean square error of {RANGES} random squares of {RANGE_SIDE:g} of the side at ε = 1, over "
                f"{PLACES} samples of the points, each with the map moved by up to {ROOM:g} of the side: at a single "
                "place it is chance whether borders of cells divide the most crowded spots, and either grid may be "
                "ahead. Distances are shares of the side, which is 50 km for the taxis: 0.01 is 500 m. `HatGrid` takes "
                "noise on edges (flow) or counts in the cells around nodes (cells), and their number, from public "
                "numbers; nodes is noise on nodes among which points are shared out. `plain` is the standard histogram "
                "for a replaced person, Lap(2/ε) and shifted to the public total, with the number of cells that the "
                "same public rule gives (its borders are where the nodes of cells are), and with the best of "
                f"{', '.join(map(str, PLAIN_CELLS))} in hindsight, which nobody knows beforehand."
            ),
            columns=["points", "number", "δ", "chosen", "HatGrid", "flow", "nodes", "cells", "plain", "plain, best"],
            rows=rows,
        )
    ]


def _plane_points() -> dict[str, Reals]:
    """Taxis of Beijing, check-ins and tweets (GOWALLA, TWITTER of DPBench) in a unit square: what is there."""
    # Points for a measurement; nothing is released.
    rng = np.random.default_rng(4)  # noqa: TID251
    found: dict[str, Reals] = {}
    path = DATA / "tdrive_beijing_2008-02-02_16h.parquet"
    if path.exists():
        table = pl.read_parquet(path, columns=["lon", "lat"])
        east = (table["lon"].to_numpy() - 116.1) / 0.585
        north = (table["lat"].to_numpy() - 39.7) / 0.45
        both = np.stack([east, north], axis=1)
        found["taxis"] = both[((both >= 0) & (both < 1)).all(axis=1)]
    path = DATA / "dpbench_2d_histograms_sparse.csv.gz"
    if path.exists():
        for name, dataset in (("check-ins", "GOWALLA"), ("tweets", "TWITTER")):
            cells = pl.read_csv(path).filter(pl.col("dataset") == dataset)
            corner = np.repeat(cells.select("row", "col").to_numpy(), cells["count"].cast(pl.Int64).to_numpy(), axis=0)
            found[name] = (corner + rng.random(corner.shape)) / 256
    return found


@dataclass(frozen=True, slots=True)
class _Placed:
    """Points somewhere in the square, ranges, and how many points are in each."""

    points: Reals
    low: Reals
    truth: Reals


def _placed(points: Reals, rng: np.random.Generator) -> _Placed:  # noqa: TID251 (a type)
    """The map a little smaller and somewhere else, so that no grid is lucky with where its borders are."""
    there = points * (1 - ROOM) + rng.random(2) * ROOM
    low = rng.random((RANGES, 2)) * (1 - RANGE_SIDE)
    truth = [((there >= a) & (there < a + RANGE_SIDE)).all(axis=1).sum() for a in low]
    return _Placed(there, low, np.array(truth, dtype=np.float64))


def _over_places(placed: Sequence[_Placed], answers: Callable[[_Placed, int], Reals]) -> float:
    """Root mean square error of one release at every place."""
    squares = [np.mean(np.square(answers(one, seed) - one.truth)) for seed, one in enumerate(placed)]
    return float(np.sqrt(np.mean(squares)))


def _plain_answers(cells: int, placed: _Placed, seed: int) -> Reals:
    x, y = placed.points.T
    counts = np.histogram2d(x, y, bins=cells, range=[[0, 1], [0, 1]])[0].reshape(-1)
    # The peer's noise is for a measurement; nothing is released.
    noisy = counts + np.random.default_rng((5, seed)).laplace(0, 2, counts.size)  # noqa: TID251
    noisy += (counts.sum() - noisy.sum()) / counts.size
    return GridRanges(noisy, SQUARE, cells, plain=True).count(placed.low, placed.low + RANGE_SIDE)


def _grid_answers(
    noise: Literal["flow", "nodes", "cells"] | None, guarantee: MetricGuarantee, placed: _Placed, seed: int
) -> Reals:
    grid = HatGrid(noise=noise)
    cells = grid.cells_for(guarantee, len(placed.points))
    values = simulate_points(grid, guarantee, placed.points, seed).numbers
    return GridRanges(values, SQUARE, cells).count(placed.low, placed.low + RANGE_SIDE)


def _times() -> Table:
    line, plane = _points(1_000_000)[:, 0], _points(1_000_000, 2)
    on_line, in_plane = MetricGuarantee(1, "0.001", LINE), MetricGuarantee(1, "0.001", SQUARE)
    corners = _points(1000, 2) / 2
    far = corners + 0.2
    median = partial(_peer_median, line, 1.0, 1)
    cases: list[tuple[str, Callable[[], object], str, Callable[[], object]]] = [
        (
            "SmoothMedian, 10⁶ points",
            partial(simulate_points, SmoothMedian(), on_line, line, 1),
            "diffprivlib.tools.median",
            median,
        ),
        (
            "ChosenMedian, 10⁶ points",
            partial(simulate_points, ChosenMedian(), on_line, line, 1),
            "diffprivlib.tools.median",
            median,
        ),
        (
            "SortedPoints, 10⁶ points",
            partial(simulate_points, SortedPoints(), on_line, line, 1),
            "numpy noise, sklearn.isotonic",
            partial(_isotonic_peer, line, 1),
        ),
        (
            "HatGrid, 10⁶ points, 500 × 500 cells, 1,000 ranges",
            partial(_grid, plane, in_plane, 500, corners, far),
            "numpy.histogram2d, numpy noise",
            partial(_grid_peer, plane, 500, corners, far),
        ),
    ]
    rows: list[list[str]] = []
    for name, own, peer, other in cases:
        mine, theirs = best_seconds(own, 3), best_seconds(other, 3)
        rows.append([name, f"{mine:.2f}", peer, f"{theirs:.2f}", f"{mine / theirs:.2f}×"])
        progress("time " + ", ".join(rows[-1]))
    return Table(
        title="Time of a release",
        notes="Everything from floats to answers; ours with exact noise, the peers' noise is ordinary floating point.",
        columns=["release", "seconds", "peer", "its seconds", "ours / peer"],
        rows=rows,
    )
