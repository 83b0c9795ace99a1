"""Scheduled: what it spends is the schedule, exactly, offline and online, at every level of privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.mechanisms.allocation import largest_window_sum, optimal_schedule
from veilstream.mechanisms.histograms import Gaussian
from veilstream.mechanisms.identity import describe
from veilstream.mechanisms.streams import Scheduled, Uniform
from veilstream.testing.checks import applicable, check_stream
from veilstream.values.values import Values

FLAT = np.full((30, 5), 1_000)
WEEK = "1 1 1 1 1 8 8"


@dataclass(frozen=True)
class ByActivity:
    """More weight after a release that was busy: public, as the release is."""

    busy: int = 1_000

    def weight(self, step: int, last: Values | None) -> int:
        return 1 if last is None or float(last.numbers.sum()) < self.busy else 8


@pytest.mark.parametrize(
    "mechanism",
    [
        Scheduled(),
        Scheduled("1 8 8", horizon=12),
        Scheduled("3 0 0 1", online=True, bounds=("1/2", 20), power=1),
        Scheduled(ByActivity(), online=True, bounds=(1, 8), horizon=12),
    ],
    ids=["equal", "horizon", "online", "weigher"],
)
def test_conforms_at_the_levels_it_accepts(mechanism: Scheduled) -> None:
    assert any(not g.endless for g in applicable(mechanism)) == (mechanism.horizon is not None)
    check_stream(mechanism)


@pytest.mark.parametrize("w", [1, 3, 7, 10, 23])
def test_spends_its_plan_and_no_window_more_than_epsilon(w: int) -> None:
    guarantee = vs.Guarantee("1/3", w=w)
    mechanism = Scheduled(WEEK)
    spent = vs.simulate(mechanism, guarantee, FLAT, seed=1).spent
    plan = mechanism.plan(guarantee)
    assert spent == [plan.at(t) for t in range(30)]
    assert Fraction(1, 3) * (1 - Fraction(1, 10**6)) < plan.fullest <= Fraction(1, 3)


def test_a_horizon_is_planned_as_a_whole_at_user_level_and_in_windows() -> None:
    weights = [1, 8] * 6
    for w in (None, 5):
        guarantee = vs.Guarantee(2, w=w)
        y = vs.simulate(Scheduled("1 8", horizon=12), guarantee, FLAT[:12], seed=1)
        assert y.spent == list(optimal_schedule(weights, 2, w or 12).budgets)


@pytest.mark.parametrize("online", [False, True])
def test_nothing_beyond_the_horizon(online: bool) -> None:
    for w in (None, 2):
        with pytest.raises(BudgetExceededError, match="step 4 of a stream planned for 3"):
            vs.simulate(Scheduled(horizon=3, online=online), vs.Guarantee(1, w=w), FLAT, seed=1)


def test_weight_zero_republishes_and_costs_nothing() -> None:
    y = vs.simulate(Scheduled("1 0 0"), vs.Guarantee(1, w=3), FLAT[:6], seed=1)
    assert y.fresh.tolist() == [True, False, False] * 2
    assert [e == 0 for e in y.spent] == [False, True, True] * 2
    assert np.array_equal(y[0], y[2])


def test_equal_weights_are_uniform_up_to_the_grid() -> None:
    guarantee = vs.Guarantee(1, w=12)
    planned = Scheduled().plan(guarantee).budgets[0]
    assert 0 <= Fraction(1, 12) - planned <= Fraction(2, 2**30)


def test_important_steps_are_more_exact_than_under_uniform() -> None:
    """Weighted squared error over 12,000 draws each; the factor 1.59 against 1.2 is 15 standard errors away, so that
    the false-alarm probability is far below 1e-6."""
    guarantee = vs.Guarantee(1, w=24)
    weights = np.array([1] * 8 + [64] * 16)
    counts = np.full((24, 500), 10_000)
    scheduled = Scheduled(tuple(weights.tolist()))
    errors = {
        mechanism: ((np.asarray(vs.simulate(mechanism, guarantee, counts, seed=5)) - counts) ** 2).mean(axis=1)
        @ weights
        for mechanism in (scheduled, Uniform())
    }
    assert errors[Uniform()] > 1.2 * errors[scheduled]


def test_online_memory_is_bounded_by_the_window_and_the_budget_returns() -> None:
    guarantee = vs.Guarantee(1, w=6)
    mechanism = Scheduled(WEEK, online=True)
    y = vs.simulate(mechanism, guarantee, np.full((300, 2), 10), seed=2)
    assert largest_window_sum(y.spent, 6) <= 1
    assert min(y.spent[200:]) > Fraction(1, 40)
    state: Any = mechanism.start(guarantee, 2)
    rule = mechanism._rule(guarantee)  # pyright: ignore[reportPrivateUsage]
    online = state.online
    for t in range(100):
        online, _ = rule.next(online, 1 + 7 * (t % 2))
        assert online.roots.size == online.shares.size == min(t + 1, 5)


def test_a_weigher_sees_the_last_release_only() -> None:
    y = vs.simulate(Scheduled(ByActivity(), online=True, bounds=(1, 8)), vs.Guarantee(1, w=4), FLAT, seed=1)
    assert largest_window_sum(y.spent, 4) <= 1
    assert not Scheduled(ByActivity(), online=True, bounds=(1, 8)).oblivious


@pytest.mark.parametrize("online", [False, True])
def test_a_stream_goes_on_from_its_ledger_with_the_same_budgets(tmp_path: Path, online: bool) -> None:
    guarantee, mechanism = vs.Guarantee(1, w=4), Scheduled(WEEK, online=online)
    straight = vs.simulate(mechanism, guarantee, FLAT[:12], seed=1).spent
    spent: list[Fraction] = []
    for _ in range(3):
        publisher = vs.Publisher(bins=5, guarantee=guarantee, mechanism=mechanism, ledger=tmp_path / "budget.db")
        spent += [publisher.feed(FLAT[0]).spent for _ in range(4)]
    assert spent == straight


def test_gaussian_noise_follows_the_schedule_too() -> None:
    guarantee = vs.Guarantee(1, w=3, delta="1e-6")
    y = vs.simulate(Scheduled("1 1 4", power=1, histogram=Gaussian()), guarantee, FLAT[:3], seed=1)
    # Weights 1 and 4 give μ² in the ratio 1 : 2, hence standard deviations in the ratio √2.
    assert y.noise_std[0] / y.noise_std[2] == pytest.approx(np.sqrt(2), rel=1e-3)


def test_its_description_is_exact() -> None:
    assert describe(Scheduled("0.5 1/3")) == describe(Scheduled((Fraction(1, 2), Fraction(1, 3))))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"weights": ""}, "weights of Scheduled: 0 numbers"),
        ({"weights": "0 1"}, "first one above 0"),
        ({"weights": "1 -1"}, "1 are negative"),
        ({"weights": "1 x"}, "weights 'x'"),
        ({"weights": ByActivity()}, "need online=True"),
        ({"weights": ByActivity(), "online": True}, "public bounds"),
        ({"bounds": "2 1"}, "bounds '2 1'"),
        ({"bounds": "1"}, "bounds '1' of"),
        ({"power": 0}, "power 0"),
        ({"horizon": 0}, "horizon 0"),
    ],
)
def test_bad_parameters_are_refused(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Scheduled(**bad)


def test_listed_weights_outside_the_bounds_are_refused_when_they_come() -> None:
    with pytest.raises(InvalidInputError, match="outside its public bounds 1 to 2"):
        vs.simulate(Scheduled("1 3", online=True, bounds=(1, 2)), vs.Guarantee(1, w=3), FLAT, seed=1)
