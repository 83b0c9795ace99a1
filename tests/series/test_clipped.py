"""Sums and averages of clipped values: the person's share attacked, the numbers and their noise as promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.streams import Fast, Uniform
from veilstream.series.clipped import ClippedValues

BOUNDS = st.tuples(st.integers(-1_000, 1_000), st.integers(1, 2_000)).map(lambda b: (b[0], b[0] + b[1]))


@given(BOUNDS, st.integers(1, 5_000), st.lists(st.floats(-1e6, 1e6), max_size=8), st.floats(allow_nan=False))
def test_one_person_more_moves_the_counts_by_exactly_l1(
    bounds: tuple[int, int], resolution: int, values: list[float], extra: float
) -> None:
    clipped = ClippedValues(*bounds, resolution)
    moved = clipped.encode([*values, extra]) - clipped.encode(values)
    assert (moved >= 0).all()
    assert moved.sum() == clipped.max_contribution


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(-1e9, 1e9)), max_size=30),
    st.sampled_from(["sum", "mean"]),
)
def test_all_rows_of_one_person_move_a_step_by_at_most_l1(rows: list[tuple[int, int, float]], combine: Any) -> None:
    clipped = ClippedValues(-3, 7, 100)

    def encoded(kept: list[tuple[int, int, float]]) -> Any:
        users, steps, values = ([row[i] for row in kept] for i in range(3))
        whole = np.array(steps, dtype=np.int64)
        return clipped.encode_events(np.array(users, dtype=np.int64), whole, values, 5, combine)

    moved = encoded(rows) - encoded([row for row in rows if row[0] != 2])
    assert (np.abs(moved).sum(axis=1) <= clipped.max_contribution).all()


def test_numbers_come_back_to_within_the_grid() -> None:
    clipped = ClippedValues(-10, 40)
    values = np.linspace(-30, 60, 501)
    totals = clipped.decode_numbers(clipped.encode(values))
    inside = np.clip(values, -10, 40)
    assert totals.count == 501
    assert totals.sum == pytest.approx(inside.sum(), abs=501 * 50 / 2_000)
    assert totals.mean == pytest.approx(inside.mean(), abs=50 / 2_000)


def test_noise_of_count_sum_and_average_is_as_told() -> None:
    """200,000 steps' noise by batch: standard deviations within 6 standard errors of at most 0.5 %."""
    clipped = ClippedValues(10, 50)
    snapshots = np.tile(clipped.encode(np.full(2_000, 25.0)), (100, 1))
    y = vs.simulate_many(
        Uniform(), vs.Guarantee(1, w=5), snapshots, seed=3, runs=2_000, max_contribution=clipped.max_contribution
    )
    totals = clipped.decode_numbers(np.asarray(y), y.noise_std[0])
    for name in ("count", "sum", "mean"):
        told = getattr(totals, f"{name}_std").mean()
        assert np.std(getattr(totals, name)) == pytest.approx(told, rel=0.03)
    assert totals.mean.mean() == pytest.approx(25, abs=0.05)


def test_a_filtered_average_follows_the_values() -> None:
    clipped = ClippedValues(0, 100)
    speeds = np.repeat([30.0, 60.0], 100)
    snapshots = np.stack([clipped.encode(np.full(3_000, speed)) for speed in speeds])
    y = vs.simulate(
        Fast(horizon=200), vs.Guarantee(1, w=None), snapshots, seed=1, max_contribution=clipped.max_contribution
    )
    mean = clipped.decode_numbers(np.asarray(y)).mean
    assert np.abs(mean[20:90] - 30).max() < 6
    assert np.abs(mean[150:] - 60).max() < 6


def test_few_people_give_an_average_within_the_bounds() -> None:
    clipped = ClippedValues(0, 1)
    totals = clipped.decode_numbers(np.array([[-900, 4_000], [0, 0], [500, -7_000]]), 400.0)
    assert ((totals.mean >= 0) & (totals.mean <= 1)).all()
    assert np.isfinite(totals.mean_std).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ClippedValues(5, 5), "low must be below high"),
        (lambda: ClippedValues(0, float("nan")), "high nan"),
        (lambda: ClippedValues(0, 1, 0), "resolution 0"),
        (lambda: ClippedValues(0, 1).encode([0.5, float("nan")]), "NaN"),
        (lambda: ClippedValues(0, 1).encode_events([1], [9], [0.5], 9), "from 0 to 8"),
        (lambda: ClippedValues(0, 1).encode_events(["a"], [None], [0.5], 9), "missing"),
        (lambda: ClippedValues(0, 1).decode_numbers(np.zeros(3)), "two counts"),
    ],
    ids=range(7),
)
def test_bad_input_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()
