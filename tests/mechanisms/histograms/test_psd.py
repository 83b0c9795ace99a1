"""PSD: least squares is least squares, cuts are paid for, and dense and sparse data give the same tree."""

from __future__ import annotations

import itertools
import tracemalloc
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms._trees import Level, geometric_shares, least_squares
from veilstream.mechanisms.histograms.psd import PSD
from veilstream.trusted.counts import seal
from veilstream.trusted.records import seal_records

from .support_sparse import one_by_one, seeded, silent

KINDS: tuple[Literal["hybrid", "kd", "quad"], ...] = ("hybrid", "kd", "quad")
ONE = Fraction(1)
SHAPES = [(1,), (2,), (37,), (13, 7), (1, 9, 1), (3, 2, 4, 2), (2,) * 8]


def rows_in(shape: tuple[int, ...], count: int) -> Any:
    """Repeatable records, many of them equal."""
    index = np.arange(count)
    return np.stack([(index * (7 + axis) + index // 3) % length for axis, length in enumerate(shape)], axis=1)


@pytest.mark.parametrize("kind", ["hybrid", "quad"])
def test_without_noise_leaves_that_are_cells_are_the_data(kind: Literal["hybrid", "quad"]) -> None:
    counts = np.array([1, 0, 0, 7, 4, 4, 0, 4])
    assert PSD(kind, prune=0).estimate(seal(counts, 0), ONE, silent()).numbers == pytest.approx(counts)


def test_a_quad_tree_of_height_two_by_hand() -> None:
    """A 4×3 table is halved at row 2, then each half at column 2: four boxes, each spread evenly."""
    table = np.array([[4, 0, 1], [0, 0, 3], [8, 8, 0], [0, 0, 2]])
    values = PSD("quad", height=2, prune=0).estimate(seal(table.ravel(), 0, shape=(4, 3)), ONE, silent())
    expected = np.array([[1, 1, 2], [1, 1, 2], [4, 4, 1], [4, 4, 1]])
    assert values.numbers.reshape(4, 3) == pytest.approx(expected)


def test_a_median_is_cut_where_it_halves_the_data() -> None:
    counts = np.array([10, 1, 1, 1, 1, 1, 1, 1])
    values = PSD("kd", height=1, prune=0).estimate(seal(counts, 0), ONE, silent())
    assert values.numbers == pytest.approx(counts)
    boxes = PSD("kd", height=1, prune=0).estimate_records(
        seal_records(np.repeat(np.arange(8), counts)[:, None], (8,), 0), ONE, silent()
    )
    assert boxes.low.tolist() == [[0], [1]]
    assert boxes.high.tolist() == [[1], [8]]


@pytest.mark.parametrize("mean", [10, -4])
def test_least_squares_is_that_of_linear_algebra_with_its_variances(mean: int) -> None:
    """An uneven tree with a node that has one child and a level that was not measured; negative counts too."""
    parents = [np.array([0]), np.array([0, 0]), np.array([0, 0, 1]), np.array([0, 0, 1, 2, 2])]
    variances = [3.0, np.inf, 0.7, 2.0]
    generator = np.random.default_rng(5)  # noqa: TID251 (public numbers)
    levels = [
        Level(np.zeros((p.size, 1), dtype=np.int64), np.ones((p.size, 1), dtype=np.int64), p, y, v)
        for p, v, y in ((p, v, generator.normal(mean, 3, p.size)) for p, v in zip(parents, variances, strict=True))
    ]
    rows: list[Any] = []
    scaled: list[float] = []
    above = [np.eye(5)]
    for parent in reversed(parents[1:]):
        above.append(np.array([above[-1][parent == i].sum(axis=0) for i in range(parent.max() + 1)]))
    for level, matrix in zip(levels, reversed(above), strict=True):
        if np.isfinite(level.variance):
            rows.extend(matrix / np.sqrt(level.variance))
            scaled.extend(level.noisy / np.sqrt(level.variance))
    design = np.array(rows)
    expected = np.linalg.lstsq(design, np.array(scaled))[0]
    covariance = np.linalg.inv(design.T @ design)
    values, variance = least_squares(levels)
    assert values == pytest.approx(expected)
    assert variance == pytest.approx(np.diag(covariance))


def test_parents_are_the_sums_of_their_children() -> None:
    """The fit leaves the consistent counts of every node as they are: fitting them again changes nothing."""
    counts = np.arange(64) % 7 * 10
    values = PSD("quad").estimate(seal(counts, 0), ONE, seeded(3))
    again = PSD("quad").estimate(seal(np.rint(values.numbers * 2**12).astype(np.int64), 0), ONE, silent())
    assert again.numbers == pytest.approx(np.rint(values.numbers * 2**12), abs=1e-6)


def test_a_light_node_is_spread_evenly_and_stays_the_sum_of_its_children() -> None:
    """Two halves of 100 and 3 records; what was measured below has a deviation of 2: the second is left whole."""
    parents = [np.array([0]), np.array([0, 0]), np.array([0, 0, 1, 1])]
    edges = [[0, 8], [0, 4, 8], [0, 1, 4, 7, 8]]
    noisy = [[103.0], [100.0, 3.0], [90.0, 10.0, 0.0, 3.0]]
    levels = [
        Level(np.array(e[:-1])[:, None], np.array(e[1:])[:, None], p, np.array(y), 2.0)
        for p, e, y in zip(parents, edges, noisy, strict=True)
    ]
    assert least_squares(levels)[0] == pytest.approx([90, 10, 0, 3])
    values, variance = least_squares(levels, prune=2.0)
    assert values == pytest.approx([90, 10, 3 * 3 / 4, 3 * 1 / 4])
    assert variance[2] == pytest.approx(9 * variance[3])


def test_declared_deviation_is_the_error_on_data_that_are_even_inside_leaves() -> None:
    """Mean and variance over 1500 runs of 8 leaves, within 6 sigma: false alarm below 1e-7 in all."""
    runs, counts = 1500, np.repeat([5, 0, 9, 1, 3, 3, 0, 8], 4)
    mechanism = PSD("quad", height=3, count_every=1, prune=0)
    every = [mechanism.estimate(seal(counts, 0), ONE, seeded(seed)) for seed in range(runs)]
    error = np.array([values.numbers - counts for values in every])[:, ::4]
    declared = np.asarray(every[0].std)[::4]
    statistic = (error**2).sum(axis=0) / declared**2
    # Averages of several Laplace noises have an excess of squares of at most 5: the spread of the statistic is wider.
    assert (np.abs(statistic - runs) < 6 * np.sqrt(5 * runs)).all()
    assert (np.abs(error.mean(axis=0)) < 6 * declared / np.sqrt(runs)).all()


def test_budgets_grow_by_the_cube_root_of_two_in_the_plane() -> None:
    shares = geometric_shares([0, 2, 4, 6], dimensions=2)
    assert sum(shares) == 1
    for a, b in itertools.pairwise(shares):
        assert float(b / a) == pytest.approx(2 ** (1 / 3), rel=0.01)
    assert geometric_shares([0, 2, 4], dimensions=1) == [Fraction(1, 3)] * 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 40])
def test_dense_and_sparse_data_give_the_same_tree_for_at_most_epsilon(
    kind: Literal["hybrid", "kd", "quad"], shape: tuple[int, ...], count: int
) -> None:
    records = seal_records(rows_in(shape, count), shape, 0)
    epsilon = Fraction(2, 7)
    for_records, for_cells = one_by_one(9, epsilon), one_by_one(9, epsilon)
    boxes = PSD(kind).estimate_records(records, epsilon, for_records)
    values = PSD(kind).estimate(records.dense(), epsilon, for_cells)
    assert boxes.dense().ravel() == pytest.approx(values.numbers)
    assert for_records.left == for_cells.left
    assert sum(charge.epsilon for charge in for_records.charges) == epsilon
    assert sum(int(v) for v in boxes.volumes) == np.prod(shape)


def test_cuts_at_medians_are_charged_once_for_each_level() -> None:
    meter = seeded(1)
    PSD("hybrid", height=6).estimate(seal(np.arange(64), 0), ONE, meter)
    spent = {name: [c.epsilon for c in meter.charges if c.purpose == name] for name in ("median", "count")}
    assert spent["median"] == [Fraction(1, 10)] * 3
    assert sum(spent["count"]) == Fraction(7, 10)


def test_medians_move_towards_the_data() -> None:
    """A cut outside the crowd at 30..35 has weight e^(-10,000) against one at its middle: it is never seen."""
    rows = 30 + np.arange(20_000)[:, None] % 6
    records = seal_records(rows, (1000,), 0)
    cuts = [PSD("kd", height=1, prune=0).estimate_records(records, ONE, seeded(seed)).low[1, 0] for seed in range(10)]
    assert cuts == [33] * 10


def test_range_queries_are_better_than_with_noise_on_every_bin() -> None:
    counts = np.full(4096, 3)
    values = PSD().estimate(seal(counts, 0), Fraction(1, 10), seeded(2, Fraction(1, 10)))
    plain = seeded(2, Fraction(1, 10)).laplace(seal(counts, 0), Fraction(1, 10), "publish")
    ranges = [(17, 2100), (300, 3300), (1024, 4000), (5, 1500), (900, 2800)]
    errors = [np.mean([(v.numbers[a:b].sum() - 3 * (b - a)) ** 2 for a, b in ranges]) for v in (values, plain)]
    assert errors[0] < errors[1]


def test_eight_attributes_of_a_thousand_values_in_bounded_memory() -> None:
    generator = np.random.default_rng(8)  # noqa: TID251 (public test data)
    rows = np.clip(generator.normal(500, 150, (50_000, 8)), 0, 999).astype(np.int64)
    records = seal_records(rows, (1000,) * 8, 0)
    tracemalloc.start()
    boxes = PSD(height=12).estimate_records(records, ONE, seeded(4))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6
    assert boxes.size == 4096
    assert abs(boxes.total - 50_000) < 500
    low, high = np.zeros(8, dtype=np.int64), np.full(8, 1000)
    high[0] = 500
    exact = int((rows[:, 0] < 500).sum())
    assert abs(boxes.count(low, high) - exact) < 5_000


@pytest.mark.parametrize("kind", ["kd", "hybrid"])
def test_medians_of_records_list_no_axis(kind: Literal["hybrid", "kd"]) -> None:
    """Two attributes of 2^40 values each: memory grows with the records alone."""
    rows = np.arange(20_000)[:, None] * np.array([7, 2**20])
    records = seal_records(rows, (2**40, 2**40), 0)
    tracemalloc.start()
    boxes = PSD(kind, height=10, prune=0).estimate_records(records, ONE, seeded(5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    assert abs(boxes.total - 20_000) < 500
    assert (boxes.high - boxes.low).min() >= 1


@pytest.mark.parametrize(
    "parameters",
    [{"kind": "oct"}, {"height": -1}, {"height": 99}, {"count_every": 0}, {"median_share": Fraction(1)}, {"prune": -1}],
    ids=str,
)
def test_bad_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        PSD(**parameters)


def test_bad_data_are_refused() -> None:
    split = seal_records(np.array([[1]]), (9,), 0).split(*(np.array([n]) for n in (0, 4, 0, 1)))
    with pytest.raises(InvalidInputError, match="2 groups"):
        PSD().estimate_records(split, ONE, seeded(1))
