"""A ledger takes only what its populations can keep, and shows when somebody changed them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from veilstream import STREAMS, Guarantee, Membership, Population, Publisher
from veilstream.data import Calendar
from veilstream.errors import (
    BudgetExceededError,
    ChargeError,
    InvalidInputError,
    LedgerError,
    LedgerMismatchError,
    VeilstreamError,
)
from veilstream.mechanisms.histograms import FilterPriority
from veilstream.mechanisms.streams import RetroactiveGrouping, Uniform
from veilstream.personalised import LedgerAccounts, PersonalisedPublisher, Roster
from veilstream.privacy import population as population_module
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.population import EVER, Cost
from veilstream.privacy.population_pool import Drawn
from veilstream.release.records import release_records
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import seal_records
from veilstream.values.values import Values

from .population_support import RESIDENTS, feed_or_skip, fullest_window, publisher

NewLedger = Callable[[], str]
COUNTS = np.array([5, 7, 1])
HOURS = Calendar("2026-01-01", "2027-01-01", "1h")


def member(ledger: Ledger, name: str, guarantee: Guarantee, **given: Any) -> Publisher[Any]:
    settings: dict[str, Any] = {"mechanism": Uniform(), "calendar": HOURS, "population": RESIDENTS, **given}
    return Publisher(3, guarantee, ledger=ledger, stream=name, **settings)


def test_shares_are_reserved_up_to_the_cap_and_no_further(new_ledger: NewLedger) -> None:
    """In 48 hours a window of 24 hours is met twice."""
    with Ledger.open(new_ledger()) as ledger:
        member(ledger, "a", Guarantee("1/4", w=24), draw="reserved")
        member(ledger, "b", Guarantee("1/4", w=48), draw="reserved")
        with pytest.raises(BudgetExceededError) as caught:
            member(ledger, "c", Guarantee("3/8", w=48), draw="reserved")
        assert (caught.value.name, caught.value.value, caught.value.limit) == ("draw", Fraction(3, 8), "1/4")
        assert "c" not in [spec.name for spec in ledger.streams()]
        member(ledger, "c", Guarantee("1/4", w=48), draw="reserved")
        assert ledger.populations.account("residents").pool.pure == 0


DAYS = Calendar("2026-03-02", "2026-03-06", "1d")


@pytest.mark.parametrize(
    ("window", "guarantee", "reserved"),
    [
        ("1d", Guarantee(1, w=None, presence=1), 2),
        ("1d", Guarantee(1, per=4, presence=1), 2),
        # Two days touch two blocks at most, and the second may go on.
        ("2d", Guarantee(1, per=4, presence=1), 3),
        (None, Guarantee(1, w=None, presence=1), 1),
    ],
)
def test_people_who_count_in_their_first_steps_reserve_what_their_later_visits_move(
    new_sqlite: NewLedger, monkeypatch: pytest.MonkeyPatch, window: str | None, guarantee: Guarantee, reserved: int
) -> None:
    """Without the first visit, which a window takes away, a later one counts; ledgers that reserved less are found."""
    residents = Population("residents", reserved, window=window)
    given: dict[str, Any] = {"calendar": DAYS, "draw": "reserved"}
    with Ledger.open(new_sqlite()) as ledger:
        member(ledger, "fits", guarantee, population=residents, **given)
        assert ledger.populations.account("residents").reserved.pure == reserved
        assert verify(ledger) == []
        with pytest.raises(BudgetExceededError) as caught:
            member(ledger, "more", guarantee, population=residents, **given)
        assert (caught.value.value, caught.value.limit) == (reserved, "0")
        if window is not None:
            tight = Population("tight", reserved - 1, window=window)
            with monkeypatch.context() as before:
                before.setattr(population_module, "windows_of_stream", lambda *_, **__: reserved - 1)
                member(ledger, "old", guarantee, population=tight, **given)
            (found,) = verify(ledger)
            assert "'tight'" in found.problem


def test_a_calendar_does_not_say_when_data_are_from_that_have_a_time_of_their_own() -> None:
    """Any step may then hold data of any window, so that no number of steps covers them."""
    with Ledger.open(None) as ledger:
        ledger.populations.define(RESIDENTS)
        for data in (EVER, ("2026-01-01", "2026-02-01")):
            belongs = Membership("residents", "reserved", data=data)
            with pytest.raises(InvalidInputError) as caught:
                member(ledger, "copies", Guarantee("1/4", w=24), population=belongs)
            assert caught.value.name == "draw"


def test_what_was_drawn_is_not_reserved_afterwards(new_ledger: NewLedger) -> None:
    with Ledger.open(new_ledger()) as ledger:
        for _ in range(3):
            member(ledger, "shared", Guarantee("3/4", w=3)).feed(COUNTS)
        with pytest.raises(BudgetExceededError):
            member(ledger, "late", Guarantee("1/2", w=48), draw="reserved")
        member(ledger, "late", Guarantee("1/4", w=48), draw="reserved")


def test_reserved_streams_spend_without_asking(new_ledger: NewLedger) -> None:
    with Ledger.open(new_ledger()) as ledger:
        sure = member(ledger, "sure", Guarantee("1/2", w=48), draw="reserved")
        shared = member(ledger, "shared", Guarantee("1/2", w=1))
        shared.feed(COUNTS)
        for _ in range(100):
            sure.feed(COUNTS)
        with pytest.raises(BudgetExceededError) as caught:
            shared.feed(COUNTS)
        assert "2026-01-03" in caught.value.next_step
        assert "'shared' 1/2" in str(caught.value)


def test_old_data_are_charged_to_their_own_windows(new_ledger: NewLedger) -> None:
    """A table of last year comes after the hours of this one, and may use what was left then."""
    with Ledger.open(new_ledger()) as ledger:
        stream = member(ledger, "hours", Guarantee(1, w=1))
        stream.feed(COUNTS)
        for year, fits in (("2025-06-01", True), ("2026-01-01", False), ("2025-06-02", False), ("2025-06-05", True)):
            data = (year, f"{year[:-1]}{int(year[-1]) + 1}")
            once = Membership("residents", data=data)
            wanted = Guarantee("3/4", w=None)
            table = Publisher(3, wanted, STREAMS["sample"](), ledger, stream=f"of {year}", population=once)
            if fits:
                assert table.feed(COUNTS).spent == Fraction(3, 4)
            else:
                with pytest.raises(BudgetExceededError):
                    table.feed(COUNTS)
        assert ledger.populations.account("residents").profile().peak().pure == 1
        assert verify(ledger) == []


def test_what_has_no_time_counts_for_ever(new_ledger: NewLedger) -> None:
    with Ledger.open(new_ledger()) as ledger:
        ledger.populations.define(RESIDENTS)
        rows = seal_records(np.tile([[1, 2]], (50, 1)), (10, 10), t=0)
        release_records(rows, "3/4", FilterPriority(), ledger, name="records", population="residents")
        stream = member(ledger, "hours", Guarantee("1/2", w=1))
        with pytest.raises(BudgetExceededError) as caught:
            stream.feed(COUNTS)
        assert "never comes back" in caught.value.next_step
        again = release_records(rows, "3/4", FilterPriority(), ledger, name="records", population="residents")
        assert again.spent == Fraction(3, 4)


@dataclass(frozen=True)
class Twice:
    """Asks twice, the second time for more than is there."""

    def start(self, guarantee: Guarantee, bins: int) -> int:
        return 0

    def step(self, state: int, now: Sealed, meter: Meter) -> tuple[int, Values]:
        first = meter.laplace(now, Fraction(1, 8), "first")
        meter.laplace(now, Fraction(7, 8), "second")
        return state + 1, first


def test_charges_of_a_refused_step_count_in_the_pool(new_ledger: NewLedger) -> None:
    """The first answer was drawn: what it cost is lost, to the stream and to everybody."""
    with Ledger.open(new_ledger()) as ledger:
        member(ledger, "other", Guarantee("1/2", w=1)).feed(COUNTS)
        stream = member(ledger, "twice", Guarantee(1, w=2), mechanism=Twice())
        with pytest.raises(BudgetExceededError) as caught:
            stream.feed(COUNTS)
        assert caught.value.name == "second"
        rows = [(row.charge.purpose, row.outcome) for row in ledger.charges("twice")]
        assert rows == [("first", "failed")]
        assert ledger.populations.account("residents").profile().peak().pure == Fraction(5, 8)


def test_nothing_is_recorded_that_was_not_asked_for(new_ledger: NewLedger) -> None:
    with Ledger.open(new_ledger()) as ledger:
        stream = member(ledger, "hours", Guarantee(1, w=1))
        stream.feed(COUNTS)
        with ledger.transaction("hours") as transaction, pytest.raises(BudgetExceededError):
            transaction.commit_failure(1, [Charge(Fraction(1), Span(1, 1), "unasked")], "Unasked")
        assert [row.charge.purpose for row in ledger.charges("hours")] == ["publish"]


@pytest.mark.parametrize(
    ("guarantee", "given", "name"),
    [
        (Guarantee("1/4", w=4), {"unit": "events"}, "unit"),
        (Guarantee("1/4", w=24, presence=2), {}, "draw"),
        (Guarantee("1/4", w=8), {"mechanism": RetroactiveGrouping(window=4)}, "draw"),
        (Guarantee("1/4", w=4), {"calendar": None, "draw": "reserved"}, "draw"),
        (Guarantee("1/4", w=4), {"calendar": Calendar(0, 10, 1)}, "every"),
        (Guarantee("1/4", w=4), {"population": "nobody"}, "population"),
        (Guarantee("1/4", w=4), {"population": Membership("residents", data=("2026-02-01", "2026-01-01"))}, "data"),
    ],
)
def test_what_cannot_belong_is_refused(guarantee: Guarantee, given: dict[str, Any], name: str) -> None:
    with Ledger.open(None) as ledger:
        ledger.populations.define(RESIDENTS)
        with pytest.raises((InvalidInputError, LedgerError)) as caught:
            member(ledger, "odd", guarantee, **given)
        assert isinstance(caught.value, VeilstreamError)
        assert caught.value.name == name
        assert ledger.streams() == []


def test_people_with_budgets_of_their_own_reserve_the_largest(new_ledger: NewLedger) -> None:
    roster = Roster.of_budgets(["1/8"] * 50 + ["1/2"] * 950)
    with Ledger.open(new_ledger()) as ledger:
        ledger.populations.define(RESIDENTS)
        accounts = LedgerAccounts(roster, ledger, population="residents")
        assert ledger.populations.account("residents").reserved.pure == Fraction(1, 2)
        people = PersonalisedPublisher(roster, 2, 48, Uniform(), ledger, calendar=HOURS, population="residents")
        assert len(people.publishers) == 2
        assert ledger.populations.account("residents").reserved.pure == 1
        accounts.close()


def test_a_stream_does_not_change_how_it_draws(new_ledger: NewLedger) -> None:
    url = new_ledger()
    publisher(url, 0).close()
    with pytest.raises(LedgerMismatchError) as caught:
        publisher(url, 0, draw="reserved")
    assert caught.value.name == "membership"
    with Ledger.open(url) as ledger, pytest.raises(LedgerMismatchError):
        ledger.populations.define(Population("residents", 2, window="48h"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE populations SET promise = REPLACE(promise, '\"1\"', '\"9\"')",
        "DELETE FROM populations",
        "UPDATE streams SET membership = NULL WHERE name = 'hourly'",
        "UPDATE streams SET membership = REPLACE(membership, 'shared', 'reserved')",
        "DELETE FROM charges WHERE id = 1",
    ],
)
def test_a_changed_row_is_found(new_ledger: NewLedger, change: str) -> None:
    url = new_ledger()
    for which in (0, 1):
        with publisher(url, which) as p:
            feed_or_skip(p, 5)
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
        with engine.begin() as connection:
            assert connection.execute(sa.text(change)).rowcount
        assert verify(ledger)
    if "charges" not in change:
        with pytest.raises(LedgerError), publisher(url, 0) as p:
            p.feed(COUNTS)


def test_a_window_that_passes_the_promise_is_found(new_ledger: NewLedger) -> None:
    """Two honest chains can only be joined by hand: what is verified is the windows themselves."""
    url = new_ledger()
    with Ledger.open(url) as ledger:
        account = ledger.populations
        account.define(RESIDENTS)
        member(ledger, "hours", Guarantee(1, w=1)).feed(COUNTS)
        assert account.account("residents").within
        charged = account.account("residents")
        charged.draws["hours"].count([Drawn(47, 47, Cost(Fraction(1, 100)))])
        assert not charged.within
    assert fullest_window(url) == 1


def test_the_time_of_what_counts_for_ever_is_recorded() -> None:
    assert Membership.from_json(Membership("residents", data=EVER).to_json()).data == EVER


def test_rows_of_running_sums_are_reserved() -> None:
    with Ledger.open(None) as ledger:
        population = Population("residents", 4, window="48h", delta="1e-6")
        settings: dict[str, Any] = {"mechanism": STREAMS["running-total"](), "population": population}
        guarantee = Guarantee(1, w=1, delta="1e-6")
        with pytest.raises(ChargeError) as caught:
            member(ledger, "totals", guarantee, **settings).feed(COUNTS)
        assert "reserved" in caught.value.next_step
        assert list(ledger.charges("totals")) == []
