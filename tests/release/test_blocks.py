"""Sparse-vector blocks on a durable ledger: they go on after a restart, and their cost is counted once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError
from veilstream.privacy.windows import fullest_window
from veilstream.testing.checks import check_stream
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.threshold import SealedThreshold
from veilstream.values.values import Values


@dataclass(frozen=True)
class State:
    last: Values | None = None
    threshold: SealedThreshold | None = None


@dataclass(frozen=True)
class Watch:
    """Publishes when the total has passed a million: one comparison a step in one block that never closes."""

    epsilon: Fraction = Fraction(1, 100)

    def start(self, guarantee: vs.Guarantee, bins: int) -> State:
        return State()

    def step(self, state: State, now: Sealed, meter: Meter) -> tuple[State, Values]:
        if state.last is None:
            first = meter.laplace(now, self.epsilon, "publish")
            return State(first), first
        threshold = state.threshold
        if threshold is None:
            threshold = meter.open_threshold(self.epsilon, self.epsilon / 4, now.l1, "decide")
        if meter.above(threshold, now.total(), 10**6):
            last = meter.laplace(now, self.epsilon, "publish")
            return State(last, threshold), last
        return State(state.last, threshold), state.last.repeated()


# Noise of scale 400 passes neither way by a million: a false alarm has probability below e^-2000.
CALM, LOUD = np.array([5, 5, 5]), np.array([10**6] * 3)


def test_a_block_is_charged_once_however_long_it_lasts_and_across_restarts(tmp_path: Path) -> None:
    guarantee = vs.Guarantee(1, w=None)

    def publisher() -> vs.Publisher[State]:
        return vs.Publisher(3, guarantee, Watch(), tmp_path / "budget.db")

    lefts: list[Fraction] = []
    for counts in (CALM, CALM, CALM, CALM, LOUD, CALM):
        with publisher() as p:
            lefts.append(p.feed(counts).left)
    hundredth = Fraction(1, 100)
    opened = 1 - 2 * hundredth
    assert lefts == [1 - hundredth, opened, opened, opened, opened - hundredth * 3 / 2, opened - hundredth * 3 / 2]
    with publisher() as p:
        charges = [row.charge for row in p.ledger.charges("default")]
    assert fullest_window(charges, None, 3)[0] == 1 - lefts[-1]
    assert {charge.block for charge in charges} == {None, 1}


def test_what_a_step_spent_does_not_count_a_block_again(tmp_path: Path) -> None:
    p = vs.Publisher(3, vs.Guarantee(1, w=8), Watch(), tmp_path / "budget.db")
    assert [p.feed(CALM).spent for _ in range(4)] == [Fraction(1, 100), Fraction(1, 100), 0, 0]


def test_the_watcher_conforms_where_its_budget_allows() -> None:
    check_stream(Watch(Fraction(1, 1000)))


def test_a_comparison_that_could_not_be_paid_is_refused(tmp_path: Path) -> None:
    p = vs.Publisher(3, vs.Guarantee("24/1000", w=None), Watch(), tmp_path / "budget.db")
    p.feed(CALM)
    with pytest.raises(BudgetExceededError, match="for 'decide' at t=1"):
        p.feed(CALM)
