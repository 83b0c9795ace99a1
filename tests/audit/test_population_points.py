"""Points among streams of one population: what a person who is in all of it loses, exactly, by the noise alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.audit.test_population import CAP, Scales, Stream, ask, loss
from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError
from veilstream.mechanisms.session import Session
from veilstream.metric import HatGrid, MetricGuarantee, PointMechanism, SortedPoints, Space, person_price
from veilstream.metric.filling import Filling
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population_limit import Pool, PoolDraws
from veilstream.privacy.population_pool import Drawn, Member, StreamDraws
from veilstream.privacy.population_profile import Profile
from veilstream.trusted.meter import Meter
from veilstream.trusted.meter.person import PersonMeter
from veilstream.trusted.opening import open_counts
from veilstream.trusted.statistics.metric import cell_counts, hat_counts, sorted_points

CELLS = 5


@dataclass
class Points(Stream):
    """A one-time release of points, whose data are all those of its first step."""

    lost: Fraction = Fraction(0)

    def release(self, dice: Dice, streams: list[Stream], w: int, *, naive: bool) -> None:
        """Publish points of three people, if the pool has what one of them costs; ``naive`` charges one move."""
        distance, epsilon = dice.choice([Fraction(1), Fraction(1, 2), Fraction(3, 10)]), Fraction(1, 16)
        g = MetricGuarantee(epsilon, distance, Space(0, 1))
        grids = [HatGrid(CELLS, "flow"), HatGrid(CELLS, "nodes"), HatGrid(CELLS, "cells")]
        choices: list[PointMechanism] = [SortedPoints(), *grids]
        mechanism = dice.choice(choices)
        members = [one.member(once=False) for one in streams]

        def fetch(_cells: Span | None, _blocks: Collection[int]) -> PoolDraws:
            draws = [StreamDraws(member, Profile([], w)) for member in members]
            for one, made in zip(streams, draws, strict=True):
                made.count(map(Drawn.of, one.charges))
            return PoolDraws.of(draws, w)

        make: Any = Meter if naive else partial(PersonMeter, moves=g.moves)
        own = person_price(mechanism, g, 3)
        session = Session(Accountant(Guarantee(own, None), mechanism.size(g, 3)), self.noise, make)
        meter = session.at(0)
        session.limit(Pool("p", CAP, w, self.member(once=False), fetch))
        with_them, without = (g.seal(some, filling=Filling(3)) for some in ([0.5, 0.5, 0.0], [0.5, 0.5]))
        try:
            mechanism.estimate(with_them, g, meter)
        except BudgetExceededError:
            return
        self.charges: list[Charge] = list(session.charges)
        if isinstance(mechanism, SortedPoints):
            vectors = [open_counts(sorted_points(x)) for x in (with_them, without)]
        else:
            counted = cell_counts if mechanism == HatGrid(CELLS, "cells") else hat_counts
            vectors = [open_counts(counted(x, CELLS)) for x in (with_them, without)]
            if mechanism == HatGrid(CELLS, "flow"):
                # On a line what was carried over an edge is what has gathered behind it.
                vectors = [np.cumsum(masses) for masses in vectors]
        self.lost = int(np.abs(vectors[0] - vectors[1]).sum()) / self.noise.asked[-1][1]

    def member(self, once: bool) -> Member:
        return Member(self.name, None, self.cells)


def run(seed: int, *, naive: bool = False) -> Fraction:
    """The most that a person loses in one window of a random program who is in every step and among the points."""
    dice = Dice(seed, 25)
    counted = [Stream(f"s{i}", dice.between(1, 5), dice.between(-3, 3), dice.choice([1, 2, None])) for i in range(2)]
    points = [Points(f"p{i}", dice.between(1, 30), dice.between(-3, 9), None, Scales()) for i in range(4)]
    streams: list[Stream] = [*counted, *points]
    w = dice.between(1, 6)
    waiting = list(points)
    for turn in range(30):
        if waiting and turn % 6 == 0:
            waiting.pop().release(dice, streams, w, naive=naive)
        ask(dice, streams, dice.choice(counted), w, once=False)
    for one in points:
        if one.charges:
            # As an answer about its only step, of noise that a move by 1 loses as much by as the points do.
            one.answers.append((Span(0, 0), 1 / one.lost))
    assert any(one.charges for one in points)
    return loss(streams, w)


@pytest.mark.parametrize("seed", range(8))
def test_no_program_with_points_loses_more_than_its_cap(seed: int) -> None:
    assert run(seed) <= CAP.pure


def test_charging_points_for_one_move_is_found_out() -> None:
    assert any(run(seed, naive=True) > CAP.pure for seed in range(8))
