"""Steps along all axes of a table: nothing but noise is taken away, stripes are seen, and tables do not mix."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.mechanisms.histograms import Haar
from veilstream.mechanisms.histograms import _axes as axes
from veilstream.mechanisms.histograms._axes import has_bands, smoothed_axes

from .support import release

Reals = NDArray[np.float64]
SHAPES = [(8, 8), (5, 7), (16, 3), (6, 4, 9), (1, 9), (64, 64)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("most_steps", [1, 1 << 10, 1 << 24])
def test_what_is_no_noise_stays(shape: tuple[int, ...], most_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all offsets are looked at or only some."""
    monkeypatch.setattr(axes, "MOST_STEPS", most_steps)
    table = np.random.default_rng(1).integers(0, 1000, math.prod(shape)).astype(np.float64)  # noqa: TID251 (made-up data)
    assert np.allclose(smoothed_axes(table, shape, 1e-9), table, atol=1e-6)
    assert (smoothed_axes(table, shape, 0.0) == table).all()


@pytest.mark.parametrize("shape", [(8, 8), (16, 4), (4, 2, 8)])
@pytest.mark.parametrize("most_steps", [1, 1 << 24])
def test_the_wavelets_of_a_band_have_the_noise_that_is_stated(
    shape: tuple[int, ...], most_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their mean square in 4,000 tables of noise: a standard error is 2.3% at most, and the bounds are beyond 10."""
    monkeypatch.setattr(axes, "MOST_STEPS", most_steps)
    squares: list[float] = []

    def noted(values: Reals, std: float, level: int) -> Reals:
        squares.append(float(np.square(values).mean()) * 2**level / std**2)
        return values

    monkeypatch.setattr(axes, "_of_band", noted)
    noise = np.random.default_rng(2).normal(size=(4000, math.prod(shape)))  # noqa: TID251 (made-up data)
    assert np.allclose(smoothed_axes(noise, shape, 1.0), noise)
    squares.remove(min(squares))  # of the mean of all cells, which is taken out before
    assert len(squares) == math.prod(size.bit_length() for size in shape) - 1
    assert all(0.75 < square < 1.25 for square in squares)


def test_every_table_is_smoothed_by_itself() -> None:
    rng = np.random.default_rng(3)  # noqa: TID251 (made-up data)
    tables = rng.laplace(0, 1, (3, 16 * 16)) + np.array([[0.0], [5.0], [50.0]]) * rng.integers(0, 2, 16 * 16)
    together = smoothed_axes(tables, (16, 16), 2**0.5)
    for table, found in zip(tables, together, strict=True):
        assert np.allclose(smoothed_axes(table, (16, 16), 2**0.5), found)


def test_stripes_are_seen_whichever_way_they_run() -> None:
    """Every fourth row or column of 64 holds 40 in each cell, at ε = 1/10: no draw of 20 comes near the limits."""
    stripes = np.zeros((64, 64), dtype=np.int64)
    stripes[::4] = 40
    for table in (stripes, stripes.T):
        counts = np.ascontiguousarray(table).reshape(-1)
        errors = {
            method: np.mean(
                [
                    np.abs(release(method, counts, "1/10", seed, shape=(64, 64)).numbers - counts).mean()
                    for seed in range(5)
                ]
            )
            for method in (Haar(), Haar(order="z"))
        }
        assert errors[Haar()] < errors[Haar(order="z")] / 2


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((4096,), False),
        ((1, 4096), False),
        ((8, 8), True),
        ((2,) * 12, False),
        ((4,) * 10, False),
        ((1000, 1000), True),
    ],
)
def test_tables_with_too_little_in_a_band_have_none(shape: tuple[int, ...], expected: bool) -> None:
    assert has_bands(shape) is expected
