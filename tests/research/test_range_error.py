"""The error of range counts is that of sums over slices, whatever is kept or left out on the way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from research.grid import exact_twin, stream_measurements
from research.range_error import RangeError
from research.workloads import Zipf
from veilstream.errors import InvalidInputError
from veilstream.evaluate.metrics import mean_absolute_error

SHAPE = (3, 4)


def stream(seed: int) -> NDArray[np.float64]:
    return np.stack([np.arange(12.0) * seed % 7 + step // 3 for step in range(9)])


def by_slices(error: RangeError, released: NDArray[np.float64], original: NDArray[np.float64]) -> float:
    found: list[float] = []
    for low, high in zip(error.ranges().low, error.ranges().high, strict=True):
        box = np.s_[:, low[0] : high[0], low[1] : high[1]]
        r, x = (values.reshape(-1, *SHAPE)[box].sum(axis=(1, 2)) for values in (released, original))
        size = 1 if error.bound is None else np.maximum(x, error.bound)
        found.append(float((np.abs(r - x) / size).mean()))
    return float(np.mean(found))


@pytest.mark.parametrize("bound", [None, 1.0, 50.0])
@pytest.mark.parametrize("volume", [None, "1/4"])
def test_it_is_the_mean_over_ranges_and_steps(bound: float | None, volume: str | None) -> None:
    error = RangeError(SHAPE, queries=40, volume=volume, bound=bound)
    original = stream(3)
    for released in (stream(5), stream(4) + 0.25):
        assert error(released, original) == pytest.approx(by_slices(error, released, original))
    other = stream(2)
    assert error(original, other) == pytest.approx(by_slices(error, original, other))


def test_misuse_gets_clear_errors() -> None:
    with pytest.raises(InvalidInputError, match="queries 0"):
        RangeError(SHAPE, queries=0)
    with pytest.raises(InvalidInputError, match="bound 0"):
        RangeError(SHAPE, bound=0.0)
    with pytest.raises(InvalidInputError, match="the same steps × bins"):
        RangeError(SHAPE)(stream(1), stream(1)[:3])


def test_twins_have_the_same_schedule_and_no_noise() -> None:
    workload = Zipf(steps=12, bins=5)
    (measurement,) = stream_measurements(
        {"sample": vs.STREAMS["sample"]()},
        [vs.Guarantee("1/1000", w=4)],
        {"zipf": workload},
        [3],
        {"mae": mean_absolute_error},
        twins=True,
    )
    found = measurement.call(*measurement.arguments)
    original = np.stack(list(workload.snapshots(3))).astype(np.float64)
    fresh = np.arange(12) % 4 == 0
    assert found["mae (exact)"] == pytest.approx(mean_absolute_error(exact_twin(fresh, original), original))
    assert found["mae"] > 10 * found["mae (exact)"]
