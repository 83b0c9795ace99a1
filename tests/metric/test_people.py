"""Points of a public number of people: what one person changes, and what one person loses by the noise alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream import Membership, Population
from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError, ChargeError, InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.session import Session
from veilstream.metric import (
    ChosenMedian,
    HatGrid,
    MetricGuarantee,
    PointMechanism,
    SmoothMedian,
    SortedPoints,
    Space,
    person_price,
    release_points,
)
from veilstream.metric.filling import MAX_PEOPLE, Filling
from veilstream.metric.release import PointRelease
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify
from veilstream.trusted.meter import Meter
from veilstream.trusted.meter.person import PersonMeter
from veilstream.trusted.opening import open_counts, open_scores, opened
from veilstream.trusted.points import SealedPoints
from veilstream.trusted.statistics.metric import cell_counts, hat_counts, order_scores, smooth_order, sorted_points
from veilstream.values.values import Values

LINE = Space(0, 1)
PEOPLE = 3
PLACES = (0.0, 0.26, 0.5, 0.9, 1.0)
MECHANISMS: dict[str, PointMechanism] = {
    "sorted": SortedPoints(),
    "edges": HatGrid(cells=5, noise="flow"),
    "nodes": HatGrid(cells=5, noise="nodes"),
    "cells": HatGrid(cells=5, noise="cells"),
    "chosen": ChosenMedian(bits=6),
    "smooth": SmoothMedian(),
}


def length(metric: str, step: list[int]) -> float:
    return {"euclidean": math.hypot(*step), "manhattan": sum(map(abs, step)), "maximum": max(map(abs, step))}[metric]


def test_a_chain_of_moves_leads_from_anywhere_to_anywhere() -> None:
    """On the grid of whole coordinates, which are what the promise of a move is about."""
    dice = Dice(11, 3000)
    tried = 0
    for _ in range(150):
        axes = dice.between(1, 3)
        high = [Fraction(dice.between(1, 50), dice.between(1, 7)) for _ in range(axes)]
        metric = dice.choice(["euclidean", "manhattan", "maximum"])
        space = Space((0,) * axes, tuple(high), metric)
        g = MetricGuarantee(1, space.diameter * Fraction(dice.between(1, 40), 37), space)
        ends = (
            [dice.choice([0, side, dice.below(side)]) for side in space.sides],
            [dice.choice([0, side, dice.below(side)]) for side in space.sides],
        )
        chain = [
            [a + math.floor(Fraction(step * (b - a), g.moves) + Fraction(1, 2)) for a, b in zip(*ends, strict=True)]
            for step in range(g.moves + 1)
        ]
        assert (chain[0], chain[-1]) == ends
        for one, other in pairwise(chain):
            assert all(0 <= place <= side for place, side in zip(other, space.sides, strict=True))
            # Lengths are below 2^31, in floating point off by less than 2^-20.
            assert length(metric, [b - a for a, b in zip(one, other, strict=True)]) <= g.reach + Fraction(1, 1 << 20)
            tried += 1
    assert tried > 500


def test_one_person_changes_one_point_whatever_the_number() -> None:
    """Who comes, goes, moves or appears earlier or later in the file; more and fewer people than was said."""
    dice = Dice(5, 4000)
    for _ in range(200):
        filling = Filling(dice.between(1, 6), Fraction(dice.between(1, 9), 10))
        others = [dice.between(1, 9) for _ in range(dice.between(0, 8))]
        versions = [others]
        for _ in range(2):
            at = dice.between(0, len(others))
            versions.append([*others[:at], dice.between(1, 9), *others[at:]])
        made = [
            Counter(filling.filled(np.array(some, dtype=np.int64).reshape(-1, 1), (10,)).ravel().tolist())
            for some in versions
        ]
        for one in made:
            assert one.total() == filling.people
            assert all((one - other).total() <= 1 for other in made)


def test_a_quantile_stays_where_it_is() -> None:
    points = np.arange(1, 101)[:, None]
    for part in (Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)):
        wanted = math.ceil(part * 100)
        for people in (100, 101, 137, 500):
            filled = np.sort(Filling(people, part).filled(points, (1000,)).ravel())
            assert abs(int(filled[math.ceil(part * people) - 1]) - wanted) <= 1


@dataclass
class Asked:
    """A source of noise that draws none and remembers how much was asked for."""

    scales: list[Fraction] = field(default_factory=list[Fraction])

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.scales.append(Fraction(scale))
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        raise AssertionError

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        self.scales.append(1 / rate)
        return 0


def everybody(g: MetricGuarantee) -> list[SealedPoints]:
    """Every set of up to as many people as was said, filled up to the number."""
    sets = [some for size in range(PEOPLE + 1) for some in combinations_with_replacement(PLACES, size)]
    return [g.seal(np.array(some), filling=Filling(PEOPLE)) for some in sets]


def neighbours() -> list[tuple[int, int]]:
    """Which of those sets differ in one person, who is there or not or somewhere else."""
    sets = [some for size in range(PEOPLE + 1) for some in combinations_with_replacement(PLACES, size)]
    counted = [Counter(some) for some in sets]
    return [
        (i, j)
        for i, one in enumerate(counted)
        for j, other in enumerate(counted)
        if i != j and (one - other).total() <= 1 and (other - one).total() <= 1
    ]


def cauchy_loss(laws: NDArray[np.float64], s: float) -> float:
    """The largest log ratio of densities over many places, near and far from where they are largest."""
    pairs = np.unique(np.array([[*laws[i], *laws[j]] for i, j in neighbours()]), axis=0)
    (one, spread, other, stretched) = pairs.T[:, :, None]
    near = np.sinh(np.linspace(-24, 24, 193))
    y = np.concatenate([one + near * spread, other + near * stretched], axis=1)
    a, b = spread / s, stretched / s
    logs = np.log(b / a) + np.log1p(((y - other) / b) ** 2) - np.log1p(((y - one) / a) ** 2)
    return float(logs.max())


def charged_and_lost(mechanism: PointMechanism, g: MetricGuarantee) -> tuple[Fraction, float]:
    """What the Meter charges for a person, and the most that a person loses, from the noise and all pairs of sets."""
    source: Any = SecureNoise() if isinstance(mechanism, SmoothMedian) else Asked()
    accountant = Accountant(Guarantee(1000, None), mechanism.size(g, PEOPLE))
    session = Session(accountant, source, partial(PersonMeter, moves=g.moves))
    sets = everybody(g)
    mechanism.estimate(sets[0], g, session.at(0))
    (charge,) = session.charges
    assert charge.epsilon == person_price(mechanism, g, PEOPLE)
    if isinstance(mechanism, SmoothMedian):
        laws = np.array([[float(part) for part in opened(smooth_order(x, 2, g.epsilon / 2))] for x in sets])
        return charge.epsilon, cauchy_loss(laws, float(g.epsilon) / 2)
    (scale,) = source.scales
    if isinstance(mechanism, ChosenMedian):
        weights = [open_scores(order_scores(x, 2, mechanism.bits)) / float(scale) for x in sets]
        logs = [weight - np.log(np.exp(weight).sum()) for weight in weights]
        return charge.epsilon, max(float((logs[i] - logs[j]).max()) for i, j in neighbours())
    if isinstance(mechanism, SortedPoints):
        vectors = [open_counts(sorted_points(x)) for x in sets]
    else:
        counted = cell_counts if mechanism == MECHANISMS["cells"] else hat_counts
        masses = [open_counts(counted(x, 5)) for x in sets]
        # On a line what was carried over an edge is what has gathered behind it, and nothing else would do the same.
        edges = isinstance(mechanism, HatGrid) and mechanism.noise == "flow"
        vectors = [np.cumsum(mass) if edges else mass for mass in masses]
    return charge.epsilon, max(float(np.abs(vectors[i] - vectors[j]).sum() / scale) for i, j in neighbours())


@pytest.mark.parametrize("distance", ["1/10", "3/10", 1])
@pytest.mark.parametrize("name", MECHANISMS)
def test_nobody_loses_more_than_is_charged(name: str, distance: Any) -> None:
    """Discrete Laplace noise of scale b on numbers that move by d in all loses d/b; the others by their chances."""
    g = MetricGuarantee("1/4", distance, LINE)
    charged, lost = charged_and_lost(MECHANISMS[name], g)
    assert lost <= float(charged) * (1 + 1e-9)
    if name in ("sorted", "nodes", "cells"):
        # Nothing is charged in vain: of the grid, whole coordinates leave a few parts in ten thousand.
        assert lost == pytest.approx(float(charged), rel=1e-3)


@pytest.mark.parametrize("name", sorted(MECHANISMS.keys() - {"cells"}))
def test_charging_a_person_for_one_move_is_found_out(name: str) -> None:
    """In cells one move, however short, may do what any other does: there a person costs no more."""
    g = MetricGuarantee("1/4", "1/10", LINE)
    assert charged_and_lost(MECHANISMS[name], g)[1] > 1.5 * float(g.epsilon)


def test_a_person_costs_a_chain_of_moves_or_less() -> None:
    g = MetricGuarantee("1/4", "3/10", LINE)
    price = {name: person_price(mechanism, g, 100) for name, mechanism in MECHANISMS.items()}
    assert price["chosen"] == price["smooth"] == price["edges"] == 1
    assert price["nodes"] == price["cells"] == Fraction(1, 4)
    short = MetricGuarantee("1/4", "1/100", LINE)
    assert person_price(MECHANISMS["cells"], short, 100) == Fraction(1, 4)
    assert person_price(MECHANISMS["nodes"], short, 100) > 4
    assert Fraction(833, 1000) < price["sorted"] < Fraction(834, 1000)
    everywhere = MetricGuarantee("1/4", 1, LINE)
    assert {person_price(mechanism, everywhere, 100) for mechanism in MECHANISMS.values()} == {Fraction(1, 4)}


def in_all(values: NDArray[Any]) -> float:
    return round(float(values.sum()), 3)


@dataclass(frozen=True)
class Crowd:
    """Publishes how many points there are, which no move changes: it keeps any promise about moves at no cost."""

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        return 1

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        return Values(np.array([float(x.count)]), 0.0)


def test_a_promise_about_moves_says_nothing_about_who_is_there() -> None:
    """Without a public number, what is released tells for sure whether a person is there, and a population refuses."""
    g = MetricGuarantee(1, "1/10", LINE)
    with_them, without = [0.1, 0.2, 0.3], [0.1, 0.2]
    told: list[tuple[PointMechanism, Callable[[NDArray[Any]], float]]] = [
        (SortedPoints(), len),
        (HatGrid(cells=4, noise="flow"), in_all),
        (HatGrid(cells=4, noise="nodes"), in_all),
        (HatGrid(cells=4, noise="cells"), in_all),
        (Crowd(), in_all),
    ]
    for mechanism, number in told:
        found = [number(release_points(some, mechanism, g).values) for some in (with_them, without)]
        hidden = [number(release_points(some, mechanism, g, people=5).values) for some in (with_them, without)]
        assert (found, hidden) == ([3, 2], [5, 5])
    with Ledger.open(None) as ledger:
        everyone = Population("p", 2, window=None)
        with pytest.raises(InvalidInputError, match="whether one person is among them") as caught:
            release_points(with_them, SortedPoints(), g, ledger, population=everyone)
        assert caught.value.name == "people"
        assert "--people" in caught.value.next_step
        assert ledger.streams() == []


class Cheap(SortedPoints):
    """Says that a person costs less than its noise proves."""

    def multiple(self, guarantee: MetricGuarantee, points: int) -> Fraction:
        return Fraction(1)


def test_a_price_that_is_too_low_is_refused_before_anything_is_drawn() -> None:
    g = MetricGuarantee("1/4", "3/10", LINE)
    with Ledger.open(None) as ledger:
        with pytest.raises(BudgetExceededError):
            release_points([0.5], Cheap(), g, ledger, people=2)
        assert list(ledger.charges("points")) == []


def test_answers_that_share_a_charge_are_refused() -> None:
    """Comparisons of one block are charged together; a person's price is not proved for them."""
    g = MetricGuarantee(1, "1/2", LINE)
    meter = PersonMeter(Accountant(Guarantee(9, None), 1), SecureNoise(), 0, g.moves)
    total = sorted_points(g.seal([0.5])).total()
    with pytest.raises(ChargeError, match="charged by itself"):
        meter.above(meter.open_threshold(Fraction(1), Fraction(1), Fraction(1 << 30), "test"), total, 3.0)
    assert meter.charges == []


