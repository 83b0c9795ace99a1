"""Range queries are answered exactly, and random ones are spread as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.errors import InvalidInputError
from veilstream.evaluate.queries import Ranges, RangeSums, random_ranges, random_ranges_of_volume


@settings(max_examples=100, deadline=None)
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 999))
def test_answers_equal_sums_over_slices(shape: list[int], seed: int) -> None:
    table = np.arange(np.prod(shape), dtype=np.int64).reshape(shape) ** 2 % 23
    ranges = random_ranges(shape, 20, seed)
    answers = RangeSums(table).answer(ranges)
    assert answers.dtype == np.int64
    for low, high, answer in zip(ranges.low, ranges.high, answers, strict=True):
        assert answer == table[tuple(slice(a, b) for a, b in zip(low, high, strict=True))].sum()


@settings(max_examples=50, deadline=None)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=4), rows=st.integers(2, 5), seed=st.integers(0, 999))
def test_rows_of_tables_are_answered_as_one_by_one(shape: list[int], rows: int, seed: int) -> None:
    tables = np.arange(rows * np.prod(shape), dtype=np.int64).reshape(rows, -1) ** 2 % 23
    ranges = random_ranges(shape, 10, seed)
    together = RangeSums(tables, shape).answer(ranges)
    assert np.array_equal(together.reshape(rows, -1), [RangeSums(table, shape).answer(ranges) for table in tables])


def test_all_ranges_are_equally_likely() -> None:
    ranges = random_ranges([4], 40_000, seed=3)
    seen, counts = np.unique(ranges.low[:, 0] * 10 + ranges.high[:, 0], return_counts=True)
    assert seen.size == 10
    # 4,000 ± 60 expected of each of the ten: 6 standard deviations, false alarm below 1e-7.
    assert np.abs(counts - 4000).max() < 360


@pytest.mark.parametrize("shape", [[1000], [200, 300], [40, 50, 60]])
def test_volumes_are_as_asked_up_to_whole_bins(shape: list[int]) -> None:
    ranges = random_ranges_of_volume(shape, 500, "1/100", seed=1)
    share = ranges.volumes / np.prod(shape)
    assert share.min() > 0.005
    assert share.max() < 0.025
    assert (ranges.high <= shape).all()
    assert (ranges.low >= 0).all()


def test_seeds_repeat() -> None:
    a, b, c = (random_ranges([50, 60], 10, seed) for seed in (1, 1, 2))
    assert np.array_equal(a.low, b.low)
    assert not np.array_equal(a.low, c.low)


def test_misuse_gets_clear_errors() -> None:
    with pytest.raises(InvalidInputError, match="share above 0"):
        random_ranges_of_volume([10], 1, "2", seed=1)
    with pytest.raises(InvalidInputError, match="low below high"):
        Ranges(np.array([[3]]), np.array([[3]]))
    with pytest.raises(InvalidInputError, match="12 values for a table of shape"):
        RangeSums(np.arange(12), [5, 2])
    with pytest.raises(InvalidInputError, match="do not fit"):
        RangeSums(np.arange(12)).answer(Ranges(np.array([[0]]), np.array([[13]])))
