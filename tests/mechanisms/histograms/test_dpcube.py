"""DPCube: the partition finds even boxes, costs nothing beyond the noisy cells, and errors are as declared."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms.dpcube import DPCube, partition
from veilstream.noise.spread import laplace_std
from veilstream.trusted.counts import seal

from .support_sparse import seeded, silent

ONE = Fraction(1)


def test_even_stretches_come_out_exactly_without_noise() -> None:
    counts = np.repeat([0, 1000, 300, 301, 0], [10, 3, 7, 1, 11])
    values = DPCube().estimate(seal(counts, 0), Fraction(40), silent(Fraction(40)))
    assert values.numbers == pytest.approx(counts)


def test_a_step_is_cut_where_it_is() -> None:
    labels, even = partition(np.repeat([0.0, 9.0], [5, 11]), spread=1.0, height=8)
    assert labels.tolist() == [0] * 5 + [1] * 11
    assert even.all()


def test_an_even_table_is_left_whole() -> None:
    """Pure noise on 2,000 cells is cut in less than 2% of runs; 11 of 30 would have P < 1e-9."""
    whole = 0
    for seed in range(30):
        noise = seeded(seed).laplace(seal(np.zeros(2_000, dtype=np.int64), 0), Fraction(1, 10), "noise")
        _, even = partition(noise.numbers.astype(np.float64).reshape(40, 50), float(np.max(noise.std)) ** 2, 24)
        whole += even.size == 1
    assert whole >= 20


def test_a_spike_in_the_middle_of_nothing_is_found() -> None:
    counts = np.zeros((64, 64), dtype=np.int64)
    counts[31, 17] = 2_000
    values = DPCube().estimate(seal(counts.ravel(), 0, shape=(64, 64)), ONE, seeded(1))
    table = values.numbers.reshape(64, 64)
    assert abs(table[31, 17] - 2_000) < 60
    assert np.abs(np.delete(table.ravel(), 31 * 64 + 17)).mean() < 0.5


def test_an_even_table_has_the_error_of_both_phases_together() -> None:
    """Cells of one box of m: variance 1/(1/(m σ₁²) + 1/σ₂²)/m². 600 runs, within 6 sigma; P < 1e-8."""
    m, runs, epsilon = 256, 600, Fraction(1, 2)
    sigma = laplace_std(4.0) ** 2
    expected = 1 / (1 / (m * sigma) + 1 / sigma) / m**2
    errors: list[float] = []
    for seed in range(runs):
        values = DPCube().estimate(seal(np.full(m, 7), 0), epsilon, seeded(seed, epsilon))
        if np.ptp(values.numbers) == 0:
            assert values.std == pytest.approx(np.full(m, np.sqrt(expected)))
            errors.append(float(values.numbers[0]) - 7)
    assert len(errors) > 0.9 * runs
    assert abs(np.mean(np.square(errors)) / expected - 1) < 6 * np.sqrt(5 / len(errors))


def test_uneven_boxes_keep_their_cells_and_the_right_sum() -> None:
    counts = np.arange(64) * 50
    values = DPCube(height=0).estimate(seal(counts, 0), Fraction(10), silent(Fraction(10)))
    assert values.numbers == pytest.approx(counts)
    assert values.numbers.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("shape", [(1,), (2,), (37,), (13, 7), (3, 2, 4, 2), (2,) * 8], ids=str)
@pytest.mark.parametrize("filled", [0, 1, 500])
def test_it_spends_exactly_epsilon_on_any_shape(shape: tuple[int, ...], filled: int) -> None:
    counts = np.zeros(int(np.prod(shape)), dtype=np.int64)
    counts[0] = filled
    epsilon = Fraction(3, 11)
    meter = seeded(2, epsilon)
    values = DPCube().estimate(seal(counts, 0, shape=shape), epsilon, meter)
    assert values.numbers.shape == counts.shape
    assert [charge.purpose for charge in meter.charges] == ["cells", "boxes"]
    assert sum(charge.epsilon for charge in meter.charges) == epsilon


def test_boxes_cover_the_domain_once_and_are_boxes() -> None:
    table = np.add.outer(np.arange(12) // 5 * 40.0, np.arange(9) // 4 * 15.0)
    labels, even = partition(table, spread=0.5, height=24)
    grid = labels.reshape(12, 9)
    assert np.unique(labels).tolist() == list(range(even.size))
    for box in range(even.size):
        rows, columns = np.nonzero(grid == box)
        assert rows.size == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
        assert np.ptp(table[rows, columns]) == 0


@pytest.mark.parametrize("parameters", [{"cell_share": Fraction(0)}, {"height": -1}, {"height": 1.5}], ids=str)
def test_bad_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="nothing was released"):
        DPCube(**parameters)
