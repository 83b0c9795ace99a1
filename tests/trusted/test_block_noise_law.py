"""Block noise is charged once per window, has the stated law, and shows its secret to nobody."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError, SealedAccessError
from veilstream.noise import ExactSampler
from veilstream.noise.cube import rows_within
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.windows import fullest_window
from veilstream.storage.codec import decode, encode
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.block_noise import NoiseBlock, block_variance
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter


def looked(length: int, steps: int, w: int | None, epsilon: Fraction) -> list[vs.Charge]:
    accountant, noise = Accountant(vs.Guarantee(1, w=w), 2), ExactSampler(SeededSource(3))
    block: NoiseBlock | None = None
    charges: list[vs.Charge] = []
    for t in range(steps):
        meter = Meter(accountant, noise, t)
        open_block = block if block is not None and block.left else None
        _, block = meter.block_laplace(seal(np.array([5, 6]), t), epsilon, length, "look", open_block)
        charges += meter.charges
    return charges


@pytest.mark.parametrize(("length", "w", "blocks"), [(4, 4, 2), (3, 7, 3), (5, 2, 2), (1, 3, 3)])
def test_a_window_pays_once_for_every_block_that_it_touches(length: int, w: int, blocks: int) -> None:
    charges = looked(length, 30, w, Fraction(1, blocks))
    assert fullest_window(charges, w)[0] == 1
    with pytest.raises(BudgetExceededError):
        looked(length, 30, w, Fraction(1, blocks) + Fraction(1, 1000))


def test_a_horizon_pays_for_each_block_once() -> None:
    assert fullest_window(looked(5, 20, None, Fraction(1, 4)), None)[0] == 1


@pytest.mark.parametrize(("rows", "entries"), [(1, 1), (2, 2), (1, 3)])
def test_no_movement_of_one_unit_changes_a_probability_by_more(rows: int, entries: int) -> None:
    """All blocks near zero and all movements of at most 1 per row: the exact loss is at most, and reaches, the rate."""
    near = [row for row in product(range(-3, 4), repeat=entries) if sum(map(abs, row)) <= 3]
    moves = [row for row in product((-1, 0, 1), repeat=entries) if sum(map(abs, row)) <= 1]
    losses: list[int] = []
    for block in product(near, repeat=rows):
        radius = max(sum(map(abs, row)) for row in block)
        for move in product(moves, repeat=rows):
            moved = max(
                sum(abs(a + b) for a, b in zip(row, by, strict=True)) for row, by in zip(block, move, strict=True)
            )
            losses.append(abs(moved - radius))
    assert max(losses) == 1


@pytest.mark.parametrize(("rate", "length", "entries"), [(Fraction(1), 2, 2), (Fraction(1, 2), 1, 3)])
def test_blocks_follow_the_law(rate: Fraction, length: int, entries: int) -> None:
    """Chi-square over radii and over rows within a radius; four tests at level 1e-8, false alarm 4e-8."""
    draws = 40_000
    drawn = ExactSampler(SeededSource(11)).blocks(rate, length, entries, draws)
    assert drawn.shape == (draws, length, entries)
    largest = np.abs(drawn).sum(axis=2).max(axis=1)
    shells = [
        rows_within(r, entries) ** length - (rows_within(r - 1, entries) ** length if r else 0) for r in range(200)
    ]
    law = np.array([float(shell) * float(np.exp(-float(rate) * r)) for r, shell in enumerate(shells)])
    expected = law / law.sum() * draws
    usual = expected > 20
    seen = np.bincount(largest, minlength=200)[:200]
    assert usual.sum() > 5
    assert stats.chisquare(seen[usual], expected[usual] * seen[usual].sum() / expected[usual].sum()).pvalue > 1e-8
    rows = (
        drawn[largest == 2].reshape(-1, entries) if length == 1 else drawn[largest <= 1].reshape(-1, entries * length)
    )
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert stats.chisquare(counts).pvalue > 1e-8 if length == 1 else counts.size == rows_within(1, entries) ** length


def test_the_stated_standard_deviation_is_the_noise_s() -> None:
    drawn = ExactSampler(SeededSource(12)).blocks(Fraction(1, 50), 6, 2, 20_000)
    assert float(drawn.std()) == pytest.approx(block_variance(6, 2, 1 / 50) ** 0.5, rel=0.03)


def test_a_block_survives_the_codec_and_shows_nothing() -> None:
    meter = Meter(Accountant(vs.Guarantee(1, w=4), 1), ExactSampler(SeededSource(5)), 0)
    _, block = meter.block_laplace(seal(np.array([9]), 0), Fraction(1, 2), 3, "look")
    stored = encode(block)
    again = decode(stored.header, stored.arrays, NoiseBlock)
    assert (again.left, again.block, again.epsilon) == (2, block.block, Fraction(1, 2))
    with pytest.raises(SealedAccessError):
        list(block)
    assert "array" not in repr(block)


def test_a_block_refuses_counts_that_it_was_not_drawn_for() -> None:
    accountant = Accountant(vs.Guarantee(1, w=4), 2)
    meter = Meter(accountant, ExactSampler(SeededSource(5)), 0)
    _, block = meter.block_laplace(seal(np.array([9]), 0), Fraction(1, 2), 3, "look")
    later = Meter(accountant, ExactSampler(SeededSource(5)), 1)
    with pytest.raises(InvalidInputError):
        later.block_laplace(seal(np.array([9, 9]), 1), Fraction(1, 2), 3, "look", block)
    with pytest.raises(InvalidInputError):
        later.block_laplace(seal(np.array([9]), 1, 2), Fraction(1, 2), 3, "look", block)
