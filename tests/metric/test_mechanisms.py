"""Sorted points, medians and grids of points: what a user relies on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.metric.support import uniform_points
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.identity import describe, recognises
from veilstream.metric import (
    ChosenMedian,
    GridRanges,
    HatGrid,
    MetricGuarantee,
    SmoothMedian,
    SortedPoints,
    Space,
    best_grid,
    count_between,
    nodes,
    release_points,
    simulate_points,
)
from veilstream.metric.release import PointRelease
from veilstream.noise import ExactSampler
from veilstream.noise.spread import laplace_std
from veilstream.privacy.accountant import Accountant
from veilstream.storage.ledger import Ledger
from veilstream.testing.batch import BatchMeter
from veilstream.testing.recording import Recording, RecordingMeter, ReplayingMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.values.values import half_width

LINE = Space(2, 6)
PLANE = Space((0, 0), (4, 1))
MECHANISMS: dict[str, tuple[Any, Space]] = {
    "sorted": (SortedPoints(), LINE),
    "smooth": (SmoothMedian(), LINE),
    "chosen": (ChosenMedian(bits=10), LINE),
    "grid": (HatGrid(cells=12), PLANE),
    "grid by nodes": (HatGrid(cells=12, noise="nodes"), PLANE),
    "grid by cells": (HatGrid(cells=12, noise="cells"), PLANE),
    "grid on a line": (HatGrid(), LINE),
}
every = pytest.mark.parametrize(("mechanism", "space"), MECHANISMS.values(), ids=MECHANISMS)


def points_in(space: Space, count: int, seed: int = 1) -> Any:
    low, high = (np.array([float(part) for part in corner]) for corner in (space.low, space.high))
    return low + uniform_points(count, space.axes, seed) * (high - low)


@every
def test_a_release_spends_exactly_its_epsilon_once(mechanism: Any, space: Space, tmp_path: Path) -> None:
    guarantee = MetricGuarantee("1/3", "0.1", space)
    points = points_in(space, 40)
    with Ledger.open(tmp_path / "points.db") as ledger:
        first = release_points(points, mechanism, guarantee, ledger)
        again = release_points(points, mechanism, guarantee, ledger)
        assert np.array_equal(first.values, again.values)
        assert [row.charge.epsilon for row in ledger.charges("points")] == [Fraction(1, 3)]
        assert (first.spent, first.left) == (Fraction(1, 3), Fraction(0))
        for other in (MetricGuarantee("1/3", "0.2", space), MetricGuarantee("1/2", "0.1", space)):
            with pytest.raises(LedgerMismatchError):
                release_points(points, mechanism, other, ledger)


@every
def test_exact_points_reach_a_release_through_the_meter_alone(mechanism: Any, space: Space) -> None:
    """Given the same answers, other points bring the same questions and the same release."""
    guarantee = MetricGuarantee(1, "0.1", space)
    recording = Recording()
    released: list[np.ndarray[Any, Any]] = []
    for seed, make in enumerate((RecordingMeter, ReplayingMeter)):
        book = Accountant(guarantee.guarantee, 1)
        meter = make(book, ExactSampler(SeededSource(7)), 0, recording)
        points = guarantee.seal(points_in(space, 30, seed) ** (1 + seed) % 1 + points_in(space, 30, 5).min())
        released.append(np.asarray(mechanism.estimate(points, guarantee, meter).numbers))
    assert not recording.entries
    assert np.array_equal(released[0], released[1])


@every
def test_a_meter_without_budget_refuses(mechanism: Any, space: Space) -> None:
    guarantee = MetricGuarantee(1, "0.1", space)
    meter = Meter(Accountant(MetricGuarantee("1/2", 1, space).guarantee, 1), ExactSampler(SeededSource(7)), 0)
    with pytest.raises(BudgetExceededError):
        mechanism.estimate(guarantee.seal(points_in(space, 5)), guarantee, meter)


@pytest.mark.parametrize("distance", ["0.001", "0.5", "4"])
def test_sorted_points_rise_and_stay_on_the_line(distance: str) -> None:
    guarantee = MetricGuarantee("1/4", distance, LINE)
    y = simulate_points(SortedPoints(), guarantee, points_in(LINE, 300), seed=3, runs=20).numbers
    assert y.shape == (20, 300)
    assert (np.diff(y, axis=1) >= 0).all()
    assert y.min() >= 2
    assert y.max() <= 6


def test_noise_of_sorted_points_is_the_distance_over_epsilon() -> None:
    points = np.full(2000, 4.0)
    for distance, scale in (("0.01", 0.01), ("4", 4.0), ("400", 4.0)):
        guarantee = MetricGuarantee(1000, distance, LINE)
        values = simulate_points(SortedPoints(isotonic=False), guarantee, points, seed=2)
        assert float(values.std) == pytest.approx(math.sqrt(2) * scale / 1000, rel=1e-4)
        # The mean of 2,000 squares of Laplace noise strays by 5 % a standard deviation; 6 of them are below 1e-7.
        assert np.square(values.numbers - 4).mean() == pytest.approx(2 * (scale / 1000) ** 2, rel=0.3)


def test_regression_only_brings_points_nearer() -> None:
    guarantee = MetricGuarantee(1, "0.5", LINE)
    points = np.sort(points_in(LINE, 500)[:, 0])
    rough, rising = (
        simulate_points(SortedPoints(isotonic), guarantee, points, seed=4, runs=5).numbers for isotonic in (False, True)
    )
    assert (np.square(rising - points).sum(axis=1) < np.square(rough - points).sum(axis=1)).all()


def test_intervals_of_sorted_points_hold_after_regression_too() -> None:
    """Equal points are the hard case: regression pulls the ends apart from them."""
    guarantee = MetricGuarantee(1, "0.01", LINE)
    values = simulate_points(SortedPoints(), guarantee, np.full(30, 4.0), seed=8, runs=2000)
    width = half_width(0.95, values.std, values.law, integer=False)
    # Single points miss in fewer than 1 % of runs; 5 % of 2,000 would be 18 standard deviations away.
    assert (np.abs(values.numbers - 4.0) > width).mean(axis=0).max() < 0.05


def test_counts_between_released_points() -> None:
    points = np.array([1.0, 2.0, 2.0, 5.0])
    assert count_between(points, [1, 2, 0], [2, 5, 9]).tolist() == [1, 2, 4]


@pytest.mark.parametrize("make", [SmoothMedian, ChosenMedian])
def test_medians_are_near_and_small_moves_make_them_nearer(make: Callable[..., Any]) -> None:
    points = np.sort(points_in(LINE, 101)[:, 0]) ** 2 / 6
    errors: dict[str, float] = {}
    for distance in ("0.01", "4"):
        guarantee = MetricGuarantee("1/5", distance, Space(0, 6))
        draws = [simulate_points(make(), guarantee, points, seed=run).numbers[0] for run in range(60)]
        errors[distance] = float(np.median(np.abs(np.array(draws) - points[50])))
    assert errors["0.01"] < errors["4"]
    assert errors["0.01"] < 0.3


@pytest.mark.parametrize("make", [SmoothMedian, ChosenMedian])
def test_other_quantiles_and_equal_points(make: Callable[..., Any]) -> None:
    guarantee = MetricGuarantee(50, "0.01", LINE)
    points = np.linspace(2, 6, 401)
    for quantile, place in (("1/10", 2.4), ("9/10", 5.6)):
        assert simulate_points(make(quantile), guarantee, points, seed=1).numbers[0] == pytest.approx(place, abs=0.1)
    for place in (2.0, 3.3, 6.0):
        assert simulate_points(make(), guarantee, np.full(50, place), seed=1).numbers[0] == pytest.approx(
            place, abs=1e-3
        )


def test_a_grid_keeps_the_number_of_points_and_answers_ranges() -> None:
    guarantee = MetricGuarantee(10, "0.0001", PLANE)
    points = points_in(PLANE, 4000)
    grid = HatGrid(cells=100)
    values = simulate_points(grid, guarantee, points, seed=1, runs=3)
    assert values.numbers.shape == (3, math.prod(nodes(PLANE, 100))) == (3, 101 * 26)
    assert np.allclose(values.numbers.sum(axis=1), 4000)
    ranges = GridRanges(values.numbers, PLANE, 100)
    low, high = np.array([[0, 0], [0.5, 0.1], [3.1, 0.33]]), np.array([[4, 1], [3.5, 0.9], [9.0, 0.66]])
    truth = [int(((points >= a) & (points < b)).all(axis=1).sum()) for a, b in zip(low, high, strict=True)]
    found = ranges.count(low, high)
    assert found.shape == (3, 3)
    assert np.allclose(found, truth, atol=60)
    assert np.allclose(found[:, 0], 4000)


def test_ranges_of_a_plain_grid() -> None:
    ranges = GridRanges(np.array([1.0, 2.0, 3.0, 4.0]), LINE, 4, plain=True)
    assert ranges.count([[2.0], [2.5], [4.5]], [[6.0], [3.5], [9.0]]).tolist() == [10.0, 1.5, 5.5]


def test_a_distance_of_the_whole_space_gives_a_grid_the_noise_of_a_replaced_person() -> None:
    guarantee = MetricGuarantee("1/2", PLANE.diameter, PLANE)
    values = simulate_points(HatGrid(cells=8), guarantee, points_in(PLANE, 20), seed=1)
    one_less = math.sqrt(1 - 1 / math.prod(nodes(PLANE, 8)))
    assert float(np.max(values.std)) == pytest.approx(laplace_std(2 / 0.5) * one_less, rel=1e-6)


def test_noise_on_edges_is_less_than_on_nodes_for_ranges() -> None:
    guarantee = MetricGuarantee(1, "0.002", Space((0, 0), (1, 1)))
    points = points_in(guarantee.space, 2000)
    low, high = np.array([[0.2, 0.2]]), np.array([[0.7, 0.7]])
    truth = int(((points >= low) & (points < high)).all(axis=1).sum())
    errors = [
        float(np.square(GridRanges(values.numbers, guarantee.space, 50).count(low, high) - truth).mean())
        for noise in ("flow", "nodes")
        for values in [simulate_points(HatGrid(50, noise), guarantee, points, seed=5, runs=400)]
    ]
    assert errors[0] * 4 < errors[1]


def test_more_points_and_smaller_moves_want_finer_grids() -> None:
    plane = Space((0, 0), (1, 1))
    cells = [
        best_grid(MetricGuarantee(1, d, plane), n)[0] for d, n in (("0.01", 10**4), ("0.001", 10**4), ("0.001", 10**6))
    ]
    assert cells[0] < cells[1] < cells[2]
    assert best_grid(MetricGuarantee(10**6, "1e-9", plane), 10**9)[0] <= 2048


@pytest.mark.parametrize("distance", ["0.0005", "0.3"])
def test_long_moves_make_the_standard_histogram_the_better_grid_and_every_grid_keeps_the_total(distance: str) -> None:
    guarantee = MetricGuarantee(1, distance, Space((0, 0), (1, 1)))
    cells, noise = best_grid(guarantee, 3000)
    assert noise == ("cells" if distance == "0.3" else "flow")
    points = points_in(guarantee.space, 3000)
    values = simulate_points(HatGrid(), guarantee, points, seed=1, runs=2)
    assert np.allclose(values.numbers.sum(axis=-1), 3000)
    assert HatGrid().cells_for(guarantee, 3000) == cells
    other = best_grid(guarantee, 3000, "flow" if noise == "cells" else "cells")
    low, high = np.array([[0.3, 0.3]]), np.array([[0.5, 0.5]])
    truth = int(((points >= low) & (points < high)).all(axis=1).sum())
    errors = [
        float(np.square(GridRanges(drawn.numbers, guarantee.space, each).count(low, high) - truth).mean())
        for each, kind in ((cells, noise), other)
        for drawn in [simulate_points(HatGrid(each, kind), guarantee, points, seed=5, runs=200)]
    ]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("distance", ["0.02", "0.1", "1"])
def test_where_moves_are_long_the_grid_is_the_plain_histogram_of_its_cells(distance: str) -> None:
    """Number by number, before noise: points of crowded places are not blurred."""
    guarantee = MetricGuarantee(10**6, distance, Space((0, 0), (1, 1)))
    points = np.clip(points_in(guarantee.space, 500) ** 4, 0, 0.999)
    values = simulate_points(HatGrid(10), guarantee, points, seed=1)
    edges = [0, *(np.arange(10) + 0.5) / 10, 1]
    plain = np.histogram2d(points[:, 0], points[:, 1], bins=[edges, edges])[0]
    assert (np.round(values.numbers) == plain.reshape(-1)).all() == (distance != "0.02")


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_nothing_but_public_numbers_decides_and_nodes_are_never_chosen(axes: int) -> None:
    space = Space((0,) * axes, (1,) * axes)
    chosen = {
        best_grid(MetricGuarantee(epsilon, distance, space), n)[1]
        for epsilon in ("1/10", 1, 10)
        for distance in ("0.0001", "0.01", "0.1", 1)
        for n in (1, 1000, 10**6)
    }
    assert chosen == {"flow", "cells"}


def test_a_grid_of_the_first_version_is_known_again_by_what_it_chose_from(tmp_path: Path) -> None:
    """Its automatic noise has a name now; what was given to it means what it did."""
    guarantee = MetricGuarantee(1, "1/2", Space((0, 0), (1, 1)))
    former = HatGrid(noise="flow-or-nodes")
    assert former.cells_for(guarantee, 50) == best_grid(guarantee, 50, "nodes")[0]
    made = {None: former, "flow": HatGrid(noise="flow"), "nodes": HatGrid(noise="nodes")}
    for noise, now in made.items():
        record = json.loads(describe(PointRelease(now, guarantee)))
        old = {"name": "veilstream:HatGrid", "version": 1, "set": {} if noise is None else {"noise": noise}}
        record["set"]["mechanism"] = old
        text = json.dumps(record, sort_keys=True)
        assert recognises(text, PointRelease(now, guarantee))
        assert not recognises(text, PointRelease(HatGrid(), guarantee))
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        points = points_in(guarantee.space, 50)
        first = release_points(points, former, guarantee, ledger)
        assert (release_points(points, former, guarantee, ledger).values == first.values).all()
        with pytest.raises(LedgerMismatchError):
            release_points(points, HatGrid(), guarantee, ledger)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SmoothMedian(quantile=0),
        lambda: SmoothMedian(share=1),
        lambda: ChosenMedian(bits=0),
        lambda: HatGrid(cells=0),
        lambda: HatGrid(noise="loud"),  # type: ignore[arg-type]
        lambda: SortedPoints().size(MetricGuarantee(1, 1, PLANE), 5),
        lambda: SmoothMedian().size(MetricGuarantee(1, 1, PLANE), 5),
        lambda: GridRanges(np.zeros(4), PLANE, 100),
        lambda: GridRanges(np.zeros(4), PLANE, None),
        lambda: GridRanges(np.zeros(9 * 3), PLANE, 8).count([[0]], [[1]]),
        lambda: release_points([], SortedPoints(), MetricGuarantee(1, 1, LINE)),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidInputError):
        make()


def test_many_medians_at_once_are_those_of_one_after_the_other() -> None:
    """Runs together draw what single runs on the same source would."""
    guarantee = MetricGuarantee(1, "1/10", Space(0, 1))
    sealed = guarantee.seal([0.2, 0.5, 0.6])
    source, accountant = ExactSampler(SeededSource(3)), Accountant(guarantee.guarantee, 1)
    together = SmoothMedian().estimate(sealed, guarantee, BatchMeter(accountant, source, 0, batch=(5,))).numbers
    source = ExactSampler(SeededSource(3))
    each = [
        SmoothMedian().estimate(sealed, guarantee, Meter(Accountant(guarantee.guarantee, 1), source, 0)).numbers
        for _ in range(5)
    ]
    assert together.shape == (5, 1)
    assert np.array_equal(together, np.stack(each))
