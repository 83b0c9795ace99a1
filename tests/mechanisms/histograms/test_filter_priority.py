"""Filter priority: heavy cells are found in any domain, resolutions agree exactly, samples stay unbiased."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.filter_priority import (
    FilterPriority,
    Listed,
    consistent_lists,
    lowered,
    priority_sample,
    resolutions,
    uniform_hash,
)
from veilstream.trusted.counts import seal
from veilstream.trusted.records import seal_records

from .support_sparse import seeded, silent

ONE = Fraction(1)


def test_a_table_without_noise_by_hand() -> None:
    """Levels at ε = 3: whole domain, 4 blocks of 4, 16 cells, each with scale 1.

    θ is 1 for the domain, ⌈ln 4 − ln(1 + 1/e)⌉ = 2 for blocks and ⌈ln 16 − ln(1 + 1/e)⌉ = 3 for cells. Of the 21
    records, 9 sit in cell 1 and 1 in cell 2 (block 0), 10 are spread over block 2 (2 and 3 a cell), 1 is in block 3:
    too light, so it is left to the domain, as the 1 in cell 2 and the cells of 2 are left to their blocks.
    """
    counts = np.array([0, 9, 1, 0, 0, 0, 0, 0, 2, 3, 2, 3, 0, 0, 1, 0])
    values = FilterPriority().estimate(seal(counts, 0), Fraction(3), silent(Fraction(3)))
    block_0, block_2, everywhere = 1 / 4, 4 / 4, 1 / 16
    expected = np.full(16, everywhere)
    expected[:4] += block_0
    expected[8:12] += block_2
    expected[[1, 9, 11]] += [9, 3, 3]
    assert values.numbers == pytest.approx(expected)


def test_dense_and_sparse_data_agree_without_noise() -> None:
    rows = np.repeat(np.array([[3, 4], [3, 5], [60, 20], [99, 0], [98, 1]]), [40, 30, 80, 2, 1], axis=0)
    records = seal_records(rows, (100, 30), 0)
    dense = FilterPriority().estimate(records.dense(), ONE, silent())
    boxes = FilterPriority().estimate_records(records, ONE, silent())
    assert boxes.dense().ravel() == pytest.approx(dense.numbers)
    assert boxes.total == pytest.approx(len(rows))


@pytest.mark.parametrize("shape", [(1,), (2,), (4096,), (100, 30), (1000,) * 8], ids=str)
@pytest.mark.parametrize("count", [0, 1, 300])
@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_it_spends_exactly_epsilon_and_nothing_is_negative(shape: tuple[int, ...], count: int, levels: int) -> None:
    epsilon = Fraction(5, 7)
    meter = seeded(6, epsilon)
    records = seal_records(np.zeros((count, len(shape)), dtype=np.int64), shape, 0)
    boxes = FilterPriority(levels=levels).estimate_records(records, epsilon, meter)
    assert sum(charge.epsilon for charge in meter.charges) == epsilon
    assert (boxes.values > 0).all()
    assert boxes.size < 1000


@pytest.mark.parametrize("cells", [1, 2, 1000, 10**24])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_the_level_is_the_least_that_few_empty_cells_are_expected_to_reach(cells: int, scale: float) -> None:
    for spurious in (1, 20):
        level = FilterPriority(spurious=spurious).level((cells,), scale)

        def expected(at: int) -> float:
            return cells * math.exp(-at / scale) / (1 + math.exp(-1 / scale))

        assert expected(level) <= spurious * (1 + 1e-9)
        assert level == 1 or expected(level - 1) > spurious * (1 - 1e-9)


def test_heavy_cells_of_a_domain_of_a_thousand_to_the_eighth_are_found() -> None:
    """Each heavy count is off by more than 200 with P < 1e-20 (scale 3, three levels)."""
    generator = np.random.default_rng(3)  # noqa: TID251 (public test data)
    heavy = generator.integers(0, 1000, (20, 8))
    light = generator.integers(0, 1000, (30_000, 8))
    rows = np.concatenate([np.repeat(heavy, 1000, axis=0), light])
    boxes = FilterPriority().estimate_records(seal_records(rows, (1000,) * 8, 0), ONE, seeded(5))
    assert np.abs(boxes.count(heavy, heavy + 1) - 1000).max() < 200
    assert boxes.size < 100
    assert abs(boxes.total - len(rows)) < 200


def test_an_empty_dataset_lists_almost_nothing() -> None:
    """Three levels of at most one spurious block each; Poisson P(more than 20) < 1e-10."""
    nothing = seal_records(np.zeros((0, 8), dtype=np.int64), (1000,) * 8, 0)
    assert all(FilterPriority().estimate_records(nothing, ONE, seeded(seed)).size < 20 for seed in range(20))


@given(
    st.lists(st.tuples(st.floats(0.5, 100), st.integers(0, 3)), min_size=1, max_size=12),
    st.lists(st.floats(0.5, 100), min_size=4, max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_parts_are_lowered_to_the_nearest_that_fit(parts: list[tuple[float, int]], limits: list[float]) -> None:
    """The conditions of least squares: all that stay above 0 lost the same, and only if the sum was full."""
    values, parent = np.array([v for v, _ in parts]), np.array([p for _, p in parts])
    result = lowered(values, parent, np.array(limits))
    for group, limit in enumerate(limits):
        before, after = values[parent == group], result[parent == group]
        if before.sum() <= limit:
            assert after == pytest.approx(before)
            continue
        assert after.sum() == pytest.approx(limit)
        loss = float((before - after)[after > 0].max())
        assert after == pytest.approx(np.maximum(before - loss, 0))


def test_every_listed_block_is_the_sum_of_its_parts() -> None:
    coarse = Listed(4, (2,), np.array([[0], [1]]), np.array([50.0, 9.0]), 1.0)
    fine = Listed(0, (32,), np.array([[3], [7], [20], [21]]), np.array([30.0, 4.0, 8.0, 5.0]), 1.0)
    top, bottom = consistent_lists([coarse, fine])
    assert top.values.tolist() == [16.0, 0.0]
    assert bottom.values.tolist() == [30.0, 4.0, 6.0, 3.0]


def test_what_lies_outside_listed_blocks_is_dropped() -> None:
    coarse = Listed(4, (2,), np.array([[0]]), np.array([5.0]), 1.0)
    fine = Listed(0, (32,), np.array([[20]]), np.array([8.0]), 1.0)
    top, bottom = consistent_lists([coarse, fine])
    assert top.values.tolist() == [5.0]
    assert bottom.values.size == 0


def test_a_priority_sample_keeps_sums_and_its_size() -> None:
    """Sums over half the cells, 5 sigma of the known bound total·sum/(keep − 1) on the variance; P < 1e-6."""
    cells = np.arange(20_000)[:, None]
    values = 10 + (np.arange(20_000) % 50).astype(np.float64)
    sample = priority_sample(Listed(0, (20_000,), cells, values, 1.0), 2_000)
    assert sample.values.size == 2_000
    half = float(sample.values[sample.cells[:, 0] < 10_000].sum())
    exact = float(values[:10_000].sum())
    assert abs(half - exact) < 5 * math.sqrt(exact * float(values.sum()) / 1_999)
    assert priority_sample(Listed(0, (20_000,), cells, values, 1.0), 20_000).values is values


def test_the_hash_looks_uniform_and_tells_cells_apart() -> None:
    """Mean of 100,000 uniforms within 6 sigma; no two alike among neighbouring cells."""
    cells = np.stack(np.unravel_index(np.arange(100_000), (10, 100, 100)), axis=1).astype(np.int64)
    drawn = uniform_hash(cells)
    assert drawn.min() > 0
    assert drawn.max() <= 1
    assert abs(drawn.mean() - 0.5) < 6 / math.sqrt(12 * 100_000)
    assert np.unique(drawn).size == 100_000


def test_keep_bounds_the_list() -> None:
    rows = np.repeat(np.arange(500)[:, None], 200, axis=0)
    boxes = FilterPriority(levels=1, keep=50).estimate_records(seal_records(rows, (1000,), 0), ONE, seeded(7))
    assert boxes.size == 50
    assert abs(boxes.total - 100_000) < 30_000


def test_resolutions_go_from_the_domain_to_cells() -> None:
    assert resolutions((1000,) * 8, 3) == [10, 5, 0]
    assert resolutions((4096, 3), 4) == [12, 8, 4, 0]
    assert resolutions((1,), 3) == [0]
    assert resolutions((2, 2), 9) == [1, 0]
    assert resolutions((1000,), 1) == [0]


@pytest.mark.parametrize("parameters", [{"levels": 0}, {"spurious": 0}, {"keep": 0}, {"levels": 1.5}], ids=str)
def test_bad_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        FilterPriority(**parameters)
