"""EFPA, Privelet+ and Barak: worked examples without noise, and the variances that their papers derive."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.mechanisms.histograms import EFPA, Barak, Geometric, Privelet
from veilstream.mechanisms.histograms.privelet import privelet_axis_gains
from veilstream.noise.spread import laplace_std
from veilstream.testing.batch import BatchMeter
from veilstream.testing.fakes import NoNoise
from veilstream.trusted.counts import seal
from veilstream.trusted.transforms import haar, inverse_haar, walsh

from .support import new_meter, release


def many(histogram: Privelet | Barak, counts: NDArray[np.int64], epsilon: str, runs: int) -> NDArray[np.float64]:
    one = new_meter(epsilon, counts.size, 20_120_413)
    meter = BatchMeter(one._accountant, one._noise, 0, batch=(runs,))
    return np.asarray(histogram.estimate(seal(counts, 0), Fraction(epsilon), meter).numbers, dtype=np.float64)


# --- EFPA ---------------------------------------------------------------------------------------------------


def test_efpa_keeps_the_coordinates_that_matter_and_calibrates_each_to_their_root() -> None:
    wave = np.rint(10_000 + 5_000 * np.cos(2 * np.pi * np.arange(100) / 100)).astype(np.int64)
    noise = NoNoise()
    values = release(EFPA(), wave, "1/10", noise)
    # Mean, cosine and sine of one period: k = 3. Each gets Lap(√3 / (ε/2)) on the grid of 2⁻²⁰.
    assert np.abs(values.numbers - wave).max() < 1
    assert float(noise.scales[0]) / 2**20 == pytest.approx(math.sqrt(3) * 20, rel=0.01)
    assert float(noise.rates[0]) * 2**20 == pytest.approx(0.05 / 2, rel=0.01)
    assert values.std == pytest.approx(laplace_std(math.sqrt(3) * 20) * math.sqrt(3 / 100), rel=0.01)


def test_efpa_noise_has_the_declared_size_whatever_the_cutoff() -> None:
    flat = np.full(101, 1000, dtype=np.int64)
    released = [release(EFPA(), flat, "1/2", seed) for seed in range(1500)]
    ratios = [((values.numbers - 1000) ** 2).mean() / float(values.std) ** 2 for values in released]
    # Given the cutoff each ratio has mean 1 and variance at most 5 (one Laplace coordinate): 6 standard errors.
    assert np.mean(ratios) == pytest.approx(1, abs=6 * math.sqrt(5 / 1500))


def test_fallback_is_plain_noise_of_half_the_budget_where_nothing_compresses() -> None:
    rough = np.zeros(4096, dtype=np.int64)
    rough[::7] = 10**6
    rough[::11] = 3 * 10**6
    silent = NoNoise()
    values = release(EFPA(fallback=True), rough, "1", silent)
    assert values.numbers.tolist() == rough.tolist()
    assert silent.scales == [Fraction(2)]


# --- Privelet+ ----------------------------------------------------------------------------------------------


def test_privelet_by_hand() -> None:
    noise = NoNoise()
    values = release(Privelet(direct=()), np.array([5, 1, 2, 2, 0]), "1", noise)
    assert values.numbers.tolist() == [5, 1, 2, 2, 0]
    # Padded to 8 bins: 1 + 3 coefficients per count.
    assert noise.scales == [Fraction(4)]


def test_privelet_transforms_the_chosen_axes_only() -> None:
    noise = NoNoise()
    table = np.arange(12, dtype=np.int64)
    values = release(Privelet(direct=(1,)), table, "1", noise, shape=(4, 3))
    assert values.numbers.tolist() == table.tolist()
    assert noise.scales == [Fraction(3)]
    assert release(Privelet(direct=()), table, "1", noise, shape=(4, 3)).numbers.tolist() == table.tolist()
    assert noise.scales[1] == Fraction(3 * 3)


@pytest.mark.parametrize("size", [64, 100])
def test_privelet_errors_have_the_declared_size_and_no_bias(size: int) -> None:
    runs = 4000
    counts = np.arange(size, dtype=np.int64)
    errors = many(Privelet(direct=()), counts, "1", runs) - counts
    std = release(Privelet(direct=()), counts, "1", 1).std
    assert isinstance(std, float)
    # 5.3 standard errors per bin, 100 bins: false alarm below 1e-6 · 100 / 8 for a nearly Gaussian mean of 4,000.
    assert np.abs(errors.mean(axis=0)).max() < 6 * std / math.sqrt(runs)
    assert errors.var() == pytest.approx(std**2, rel=0.05)


@pytest.mark.parametrize("size", [3, 8, 20])
def test_the_rule_for_axes_is_the_average_over_all_ranges(size: int) -> None:
    """Against the definition: the variance of every range, from the rows of the inverse transform."""
    padded = 1 << (size - 1).bit_length()
    rows = inverse_haar(np.eye(padded), [1])[:, :size]
    sums = np.concatenate([np.zeros((padded, 1)), np.cumsum(rows, axis=1)], axis=1)
    ranges = [(a, b) for a in range(size + 1) for b in range(a + 1, size + 1)]
    wavelet = np.mean([((sums[:, b] - sums[:, a]) ** 2).sum() for a, b in ranges]) * padded.bit_length() ** 2
    direct = np.mean([b - a for a, b in ranges])
    assert privelet_axis_gains(size) == pytest.approx(direct / wavelet)


def test_half_of_all_bins_gets_the_variance_of_the_paper() -> None:
    size, runs = 1024, 1500
    counts = np.zeros(size, dtype=np.int64)
    half = many(Privelet(direct=()), counts, "1", runs)[:, : size // 2].sum(axis=1)
    # Half of the bins = (total + top difference) / 2: two coefficients with weight 1/2 each.
    expected = 2 * laplace_std(11.0) ** 2 / 4
    assert half.var() == pytest.approx(expected, rel=6 * math.sqrt(5 / runs))


# --- Barak --------------------------------------------------------------------------------------------------


def marginal(values: NDArray[np.float64], shape: tuple[int, ...], kept: tuple[int, ...]) -> NDArray[np.float64]:
    other = tuple(axis for axis in range(len(shape)) if axis not in kept)
    return np.asarray(np.asarray(values, dtype=np.float64).reshape(shape).sum(axis=other))


def test_barak_reproduces_the_marginals_it_keeps() -> None:
    shape = (2, 4, 2, 2)
    table = np.arange(32, dtype=np.int64) ** 2 % 13
    noise = NoNoise()
    values = release(Barak(order=2), table, "1", noise, shape=shape).numbers.astype(np.float64)
    for kept in ((0,), (0, 1), (1, 3), (2, 3)):
        assert np.allclose(marginal(values, shape, kept), marginal(table.astype(np.float64), shape, kept))
    # 1 + (1+3+1+1) + (3+1+1+3+3+1) coefficients, each with weight 1 in every count.
    assert noise.scales == [Fraction(1 + 6 + 12)]


def test_barak_marginals_agree_and_have_the_variance_of_the_kept_coefficients() -> None:
    shape, runs = (2, 2, 2), 4000
    table = np.array([5, 1, 0, 2, 9, 9, 3, 1])
    flat = many(Barak(marginals=((0, 1), (2,))), table, "1", runs)
    tables = flat.reshape(runs, *shape)
    # {}, {0}, {1}, {0,1}, {2}: five coefficients. On a line of 8 bins the digits are the attributes.
    ones = tables.sum(axis=(1, 2))
    variance = 2 * laplace_std(5.0) ** 2 / 4
    truth = table.reshape(shape).sum(axis=(0, 1))
    assert ones.var(axis=0) == pytest.approx([variance, variance], rel=6 * math.sqrt(5 / runs))
    assert np.abs(ones.mean(axis=0) - truth).max() < 6 * math.sqrt(variance / runs)
    assert np.allclose(tables.sum(axis=(1, 2, 3)), tables.sum(axis=3).sum(axis=(1, 2)))


def test_padded_attributes_keep_unbiased_marginals_up_to_what_falls_on_the_padding() -> None:
    table = np.arange(15, dtype=np.int64)
    values = release(Barak(order=2), table, "1", NoNoise(), shape=(5, 3)).numbers
    assert np.allclose(values, table)


def test_low_order_marginals_beat_plain_noise() -> None:
    counts = np.full(1024, 20, dtype=np.int64)

    def spread(histogram: Barak | Geometric) -> float:
        runs = [release(histogram, counts, "1/10", seed).numbers for seed in range(30)]
        return float(np.std([run.reshape(2, 512).sum(axis=1) for run in runs]))

    assert spread(Barak(order=1)) < spread(Geometric()) / 2


# --- transforms ---------------------------------------------------------------------------------------------


def test_transforms_are_inverted() -> None:
    table = np.arange(64, dtype=np.int64).reshape(4, 2, 8) ** 2 % 19
    assert np.array_equal(inverse_haar(haar(table, [0, 2]), [0, 2]), table)
    assert np.array_equal(walsh(walsh(table.reshape(-1))), 64 * table.reshape(-1))
