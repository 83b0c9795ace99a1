"""Optimised strategies: their errors are what their formulas say, and less than those of plainer ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.mechanisms.histograms.support import new_meter, release
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import HB, Barak, Geometric, Marginals, Matrix, Privelet
from veilstream.mechanisms.histograms._strategies import Law, Tree, best_tree, exact_shares, workload_error
from veilstream.mechanisms.histograms.dawa import morton_order
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.fakes import NoNoise
from veilstream.testing.simulation import simulate
from veilstream.trusted.counts import seal


def dense(tree: Tree) -> NDArray[np.float64]:
    """The strategy as a matrix, rows weighted by the precision of their level."""
    rows = []
    for level in tree.measured:
        for node in range(tree.nodes(level)):
            row = np.zeros(tree.size)
            row[node * tree.width(level) : (node + 1) * tree.width(level)] = 1
            rows.append(row * np.sqrt(tree.precisions()[level]))
    return np.array(rows)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("branching", "height"), [(3, 3), (2, 5), (5, 2)])
def test_least_squares_and_variances_are_those_of_the_dense_matrix(branching: int, height: int, law: Law) -> None:
    tree = Tree(branching**height, branching, exact_shares(np.arange(1.0, height + 2)), law)
    strategy = dense(tree)
    inverse = np.linalg.inv(strategy.T @ strategy)
    assert tree.bin_variance() == pytest.approx(float(np.diag(inverse).mean()), rel=1e-9)
    noisy = {level: np.arange(tree.nodes(level), dtype=np.float64) ** 2 for level in tree.measured}
    stacked = np.concatenate([noisy[level] * np.sqrt(tree.precisions()[level]) for level in tree.measured])
    assert np.allclose(tree.solve(noisy, -1), inverse @ strategy.T @ stacked)
    assert sum(tree.shares) == 1


def test_optimised_shares_beat_equal_ones_and_plain_noise() -> None:
    for size in (64, 1000, 4096):
        best = workload_error(best_tree(size, "ranges", "laplace"), "ranges")
        flat = Tree(size, size, exact_shares(np.array([0.0, 1.0])), "laplace")
        sixteen = Tree(size, 16, exact_shares(np.ones(1 + int(np.ceil(np.log(size) / np.log(16))))), "laplace")
        assert best <= workload_error(flat, "ranges")
        assert best <= workload_error(sixteen, "ranges")


@pytest.mark.parametrize("shape", [(4096,), (96, 40)])
def test_the_stated_noise_of_the_matrix_mechanism_is_its_noise(shape: tuple[int, ...]) -> None:
    """3,840 correlated values and more: 15% off the standard deviation is beyond 1e-6."""
    x = np.zeros(int(np.prod(shape)), dtype=np.int64)
    values = Matrix("prefixes").estimate(seal(x, 0, shape=shape), Guarantee(1, w=1).pure, new_meter("1", x.size, 3))
    assert float(values.numbers.std()) == pytest.approx(float(values.std), rel=0.15)
    pruned = HB(prune=0.0).estimate(seal(x, 0, shape=shape), Guarantee(1, w=1).pure, new_meter("1", x.size, 3))
    assert float(pruned.numbers.std()) == pytest.approx(float(np.sqrt(np.mean(np.square(pruned.std)))), rel=0.15)


def test_gaussian_strategies_charge_their_share_of_mu_squared() -> None:
    guarantee = Guarantee(1, w=1, delta="1e-6")
    table = np.full((1, 4096), 20)
    y = simulate(Sample(Matrix("ranges", "gaussian")), guarantee, table, seed=2)[0]
    plain = simulate(Sample(Matrix("bins", "gaussian")), guarantee, table, seed=2)[0]
    assert abs(y[300:3300].sum() - 60_000) < abs(plain).sum()
    with pytest.raises(Exception, match="delta"):
        simulate(Sample(Marginals(noise="gaussian")), Guarantee(1, w=1), table, seed=2)


@pytest.mark.parametrize("shape", [(6, 5, 4, 3), (2,) * 8])
def test_marginals_beat_barak_and_plain_noise_on_all_pairs(shape: tuple[int, ...]) -> None:
    """Means of 20 runs, expected ratios below 0.8: chance would have to bring a quarter."""
    x = np.arange(int(np.prod(shape))) % 11

    def error(histogram: HistogramMechanism) -> float:
        errors = []
        for seed in range(20):
            meter = new_meter("1", x.size, seed)
            values = histogram.estimate(seal(x, 0, shape=shape), meter.guarantee.pure, meter)
            off = (values.numbers - x).reshape(shape)
            for pair in itertools.combinations(range(len(shape)), 2):
                others = tuple(axis for axis in range(len(shape)) if axis not in pair)
                errors.append(float(np.abs(off.sum(axis=others)).mean()))
        return float(np.mean(errors))

    ours = error(Marginals())
    assert ours < 0.9 * error(Barak())
    assert ours < 1.05 * error(Geometric())


def test_marginals_of_a_table_without_noise_come_back() -> None:
    x = np.arange(60) % 7
    values = release(Marginals(marginals=((0, 2), (1,))), x, shape=(3, 4, 5), noise=NoNoise())
    table, exact = values.numbers.reshape(3, 4, 5), x.reshape(3, 4, 5)
    assert np.allclose(table.sum(axis=1), exact.sum(axis=1))
    assert np.allclose(table.sum(axis=(0, 2)), exact.sum(axis=(0, 2)))
    with pytest.raises(InvalidInputError, match="distinct attributes"):
        release(Marginals(marginals=((0, 9),)), x, shape=(3, 4, 5))


def test_ranges_have_a_third_less_error_than_with_wavelets() -> None:
    """Standard deviations of 60 sums of half the bins; expected ratio 0.57, chance of 0.8 below 1e-6."""
    flat, g = np.full((1, 4096), 50), Guarantee("1/10", w=1)
    noise = [
        np.std([simulate(Sample(h), g, flat, seed=seed)[0, 777:2800].sum() for seed in range(60)])
        for h in (Matrix(), Privelet())
    ]
    assert noise[0] < 0.85 * noise[1]


def test_blocks_in_morton_order_are_boxes() -> None:
    order = morton_order((8, 4))
    assert order is not None
    assert sorted(order.tolist()) == list(range(32))
    for block in order.reshape(-1, 4):
        rows, columns = np.divmod(block, 4)
        assert np.ptp(rows) == np.ptp(columns) == 1
    assert morton_order((9,)) is None
