"""A pool that is remembered, compacted or rolled back admits what its whole history admits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.storage.ledger.support import copy_of
from veilstream import STREAMS, Guarantee, Membership, Population, Publisher
from veilstream.data import Calendar
from veilstream.errors import BudgetExceededError, LedgerError
from veilstream.mechanisms.streams import DSAT, Uniform
from veilstream.release import transacting
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.archiving import archive
from veilstream.storage.ledger.compacting import compact, plan_compaction
from veilstream.storage.ledger.restoring import restore_file
from veilstream.storage.ledger.verifying import verify

from .population_support import STREAMS_OF_FOUR, feed_or_skip, fullest_window, publisher

NewLedger = Callable[[], str]
COUNTS = np.array([5, 7, 1])
DAY = Population("residents", 1, window="24h")
HOURS = Calendar("2026-01-01", "2060-01-01", "1h")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots after a few steps."""
    monkeypatch.setattr(transacting, "INTERVAL", 3)


def hourly(ledger: Ledger, name: str, guarantee: Guarantee | None = None, **given: Any) -> Publisher[Any]:
    settings: dict[str, Any] = {"mechanism": Uniform(), "calendar": HOURS, "population": DAY, **given}
    return Publisher(3, guarantee or Guarantee("1/8", w=4), ledger=ledger, stream=name, **settings)


def windows(ledger: Ledger) -> list[tuple[int, Fraction]]:
    """What every window costs by the charges of all that share."""
    profile = ledger.populations.account("residents").profile()
    return [(end, cost.pure) for end, cost in zip(profile.ends, profile.costs, strict=True)]


def feed_all(url: str, steps: int) -> None:
    """Feed the four streams in turns."""
    with ExitStack() as stack:
        opened = [stack.enter_context(publisher(url, which)) for which in range(4)]
        for t in range(steps):
            for p in opened:
                feed_or_skip(p, 10 * t % 70)


def test_a_compacted_pool_has_what_it_had_left(new_ledger: NewLedger, tmp_path: Path) -> None:
    """Four streams of different steps, some of them stopped inside a block of comparisons."""
    url = new_ledger()
    feed_all(url, 20)
    with Ledger.open(url) as ledger:
        before, full = windows(ledger), fullest_window(url)
        plans = [plan_compaction(ledger, name) for name, *_ in STREAMS_OF_FOUR]
        assert sum(plan.charges for plan in plans) > 10
        archive(ledger, plans, tmp_path / "archive.db")
        for plan in plans:
            if plan.through:
                compact(ledger, plan, keep_releases=False, archived=True)
        assert windows(ledger) == before
        assert max(cost for _, cost in before) == full
        assert verify(ledger) == []
    with Ledger.open(tmp_path / "archive.db") as archived:
        assert verify(archived) == []
    feed_all(url, 8)
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
        account = ledger.populations.account("residents")
        assert full <= account.profile().peak().pure <= 1
        again = plan_compaction(ledger, "hourly")
        assert again.charges > 0
        before = windows(ledger)
        compact(ledger, again, keep_releases=True, archived=False)
        assert windows(ledger) == before


def test_old_data_are_refused_by_what_a_summary_says(new_sqlite: NewLedger) -> None:
    """Whoever asks about last year finds what last year spent, long after its charges were taken away."""
    with Ledger.open(new_sqlite()) as ledger:
        stream = hourly(ledger, "hours", Guarantee("3/4", w=4))
        for _ in range(40):
            try:
                stream.feed(COUNTS)
            except BudgetExceededError:
                stream.skip()
        plan = plan_compaction(ledger, "hours")
        compact(ledger, plan, keep_releases=False, archived=False)
        assert {row.t for row in ledger.charges("hours")} < set(range(plan.t + 1, 40))
        for day, fits in (("2026-01-01", False), ("2025-12-01", True)):
            once = Membership("residents", data=(day, f"{day}T05:00"))
            table = Publisher(3, Guarantee("1/2", w=None), STREAMS["sample"](), ledger, stream=day, population=once)
            if fits:
                table.feed(COUNTS)
            else:
                with pytest.raises(BudgetExceededError, match="spent there by 'hours' 1"):
                    table.feed(COUNTS)


