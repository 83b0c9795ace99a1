"""Accounts on a ledger: one commit per answer, each person charged their own, the same after a crash."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import veilstream
from tests.personalised.support import town
from veilstream import Publisher
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerMismatchError, OutOfOrderError
from veilstream.personalised import (
    CountMechanism,
    ExponentialMedian,
    Group,
    LedgerAccounts,
    LevelCosts,
    Minimum,
    Partitioned,
    PersonalAccounts,
    PersonalisedPublisher,
    PersonalMeter,
    PrivateLogisticRegression,
    PrivateSVM,
    Roster,
    Sampling,
    Stretching,
    Threshold,
    count_levels,
    release_counts,
)
from veilstream.personalised.accounts import MOST_ROWS
from veilstream.privacy.charge import Span
from veilstream.storage.ledger import Ledger
from veilstream.trusted.statistics.personalised import personal_median_scores
from veilstream.values.values import Values

MECHANISMS: list[CountMechanism] = [
    Minimum(),
    Threshold("1/4"),
    Partitioned(),
    Partitioned(by="waste", k=2),
    Partitioned(by="waste", k=2, number=3),
    Stretching(),
    Stretching(spread=0),
    Sampling(),
    ExponentialMedian(),
]


def by_level(accounts: LedgerAccounts) -> list[Fraction]:
    """What every level paid, added up from the charges of the ledger."""
    totals = [Fraction(0)] * accounts.roster.levels
    for row in accounts.ledger.charges(accounts.stream):
        assert row.charge.bins is not None
        for level in row.charge.bins.tolist():
            totals[level] += row.charge.epsilon
    return totals


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_an_answer_is_recorded_with_what_each_person_paid_and_given_again(
    mechanism: CountMechanism, tmp_path: Path
) -> None:
    x = town()
    with LedgerAccounts(x.roster, tmp_path / "budget.db") as accounts:
        first = release_counts(x, mechanism, accounts)
        assert first.charged == accounts.spent() == by_level(accounts)
        assert all(0 <= paid <= own for paid, own in zip(first.charged, x.roster.budgets, strict=True))
        assert sum(first.charged) > 0
    with LedgerAccounts(x.roster, tmp_path / "budget.db") as accounts:
        again = release_counts(x, mechanism, accounts)
        assert (first.values.numbers == again.values.numbers).all()
        assert again.charged == first.charged == accounts.spent() == by_level(accounts)
        assert again.seq == first.seq


def test_stretching_charges_everybody_exactly_their_own_on_the_ledger() -> None:
    x = town()
    accounts = LedgerAccounts(x.roster)
    release_counts(x, Stretching(spread=0), accounts)
    assert by_level(accounts) == x.roster.budgets
    assert accounts.left() == [0] * 5


def test_questions_add_up_and_what_somebody_cannot_pay_is_refused() -> None:
    x = town()
    accounts = LedgerAccounts(x.roster)
    release_counts(x, Threshold("1/2"), accounts)
    assert [str(left) for left in accounts.left()] == ["1/16", "1/8", "1/4", "0", "1/2"]
    with pytest.raises(BudgetExceededError, match="people of budget 1/2"):
        release_counts(x, Minimum(), accounts)
    with pytest.raises(BudgetExceededError, match="nothing was released"):
        release_counts(x, Threshold("1/2"), accounts, of="another table")
    assert accounts.spent() == by_level(accounts)


def test_the_same_people_with_other_budgets_are_refused(tmp_path: Path) -> None:
    ids = [f"p{i}" for i in range(4)]
    roster = Roster(ids, ["1", "1", "2", "2"])
    LedgerAccounts(roster, tmp_path / "budget.db").close()
    LedgerAccounts(Roster(ids[::-1], ["2", "2", "1", "1"]), tmp_path / "budget.db").close()
    with pytest.raises(LedgerMismatchError, match="nothing was released"):
        LedgerAccounts(Roster(ids, ["1", "2", "1", "2"]), tmp_path / "budget.db")
    with pytest.raises(LedgerMismatchError, match="nothing was released"):
        LedgerAccounts(Roster(["p0", "p1", "p2", "p9"], ["1", "1", "2", "2"]), tmp_path / "budget.db")


def test_numbers_and_texts_name_the_same_people() -> None:
    numbers = Roster([9, 10, 2], ["1", "2", "3"])
    assert numbers.fingerprint() == Roster(["9", "10", "2"], ["1", "2", "3"]).fingerprint()
    assert numbers.fingerprint() != Roster(["9", "10", "2"], ["2", "1", "3"]).fingerprint()


class Crash(BaseException):
    """The process is gone."""


def test_a_crash_before_the_commit_costs_nothing_and_a_failure_after_a_charge_stays_charged(tmp_path: Path) -> None:
    x = town()
    accounts = LedgerAccounts(x.roster, tmp_path / "budget.db")

    def no_charge(meter: PersonalMeter) -> Values:
        raise Crash

    def fails(meter: PersonalMeter) -> Values:
        Threshold("1/2").estimate(x, meter)
        raise ZeroDivisionError

    with pytest.raises(Crash):
        accounts.release("nothing", no_charge)
    assert accounts.spent() == [0] * 5
    with pytest.raises(ZeroDivisionError):
        accounts.release("half", fails)
    for seen in (accounts, LedgerAccounts(x.roster, tmp_path / "budget.db")):
        assert [str(paid) for paid in seen.spent()] == ["0", "0", "0", "1/2", "1/2"]
    with pytest.raises(BudgetExceededError):
        accounts.release("half", lambda meter: Threshold("1/2").estimate(x, meter))
    lowest = Group(np.array([0]), 120, Fraction(1, 16))
    answer = accounts.release("one", lambda meter: meter.group(x, lowest, lowest.epsilon, "one"))
    assert [str(paid) for paid in answer.charged] == ["1/16", "0", "0", "0", "0"]
    assert accounts.spent() == by_level(accounts) == LedgerAccounts(x.roster, tmp_path / "budget.db").spent()


def test_two_processes_share_the_accounts(tmp_path: Path) -> None:
    x = town()
    one, other = (LedgerAccounts(x.roster, tmp_path / "budget.db") for _ in range(2))
    release_counts(x, Threshold("1/2"), one)
    with pytest.raises(BudgetExceededError):
        release_counts(x, Threshold("1/2"), other, of="another table")
    again = release_counts(x, Threshold("1/2"), other)
    assert again.charged == one.spent() == other.spent()


def test_in_every_window_nobody_pays_more_than_their_own() -> None:
    roster = town().roster
    levels = np.arange(600) % 5
    accounts = LedgerAccounts(roster, w=2)
    third = Fraction(1, 3)
    for t in range(6):
        x = count_levels(roster, levels, np.zeros(600, dtype=np.int64), bins=1, t=t)
        accounts.release(f"sum at {t}", lambda meter, x=x: meter.stretched(x, third, "sum"))  # type: ignore[misc]
        expected = [own * third * min(t + 1, 2) for own in roster.budgets]
        assert accounts.spent() == expected
        with pytest.raises(BudgetExceededError, match="in a window of 2"):
            accounts.release("more", lambda meter, x=x: meter.stretched(x, Fraction(3, 4), "more"))  # type: ignore[misc]
    early = count_levels(roster, levels, np.zeros(600, dtype=np.int64), bins=1, t=3)
    with pytest.raises(OutOfOrderError):
        accounts.release("late", lambda meter: meter.stretched(early, third, "late"))


@given(
    st.lists(st.integers(0, 1 << 34), min_size=1, max_size=120), st.fractions(min_value=Fraction(1, 99), max_value=1)
)
def test_charges_of_levels_add_up_to_their_costs_in_few_rows(parts: list[int], scale: Fraction) -> None:
    costs = LevelCosts.at_rate(np.array(parts), scale)
    charges = costs.charges(Span(3, 3), "counts")
    totals = [Fraction(0)] * len(parts)
    for charge in charges:
        assert charge.bins is not None
        for level in charge.bins.tolist():
            totals[level] += charge.epsilon
    assert totals == [costs[level] for level in range(len(parts))]
    assert len(charges) <= max(MOST_ROWS, 35)


@pytest.mark.parametrize("strategy", ["weighted", "sampling", "waste", "utility", "minimum"])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSVM])
def test_classifiers_pay_on_the_ledger_and_come_back_from_it(kind: Any, strategy: str, tmp_path: Path) -> None:
    rows = np.linspace(-1, 1, 900)[:, None]
    people = [f"p{i}" for i in range(900)]
    roster = Roster([*people, "absent"], [*np.tile(["2", "4", "8"], 300).tolist(), "4"])
    model = kind(strategy=strategy, minimum=200)
    with LedgerAccounts(roster, tmp_path / "budget.db") as accounts:
        model.fit(rows, rows[:, 0] > 0, accounts=accounts, people=people)
        paid = accounts.spent()
        assert paid == by_level(accounts)
        assert all(cost <= own for cost, own in zip(paid, roster.budgets, strict=True))
        other = kind(strategy=strategy, minimum=200, regularisation=0.02)
        with pytest.raises(BudgetExceededError, match="nothing was released"):
            other.fit(rows, rows[:, 0] > 0, accounts=accounts, people=people)
    with LedgerAccounts(roster, tmp_path / "budget.db") as accounts:
        again = kind(strategy=strategy, minimum=200).fit(rows, rows[:, 0] > 0, accounts=accounts, people=people)
    assert (again.coef_ == model.coef_).all()
    assert (again.intercept_ == model.intercept_).all()
    assert (again.predict(rows) == model.predict(rows)).all()
    # Secure noise at budgets from 2 on 900 people: below chance by 0.2 has probability far below 1e-7.
    assert model.score(rows, rows[:, 0] > 0) > 0.3


def test_budgets_of_a_ledger_are_not_given_twice() -> None:
    rows = np.linspace(-1, 1, 10)[:, None]
    accounts = LedgerAccounts(Roster.of_budgets([1] * 10))
    with pytest.raises(InvalidInputError, match="roster of the accounts has the budgets"):
        PrivateSVM().fit(rows, rows[:, 0] > 0, np.ones(10), accounts=accounts)
    with pytest.raises(InvalidInputError, match="give accounts"):
        PrivateSVM().fit(rows, rows[:, 0] > 0, people=range(10))


SEEDS = {"noise", "seed", "source", "rng", "random_state", "generator"}


def ledger_writers() -> dict[str, set[str]]:
    """Parameters of everything public in the library that is made with, or given, a ledger or accounts on one."""
    found: dict[str, set[str]] = {}
    for module in pkgutil.walk_packages(veilstream.__path__, "veilstream."):
        # To import the command is to be it: it would take Ctrl-C from this process and its children.
        if module.name.startswith(("veilstream.__main__", "veilstream.cli")):
            continue
        for name, thing in vars(importlib.import_module(module.name)).items():
            public = getattr(thing, "__module__", None) == module.name and not name.startswith("_")
            if not public or not (inspect.isfunction(thing) or (inspect.isclass(thing) and "__init__" in vars(thing))):
                continue
            parameters = set(inspect.signature(thing).parameters)
            if parameters & {"ledger", "accounts"}:
                found[f"{module.name}.{name}"] = parameters
    return found


def test_nothing_that_writes_to_a_ledger_takes_a_source_of_randomness() -> None:
    writers = ledger_writers()
    assert {
        "veilstream.release.publisher.Publisher",
        "veilstream.personalised.recorded.LedgerAccounts",
    } <= writers.keys()
    assert "veilstream.personalised.meter.PersonalMeter" in writers
    # The seed of this one draws public queries; its noise is the Publisher's.
    queries = {"veilstream.synthesis.quality.measured_errors"}
    # The source of these is the table of rows.
    tables = {
        "veilstream.jobs.call.publish",
        "veilstream.jobs.limits.look",
        "veilstream.jobs.renewal.publish_renewed",
        "veilstream.jobs.visits.choose_presence",
    }
    assert all(writers[name] & SEEDS == {"source"} for name in tables)
    assert {name for name, parameters in writers.items() if parameters & SEEDS} <= queries | tables
    methods: list[Any] = [Publisher.feed, PersonalisedPublisher.feed, LedgerAccounts.release, PrivateSVM.fit]
    assert not any(SEEDS & set(inspect.signature(method).parameters) for method in methods)
    make: Any = PersonalMeter
    with pytest.raises(TypeError):
        make(PersonalAccounts(town().roster), object())


def test_tables_over_several_steps_or_with_larger_steps_are_no_counts_of_people() -> None:
    x, later = town(), town()
    with pytest.raises(InvalidInputError, match="=2"):
        replace(x, table=x.table + later.table)
    with pytest.raises(InvalidInputError, match="4 bins"):
        replace(x, bins=4)


def test_scores_of_other_budgets_are_refused() -> None:
    x = town()
    meter = PersonalMeter(PersonalAccounts(x.roster))
    scores = personal_median_scores(x.table, x.roster.sizes, x.roster.units // 2)
    with pytest.raises(InvalidInputError, match="of other budgets"):
        meter.select(x, scores, Fraction(1), "median")


def test_ledgers_are_closed_by_whom_they_were_opened(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db") as ledger:
        with LedgerAccounts(town().roster, ledger) as accounts:
            release_counts(count_levels(accounts.roster, np.zeros(1, dtype=np.int64), [0], 3), Minimum(), accounts)
        assert [spec.name for spec in ledger.streams()] == ["personal"]
