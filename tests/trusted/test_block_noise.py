"""Blocks of noise: no row of one is ever added to two vectors, whose difference would be exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from veilstream.errors import InvalidInputError
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter

HALF = Fraction(1, 2)


def counts(t: int) -> Sealed:
    return seal(np.array([5, 7 + t]), t)


class Stream:
    """An accountant and what a ledger recorded for it."""

    def __init__(self) -> None:
        self.accountant = Accountant(Guarantee(1, w=4), 2)
        self.recorded: list[tuple[int, Charge]] = []

    def meter(self, t: int) -> Meter:
        return Meter(self.accountant, ExactSampler(SeededSource(t)), t)

    def look(self, t: int, block: NoiseBlock | None) -> NoiseBlock:
        meter = self.meter(t)
        after = meter.block_laplace(counts(t), HALF, 4, "look", block)[1]
        self.recorded += [(t, charge) for charge in meter.charges]
        return after

    def restarted(self) -> Stream:
        again = Stream()
        for t, charge in self.recorded:
            again.accountant.advance(t)
            again.accountant.replay(charge)
        again.recorded = self.recorded
        return again


def test_a_row_is_not_added_twice_in_one_step() -> None:
    meter = Stream().meter(0)
    _, second = meter.block_laplace(counts(0), HALF, 4, "look")
    assert meter.is_open(second)
    meter.block_laplace(counts(0), HALF, 4, "look", second)
    assert not meter.is_open(second)
    with pytest.raises(InvalidInputError, match="rows of it were used"):
        meter.block_laplace(counts(0) + counts(0), HALF, 4, "look", second)


@pytest.mark.parametrize("restart", [False, True])
def test_a_row_is_not_added_twice_in_two_steps(restart: bool) -> None:
    stream = Stream()
    second = stream.look(0, None)
    third = stream.look(1, second)
    stream = stream.restarted() if restart else stream
    with pytest.raises(InvalidInputError, match="rows of it were used"):
        stream.look(2, second)
    stream.look(2, third)


@pytest.mark.parametrize("later", [1, 3])
def test_a_row_that_a_failed_step_used_is_not_used_again(later: int) -> None:
    """The step's charges are on record, the block that it left behind is lost, and the state has the one before."""
    stream = Stream()
    second = stream.look(0, None)
    stream.look(1, second)
    again = stream.restarted()
    assert not again.meter(later).is_open(second)
    with pytest.raises(InvalidInputError, match="rows of it were used"):
        again.look(later, second)


def test_a_block_is_paid_for_once_in_every_window_that_it_reads() -> None:
    stream, block = Stream(), None
    for t in range(4):
        block = stream.look(t, block)
        assert stream.meter(t).left == HALF
    with pytest.raises(InvalidInputError, match="was closed"):
        stream.look(4, block)