@pytest.mark.parametrize("change", ["NULL", "X'00'", "(SELECT pool FROM compactions LIMIT 1) || X'00'"])
def test_a_changed_summary_is_found(new_sqlite: NewLedger, change: str) -> None:
    url = new_sqlite()
    with Ledger.open(url) as ledger:
        stream = hourly(ledger, "hours")
        for _ in range(20):
            stream.feed(COUNTS)
        compact(ledger, plan_compaction(ledger, "hours"), keep_releases=False, archived=False)
        assert verify(ledger) == []
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        assert connection.execute(sa.text(f"UPDATE compactions SET pool = CAST({change} AS BLOB)")).rowcount == 1
    with Ledger.open(url) as ledger:
        assert verify(ledger)
        with pytest.raises(LedgerError):
            hourly(ledger, "hours").feed(COUNTS)


def test_numbers_of_charges_are_not_given_twice(new_sqlite: NewLedger) -> None:
    """SQLite gives the number of a deleted last row again, which a chain would take for a charge it has seen."""
    with Ledger.open(new_sqlite()) as ledger:
        stream = hourly(ledger, "hours")
        for _ in range(6):
            stream.feed(COUNTS)
        for _ in range(20):
            stream.skip()
        with ledger.transaction("hours") as transaction:
            transaction.commit_failure(26, [], "RuntimeError")
        for _ in range(8):
            stream.skip()
        plan = plan_compaction(ledger, "hours")
        assert 0 < plan.charges < 6
        compact(ledger, plan, keep_releases=False, archived=False)
        with ledger.transaction("hours") as transaction:
            transaction.commit_failure(34, [], "RuntimeError")
        for _ in range(6):
            stream.feed(COUNTS)
        assert verify(ledger) == []


def test_what_is_remembered_is_what_is_recorded(new_ledger: NewLedger) -> None:
    """Two ledgers on one database, each with its own memory, feed in turns; a new one reads everything anew."""
    url = new_ledger()
    streams = [
        ("a", Guarantee("1/2", w=24), Uniform()),
        ("b", Guarantee("1/2", w=6), DSAT()),
        ("c", Guarantee(1, w=24), DSAT()),
    ]
    refused = 0
    with Ledger.open(url) as first, Ledger.open(url) as second:
        for t in range(30):
            for number, (name, guarantee, mechanism) in enumerate(streams):
                stream = hourly((first, second)[(t + number) % 2], name, guarantee, mechanism=mechanism)
                try:
                    stream.feed(COUNTS * (t % 7))
                except BudgetExceededError:
                    refused += 1
                    if t:
                        stream.skip()
        assert refused
        with Ledger.open(url) as third:
            known, anew = first.populations.account("residents"), third.populations.account("residents")
            assert known.profile().costs == anew.profile().costs
            assert Fraction(3, 4) < anew.profile().peak().pure <= 1
            assert verify(third) == []


