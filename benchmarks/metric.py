"""Points that move little: time and error of medians, sorted points and grids against named peers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
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

Reals = NDArray[np.float64]
LINE: Final = Space(0, 1)
SQUARE: Final = Space((0, 0), (1, 1))
RUNS: Final = 200


def run() -> Sequence[Table]:
    """All tables of the suite."""
    return [_medians(), _times()]


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