def test_points_share_a_pool_with_everything_else() -> None:
    g = MetricGuarantee("1/8", "1/4", LINE)
    with Ledger.open(None) as ledger:
        people = ledger.populations.define(Population("p", 1, window="1d"))
        day = Membership("p", data=("2026-01-01", "2026-01-02"))
        release = release_points([0.1, 0.9], ChosenMedian(bits=4), g, ledger, "a", people=9, population=day)
        assert release.spent == Fraction(1, 2)
        again = release_points([0.1, 0.9], ChosenMedian(bits=4), g, ledger, "a", people=9, population=day)
        assert again.seq == release.seq
        kept = Membership("p", draw="reserved", data=("2026-01-01", "2026-01-02"))
        release_points([0.1], SmoothMedian(), MetricGuarantee("1/4", 1, LINE), ledger, "b", people=9, population=kept)
        account = ledger.populations.account("p")
        assert (account.reserved.pure, account.profile().peak().pure) == (Fraction(1, 4), Fraction(1, 2))
        with pytest.raises(
            BudgetExceededError, match="'c': a window of population 'p' would cost 1 of the 3/4"
        ) as full:
            release_points([0.1], ChosenMedian(), g, ledger, "c", people=9, population=day)
        assert "data from 2026-01-02" in full.value.next_step
        assert "a person pays for 4 moves by 1/4 across the space" in full.value.next_step
        tomorrow = Membership("p", data=("2026-01-02", "2026-01-03"))
        release_points([0.1], ChosenMedian(), g, ledger, "d", people=9, population=tomorrow)
        assert verify(ledger) == []
        assert people.cap.pure == 1


def test_other_units_and_other_numbers_are_refused() -> None:
    g = MetricGuarantee("1/8", 1, LINE)
    with Ledger.open(None) as ledger:
        ledger.populations.define(Population("visits", 1, window=None, unit="events"))
        with pytest.raises(InvalidInputError, match="protects events"):
            release_points([0.5], SortedPoints(), g, ledger, people=3, population="visits")
    with pytest.raises(InvalidBudgetError, match="1000000000 such moves cross the space"):
        PointRelease(SmoothMedian(), MetricGuarantee(1, "1e-9", LINE), 3).guarantee  # noqa: B018
    for number in (0, -1, MAX_PEOPLE + 1, True, 2.0):
        with pytest.raises(InvalidInputError, match="people"):
            Filling(number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_nobody_at_all_is_a_number_too() -> None:
    plane = MetricGuarantee(1, 9, Space((0, 0), (1, 1)))
    release = release_points([], HatGrid(cells=2), plane, people=4)
    assert float(release.values.sum()) == pytest.approx(4)
