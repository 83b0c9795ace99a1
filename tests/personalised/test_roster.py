"""The public roster: exact budgets, everybody once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilstream.errors import BudgetExceededError, InvalidBudgetError, InvalidInputError, OutOfOrderError
from veilstream.personalised import LevelCosts, PersonalAccounts, Roster, count_people


@pytest.mark.parametrize("bad", [None, "", float("nan"), 0, -1, "0", "many", 2000, float("inf"), "1e-9"])
def test_missing_non_positive_or_absurd_budgets_are_refused_with_their_row(bad: object) -> None:
    with pytest.raises(InvalidBudgetError, match=r"a budget .*nothing was released"):
        Roster(["a", "b", "c"], ["1", bad, "1"])


def test_missing_budgets_among_floats_are_refused() -> None:
    with pytest.raises(InvalidBudgetError, match="a budget is missing") as refused:
        Roster.of_budgets(np.array([0.5, 0.5, np.nan]))
    assert refused.value.operator_note == "the budget of row 3"


def test_a_person_twice_is_refused_and_only_the_operator_learns_where() -> None:
    with pytest.raises(InvalidInputError, match="a person is there twice") as error:
        Roster(["secret-name", "b", "secret-name"], [1, 1, 1])
    assert error.value.operator_note == "the second time in row 3"
    assert "3" not in str(error.value)


def test_records_of_strangers_and_double_records_are_refused() -> None:
    roster = Roster(["a", "b"], [1, 2])
    with pytest.raises(InvalidInputError, match="a person is not on the roster") as error:
        count_people(roster, ["a", "stranger"], [0, 0], bins=1)
    assert error.value.operator_note == "the first such row is 2"
    with pytest.raises(InvalidInputError, match="a person is there twice"):
        count_people(roster, ["a", "a"], [0, 0], bins=1)
    with pytest.raises(InvalidInputError, match="no id"):
        Roster(["a", None], [1, 2])
    with pytest.raises(InvalidInputError, match=r"outside -1\.\.0"):
        count_people(roster, ["a"], [1], bins=1)


@given(st.lists(st.floats(1e-6, 1000), min_size=1, max_size=20))
def test_budgets_are_never_rounded_up(budgets: list[float]) -> None:
    roster = Roster.of_budgets(budgets)
    level = roster.level_of(np.arange(len(budgets)))
    for given_budget, at in zip(budgets, level.tolist(), strict=True):
        exact = Fraction(repr(given_budget))
        assert 0 <= exact - roster.budgets[at] < Fraction(1, 1 << 24)
    assert roster.people == len(budgets)


def test_a_step_gathers_budgets_below_them() -> None:
    roster = Roster.of_budgets([0.126, 0.2, 0.9], step="1/8")
    assert roster.budgets == [Fraction(1, 8), Fraction(7, 8)]
    with pytest.raises(InvalidBudgetError, match="rounded down"):
        Roster.of_budgets([0.1], step="1/8")


@given(st.lists(st.fractions(0, Fraction(1, 2), max_denominator=40), min_size=1, max_size=12), st.integers(1, 4))
def test_no_window_of_any_level_passes_its_budget_whatever_is_asked(asked: list[Fraction], w: int) -> None:
    roster = Roster.of_budgets(["1/4", "3/4"])
    accounts = PersonalAccounts(roster, w)
    history: list[tuple[int, Fraction]] = []
    for t, epsilon in enumerate(asked):
        accounts.advance(t // 2)
        try:
            accounts.admit(LevelCosts.at_rate(np.array([1, 2]), epsilon), "test")
        except BudgetExceededError:
            continue
        history.append((t // 2, epsilon))
    for end in range(len(asked)):
        spent = sum((e for t, e in history if end - w < t <= end), Fraction(0))
        assert spent <= Fraction(1, 4)
        assert 2 * spent <= Fraction(3, 4)


def test_a_refused_charge_costs_nobody_anything_and_time_never_runs_back() -> None:
    accounts = PersonalAccounts(Roster.of_budgets(["1/4", "1"]), w=5)
    with pytest.raises(BudgetExceededError, match="people of budget 1/4 would have spent 1/2"):
        accounts.admit(LevelCosts.at_rate(np.array([1, 1]), Fraction(1, 2)), "test")
    assert accounts.spent() == [0, 0]
    accounts.advance(3)
    with pytest.raises(OutOfOrderError):
        accounts.advance(2)
    with pytest.raises(InvalidBudgetError, match="negative"):
        accounts.admit(LevelCosts.at_rate(np.array([1, -1]), Fraction(1, 2)), "test")