def test_a_group_that_fails_is_forgotten_by_the_pool(new_sqlite: NewLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first stream of the group drew was seen by the second, and never came to be."""
    with Ledger.open(new_sqlite()) as ledger:
        streams = [hourly(ledger, name, Guarantee("1/2", w=1)) for name in "ab"]

        def fail() -> None:
            raise LedgerError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(ledger._backend, "check_file", fail)
            with pytest.raises(LedgerError):
                feed_together(ledger, [partial(one.feed, COUNTS) for one in streams])
        made = feed_together(ledger, [partial(one.feed, COUNTS) for one in streams])
        assert [getattr(release, "t", release) for release in made] == [0, 0]
        assert ledger.populations.account("residents").profile().peak().pure == 1


@pytest.fixture
def rolled_back(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger whose pool lost steps of one of its streams, and the copy from before."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger.open(path) as ledger:
        for name in ("a", "b"):
            hourly(ledger, name).feed(COUNTS)
        copy_of(ledger, copy)
        for _ in range(5):
            hourly(ledger, "a").feed(COUNTS)
    return path, copy


def test_a_pool_is_refused_until_its_lost_steps_are_recorded(rolled_back: tuple[Path, Path]) -> None:
    """Stream b lost nothing, and would draw what a has spent."""
    path, copy = rolled_back
    shutil.copy(copy, path)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="rolled back"):
        hourly(ledger, "b").feed(COUNTS)


def test_marks_of_a_ledger_beside_it_say_nothing_of_a_pool(tmp_path: Path) -> None:
    """The name of one begins with that of the other."""
    for name in ("ledger.db", "ledger.db.old"):
        with Ledger.open(tmp_path / name) as ledger:
            hourly(ledger, f"of {name}").feed(COUNTS)
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        assert hourly(ledger, "of ledger.db").feed(COUNTS).t == 1


def test_a_pool_goes_on_behind_its_lost_steps(rolled_back: tuple[Path, Path]) -> None:
    """Steps 1 to 5 of stream a are lost: windows of 24 hours are full that hold any hour up to the sixth."""
    path, copy = rolled_back
    restored = restore_file(copy, path, {}, apply=True)
    assert [(loss.stream, loss.last, loss.resume) for loss in restored.losses] == [("a", 5, 9)]
    with Ledger.open(path) as ledger:
        assert verify(ledger) == []
        for name, first in (("b", 1), ("a", 9)):
            stream, t = hourly(ledger, name), first
            with pytest.raises(BudgetExceededError) as caught:
                stream.feed(COUNTS)
            assert "2026-01-02 05:00" in caught.value.next_step
            if name == "a":
                # Nothing was released since the loss that could be repeated.
                break
            while t < 29:
                t = stream.skip().t + 1
            assert stream.feed(COUNTS).t == 29
        with pytest.raises(BudgetExceededError, match="nobody knows"):
            hourly(ledger, "sure", draw="reserved")
        assert verify(ledger) == []


def test_a_draw_on_lost_windows_is_found(rolled_back: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path, copy = rolled_back
    restore_file(copy, path, {}, apply=True)
    with Ledger.open(path) as ledger:
        monkeypatch.setattr("veilstream.storage.ledger.population_shared.full_until", lambda *_: None)
        hourly(ledger, "b").feed(COUNTS)
        (finding,) = verify(ledger)
        assert "steps are lost" in finding.problem


def test_pools_end_with_a_stream_that_is_gone(tmp_path: Path) -> None:
    """Nobody knows on which population it drew, nor at which time."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger.open(path) as ledger:
        hourly(ledger, "a").feed(COUNTS)
        copy_of(ledger, copy)
        hourly(ledger, "late").feed(COUNTS)
    shutil.copy(copy, path)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="'late'"):
        hourly(ledger, "a").feed(COUNTS)
    assert restore_file(copy, path, {}, apply=False).gone == ["late"]
    path.unlink()
    restore_file(copy, path, {}, apply=True)
    with Ledger.open(path) as ledger:
        with pytest.raises(BudgetExceededError) as caught:
            hourly(ledger, "a").feed(COUNTS)
        assert "never comes back" in caught.value.next_step
        for draw in ("shared", "reserved"):
            with pytest.raises(BudgetExceededError, match="nobody knows"):
                hourly(ledger, "new", draw=draw)
        another = hourly(ledger, "new", population=Population("anew", 1, window="24h"))
        assert another.feed(COUNTS).t == 0
        assert verify(ledger) == []


def test_a_stream_taken_out_of_the_tables_is_named_and_ends_nothing_by_itself(tmp_path: Path) -> None:
    """Draws on any pool are refused until it is back; shares that are reserved go on, and so does all once it is."""
    path, copy = tmp_path / "ledger.db", tmp_path / "whole.db"
    with Ledger.open(path) as ledger:
        for name in ("a", "removed"):
            hourly(ledger, name).feed(COUNTS)
        hourly(ledger, "sure", draw="reserved").feed(COUNTS)
    shutil.copy(path, copy)
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        tables = sa.MetaData()
        tables.reflect(connection)
        number = connection.execute(sa.text("SELECT id FROM streams WHERE name = 'removed'")).scalar_one()
        for table in reversed(tables.sorted_tables):
            column = table.c.id if table.name == "streams" else table.c.get("stream_id")
            if column is not None:
                connection.execute(sa.delete(table).where(column == number))
    engine.dispose()
    with Ledger.open(path) as ledger:
        assert any("'removed'" in finding.problem for finding in verify(ledger))
        for name, population in (("a", DAY), ("new", Population("another", 1, window="24h"))):
            with pytest.raises(LedgerError, match="'removed'") as caught:
                hourly(ledger, name, population=population).feed(COUNTS)
            assert "veilstream restore" in str(caught.value.next_step)
        assert hourly(ledger, "sure", draw="reserved").feed(COUNTS).t == 1
    shutil.copy(copy, path)
    for name in ("sure", "new"):
        (tmp_path / f"ledger.db.{name}.mark").unlink()
    with Ledger.open(path) as ledger:
        (finding,) = verify(ledger)
        assert finding.stream == "sure"
        with pytest.raises(LedgerError, match="no mark"):
            hourly(ledger, "sure", draw="reserved").feed(COUNTS)
        assert hourly(ledger, "a").feed(COUNTS).t == 1
