"""Personalised streams: each group its own budget on one ledger."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilstream import STREAMS
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.personalised import (
    Group,
    PeopleCounts,
    PersonalisedPublisher,
    Roster,
    count_levels,
)
from veilstream.personalised.partition import everybody
from veilstream.privacy.guarantee import Guarantee


def people_at(roster: Roster, t: int) -> PeopleCounts:
    levels = np.repeat(np.arange(3), 100)
    return count_levels(roster, levels, (np.arange(300) + t) % 4, bins=4, t=t)


@pytest.mark.parametrize("name", ["uniform", "sample", "budget-absorption", "dsat", "retroactive-grouping"])
def test_in_no_window_does_anybody_pay_more_than_their_own(name: str, tmp_path: Path) -> None:
    roster = Roster.of_budgets(np.repeat(["1/4", "1/2", "1"], 100).tolist())
    mechanism: Any = STREAMS[name]()
    with PersonalisedPublisher(roster, 4, 5, mechanism, tmp_path / "budget.db") as publisher:
        for t in range(17):
            release = publisher.feed(people_at(roster, t))
            assert release.t == t
            assert release.values.numbers.shape == (4,)
        assert len(publisher.groups) > 1
        for paid, own in zip(publisher.spent(), roster.budgets, strict=True):
            assert 0 < paid <= own
        for one, group in zip(publisher.publishers, publisher.groups, strict=True):
            assert one.guarantee == Guarantee(group.epsilon, 5)


def test_a_stream_goes_on_after_a_restart_and_gives_old_steps_again(tmp_path: Path) -> None:
    roster = Roster.of_budgets(np.repeat(["1/4", "1/2", "1"], 100).tolist())
    make: Callable[[], PersonalisedPublisher] = lambda: PersonalisedPublisher(  # noqa: E731
        roster, 4, 3, STREAMS["uniform"](), tmp_path / "budget.db"
    )
    with make() as publisher:
        first = publisher.feed(people_at(roster, 0))
    with make() as publisher:
        again = publisher.feed(people_at(roster, 0))
        publisher.feed(people_at(roster, 1))
        assert publisher.spent() == [own * Fraction(2, 3) for own in _charged(publisher)]
    assert (first.values.numbers == again.values.numbers).all()


def test_a_stream_refuses_other_people_or_groups(tmp_path: Path) -> None:
    budgets = np.repeat(["1/4", "1/2", "1"], 100).tolist()
    ids = np.arange(300)

    def open_with(roster: Roster, **options: Any) -> None:
        mechanism: Any = STREAMS["uniform"]()
        PersonalisedPublisher(roster, 4, 3, mechanism, tmp_path / "budget.db", **options).close()

    open_with(Roster(ids, budgets))
    open_with(Roster(ids, budgets))
    with pytest.raises(LedgerMismatchError, match="would pay twice"):
        open_with(Roster(ids, budgets[::-1]))
    with pytest.raises(LedgerMismatchError, match="would pay twice"):
        open_with(Roster(ids, budgets), groups=everybody(Roster(ids, budgets)))
    open_with(Roster(ids, budgets[::-1]), stream="another")


def _charged(publisher: PersonalisedPublisher) -> list[Fraction]:
    """What each level's group may cost, with each third rounded as the mechanism rounds it."""
    charged = [Fraction(0)] * publisher.roster.levels
    for one, group in zip(publisher.publishers, publisher.groups, strict=True):
        per_step = next(iter(publisher.ledger.charges(one.stream))).charge.epsilon
        for level in group.levels.tolist():
            charged[level] = 3 * per_step
    return charged


def test_groups_that_overlap_or_cost_too_much_are_refused() -> None:
    roster = Roster.of_budgets(["1/4", "1/2", "1"])
    both = [Group(np.array([0, 1]), 2, Fraction(1, 4)), Group(np.array([1, 2]), 2, Fraction(1, 2))]
    with pytest.raises(InvalidInputError, match="in two of them"):
        PersonalisedPublisher(roster, 1, 1, STREAMS["uniform"](), groups=both)
    dear = [Group(np.array([0, 1, 2]), 3, Fraction(1, 2))]
    with pytest.raises(InvalidInputError, match="one of its people has 1/4"):
        PersonalisedPublisher(roster, 1, 1, STREAMS["uniform"](), groups=dear)
