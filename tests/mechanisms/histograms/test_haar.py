"""Steps between neighbours: the exact noise of each, blocks beside bins, and a total that is paid for once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import AdaptiveGrid, Auto, Geometric, Haar
from veilstream.mechanisms.histograms._strategies import Tree
from veilstream.mechanisms.histograms.haar import along_curve, block_width, step_deviations
from veilstream.mechanisms.streams import FixedRate
from veilstream.storage.ledger.as_of import with_as_of
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import seal
from veilstream.values.values import half_width

from .support import new_meter, release


@pytest.mark.parametrize("level", [0, 1, 3, 4, 5])
def test_deviations_of_steps_are_those_of_the_covariance(level: int) -> None:
    """Against the inverse of the normal matrix of all measured nodes, at every offset."""
    tree = Tree(64, 8, (Fraction(0), Fraction(1, 3), Fraction(2, 3)), "laplace")
    blocks = np.kron(np.eye(8), np.ones((8, 8)))
    covariance = np.linalg.inv(blocks / 9 + 4 * np.eye(64) / 9)
    width = 1 << level
    found = step_deviations(tree, level)
    assert found.shape == (8,)
    for offset in range(min(8, 64 - 2 * width + 1)):
        query = np.zeros(64)
        query[offset : offset + width], query[offset + width : offset + 2 * width] = 1, -1
        query /= 2 * width
        assert found[offset] == pytest.approx(np.sqrt(query @ covariance @ query))


def test_blocks_find_the_shape_of_a_line_with_few_records() -> None:
    """A hump of 4,096 bins with 10,000 records at ε = 1/100: far more than ten standard errors between the means."""
    hump = np.rint(5 * np.exp(-(((np.arange(4096) - 1500) / 400) ** 2))).astype(np.int64)
    errors = {
        method: [np.abs(release(method, hump, "1/50", seed).numbers - hump).mean() for seed in range(20)]
        for method in (Haar(), Haar(blocks=Fraction(1, 3)))
    }
    plain, blocks = (np.array(each) for each in errors.values())
    assert blocks.mean() < 0.9 * plain.mean()


def test_with_blocks_intervals_reach_as_far_as_the_noise_of_least_squares_and_what_was_moved() -> None:
    values = release(Haar(blocks=Fraction(1, 2)), np.zeros(4096, dtype=np.int64), "1/100")
    tree = Tree(4096, 64, (Fraction(0), Fraction(1, 2), Fraction(1, 2)), "laplace")
    whole = float(np.max(release(Geometric(), np.zeros(4096, dtype=np.int64), "49/5000").std))
    assert float(np.min(values.std)) >= whole * np.sqrt(tree.bin_variance())
    assert float(np.mean(values.std)) < 2 * whole * np.sqrt(tree.bin_variance())
    assert block_width(4096) == 64


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("epsilon", ["1/10", "1", "10"])
@pytest.mark.parametrize("method", [Haar(), Haar(blocks=Fraction(1, 3))], ids=["bins", "blocks"])
def test_intervals_hold_the_counts_that_smoothing_takes_away(method: Haar, epsilon: str, level: float) -> None:
    """Every tenth bin holds what is likely to be taken for noise. A bin is held if its own noise is small enough, and
    noises are independent, or nearly with blocks: 8,200 of them are held less often than their level by 6 standard
    errors with a probability below 1e-8, at each of 18 settings."""
    counts = np.zeros(4096, dtype=np.int64)
    counts[::10] = math.ceil(4.5 / Fraction(epsilon))
    held: list[bool] = []
    for seed in range(20):
        values = release(method, counts, epsilon, seed)
        width = half_width(level, values.std, values.law, integer=False)
        held += (np.abs(values.numbers - counts) <= width)[::10].tolist()
        assert values.law.covers == "count"
    assert np.mean(held) > level - 6 * math.sqrt(level * (1 - level) / len(held))


def test_intervals_of_boxes_promise_no_counts() -> None:
    assert release(Haar(side=2), np.arange(256), shape=(16, 16)).law.covers == "value before noise"


def test_a_repeated_release_is_of_the_step_it_repeats() -> None:
    with vs.Publisher(4, vs.Guarantee(1, w=4), FixedRate(interval=3, histogram=Haar())) as publisher:
        made = [publisher.feed(np.arange(4) * 100) for _ in range(5)]
    assert {one.covers for one in made} == {"count"}
    assert [step for _, step in with_as_of(made)] == [0, 0, 0, 3, 3]


@pytest.mark.parametrize(("use", "counts"), [("bins", 0), ("bins", 50), ("ranges", 0)])
def test_auto_pays_for_the_number_of_records_once(use: str, counts: int) -> None:
    meter = new_meter("1", 256, 3)
    Auto(use=use).estimate(seal(np.full(256, counts), 0), Fraction(1), meter)  # type: ignore[arg-type]
    bought = [charge.purpose for charge in meter.charges]
    assert bought[0] == "number of records"
    assert "total" not in bought
    assert sum(charge.epsilon for charge in meter.charges) == 1


@pytest.mark.parametrize(("each", "side"), [(1000, 1), (0, 32)])
def test_auto_measures_boxes_of_a_table_with_few_records(each: int, side: int) -> None:
    """Of 64 × 64 cells; with an ε of 1 the noise of N cannot change the choice."""
    table = np.full(4096, each, dtype=np.int64)
    values = release(Auto(use="bins"), table, shape=(64, 64)).numbers.reshape(64, 64)
    boxes = values.reshape(64 // side, side, 64 // side, side)
    assert (np.ptp(boxes, axis=(1, 3)) < 1e-9).all()
    assert len(np.unique(values.round(6))) <= (64 // side) ** 2


def test_auto_takes_a_few_boxes_for_ranges_of_a_table_with_hardly_any_records() -> None:
    meter = new_meter("1", 4096, 3)
    values = Auto().estimate(seal(np.zeros(4096, dtype=np.int64), 0, shape=(64, 64)), Fraction(1), meter)
    assert [charge.purpose for charge in meter.charges] == ["number of records", "publish"]
    assert (np.ptp(values.numbers.reshape(8, 8, 8, 8), axis=(1, 3)) < 1e-9).all()


def test_with_a_total_all_of_epsilon_is_spent_on_the_rest() -> None:
    for method in (Haar(), Haar(blocks=Fraction(1, 4)), AdaptiveGrid()):
        meter = new_meter("2", 100, 1)
        x = seal(np.arange(100), 0)
        method.with_total(x, meter.laplace(x.total(), Fraction(1), "number"), Fraction(1), meter)
        assert sum(charge.epsilon for charge in meter.charges) == 2


@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (3, 16, 2), (1, 9), (96, 2, 12)])
def test_the_curve_passes_every_cell_once(shape: tuple[int, ...]) -> None:
    places = along_curve(shape)
    assert np.sort(places).tolist() == list(range(math.prod(shape)))


def test_cells_come_back_where_they_were() -> None:
    table = (np.arange(60) % 13 * 100).astype(np.int64)
    values = release(Haar(order="z"), table, noise=NoNoise(), shape=(5, 12))
    assert np.allclose(values.numbers, table, atol=1e-6)


@pytest.mark.parametrize(("name", "value"), [("order", "columns"), ("side", 0), ("side", 2.0)])
def test_orders_have_names_and_sides_are_whole(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Haar(**{name: value})  # type: ignore[arg-type]
    assert caught.value.name == name


def test_boxes_stand_alone() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Haar(side=2, blocks=Fraction(1, 3))
    assert caught.value.name == "side"


def test_what_boxes_hold_is_spread_evenly_and_so_is_the_noise_they_state() -> None:
    table = np.arange(7 * 10, dtype=np.int64) * 100
    values = release(Haar(side=4), table, noise=NoNoise(), shape=(7, 10))
    grid, truth = values.numbers.reshape(7, 10), table.reshape(7, 10)
    for rows in (slice(0, 4), slice(4, 7)):
        for columns in (slice(0, 4), slice(4, 8), slice(8, 10)):
            assert np.allclose(grid[rows, columns], truth[rows, columns].mean(), atol=1e-6)
    noisy = release(Haar(side=4), table, "1/10", shape=(7, 10))
    deviations = np.asarray(noisy.std).reshape(7, 10)
    assert deviations[0, 0] == pytest.approx(deviations[6, 9] * 6 / 16)


@pytest.mark.parametrize("blocks", [Fraction(-1, 3), Fraction(1), Fraction(3, 2)])
def test_a_share_of_blocks_lies_between_0_and_1(blocks: Fraction) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Haar(blocks=blocks)
    assert caught.value.name == "blocks"


def test_a_threshold_has_no_blocks() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Haar("threshold", blocks=Fraction(1, 3))
    assert caught.value.name == "blocks"
