"""Going on from a backup is a rollback: lost steps count as spent, and no window holds steps from before and after."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from tests.storage.ledger.support import copy_of
from veilstream.errors import BudgetExceededError, LedgerError, OutOfOrderError
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, RetroactiveGrouping, Uniform
from veilstream.privacy.charge import Charge, Span
from veilstream.storage.ledger import Ledger, servers
from veilstream.storage.ledger.restoring import Loss, restore_file, restore_in_place
from veilstream.storage.ledger.verifying import verify

NewLedger = Callable[[], str]
COUNTS = np.array([40, 7, 0])
STREAMS: dict[str, tuple[vs.Guarantee, Any]] = {
    "uniform": (vs.Guarantee(1, w=4), Uniform()),
    "dsat": (vs.Guarantee(2, w=7), DSAT()),
    "absorption": (vs.Guarantee(1, w=5), BudgetAbsorption()),
    "grouping": (vs.Guarantee(1, w=1), RetroactiveGrouping(window=4)),
    "grouping-window": (vs.Guarantee(1, w=5), RetroactiveGrouping(window=4)),
    "gaussian": (vs.Guarantee(1, w=4, delta="1e-6"), Uniform(histogram=vs.HISTOGRAMS["gaussian"]())),
}


def publisher(url: str | Path, name: str) -> vs.Publisher[Any]:
    guarantee, mechanism = STREAMS[name]
    return vs.Publisher(3, guarantee, mechanism, url, stream=name)


def feed(url: str | Path, name: str, steps: int) -> None:
    with publisher(url, name) as p:
        for _ in range(steps):
            p.feed(COUNTS)


def rolled_back(path: Path, name: str, *, before: int, lost: int) -> Path:
    """A backup after ``before`` steps of a ledger that went ``lost`` steps further."""
    feed(path, name, before)
    backup = path.with_name("backup.db")
    with Ledger.open(path) as ledger:
        copy_of(ledger, backup)
    feed(path, name, lost)
    return backup


@pytest.mark.parametrize("name", STREAMS)
def test_no_window_holds_steps_from_before_and_after(name: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    backup = rolled_back(path, name, before=9, lost=5)
    with Ledger.open(path) as ledger:
        seen = ledger.mark(name)
    period = STREAMS[name][0].period
    assert period is not None
    planned = restore_file(backup, path, {}, apply=False)
    assert planned.losses == [Loss(name, 9, 13, 13 + period, 14, "behind its mark")]
    assert restore_file(backup, path, {}, apply=True) == planned
    assert path.with_name("ledger.db.replaced").exists()
    with publisher(path, name) as p:
        for t in (9, 13, 12 + period):
            with pytest.raises(OutOfOrderError):
                p.feed(COUNTS, t)
        assert [p.feed(COUNTS).t for _ in range(12)] == list(range(13 + period, 25 + period))
        after = [row.charge for row in p.ledger.charges(name) if row.outcome != "lost" and row.t > 13]
        assert after
        assert min(charge.span.first for charge in after) - 13 >= period
    with Ledger.open(path) as ledger:
        assert verify(ledger) == []
        # An export of the lost steps is told from a rollback that nobody recorded.
        ledger.check_seen(name, seen)


def test_a_charge_that_reaches_back_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    backup = rolled_back(path, "uniform", before=9, lost=5)
    restore_file(backup, path, {}, apply=True)
    with publisher(path, "uniform") as p:
        book = p._book  # pyright: ignore[reportPrivateUsage]
        with book.transaction() as transaction:
            book.catch_up(transaction, p._load)  # pyright: ignore[reportPrivateUsage]
            book.session.accountant.advance(17)
            for first, admitted in ((17, True), (16, False), (9, False), (0, False)):
                charge = Charge(Fraction(1, 100), Span(first, 17), "reach")
                if admitted:
                    book.session.accountant.admit([charge])
                else:
                    with pytest.raises(BudgetExceededError):
                        book.session.accountant.admit([charge])


def test_a_backup_without_a_mark_needs_a_word_of_the_operator(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "ledger.db", tmp_path / "elsewhere" / "ledger.db"
    elsewhere.parent.mkdir()
    backup = rolled_back(path, "uniform", before=9, lost=5)
    with pytest.raises(LedgerError) as caught:
        restore_file(backup, elsewhere, {}, apply=True)
    assert (caught.value.name, caught.value.value) == ("stream", "uniform")
    assert "--last-step" in caught.value.next_step
    assert list(elsewhere.parent.iterdir()) == []
    found = restore_file(backup, elsewhere, {"uniform": 13}, apply=True)
    assert [(loss.first, loss.last, loss.resume) for loss in found.losses] == [(9, 13, 17)]
    feed(elsewhere, "uniform", 3)


def test_nothing_is_lost_by_a_backup_that_is_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    backup = rolled_back(path, "uniform", before=9, lost=0)
    path.unlink()
    assert restore_file(backup, path, {}, apply=True).losses == []
    with publisher(path, "uniform") as p:
        assert p.feed(COUNTS).t == 9


def test_a_failed_step_that_was_lost_counts(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    backup = rolled_back(path, "uniform", before=9, lost=0)
    with Ledger.open(path) as ledger, ledger.transaction("uniform") as transaction:
        transaction.commit_failure(9, [Charge(Fraction(1, 4), Span(9, 9), "publish")], "RuntimeError")
    (loss,) = restore_file(backup, path, {}, apply=True).losses
    assert (loss.first, loss.last, loss.resume) == (9, 9, 13)


def test_a_stream_with_one_budget_for_ever_has_ended(tmp_path: Path) -> None:
    path, backup = tmp_path / "ledger.db", tmp_path / "backup.db"

    def user() -> vs.Publisher[Any]:
        return vs.Publisher(3, vs.Guarantee(1, w=None), Uniform(horizon=40), path, stream="user")

    with user() as p:
        p.feed(COUNTS)
        copy_of(p.ledger, backup)
        p.feed(COUNTS)
    (loss,) = restore_file(backup, path, {}, apply=True).losses
    assert loss.resume is None
    assert "has ended" in str(loss)
    with user() as p:
        assert len(list(p.ledger.releases())) == 1
        with pytest.raises(LedgerError, match="rolled back"):
            p.feed(COUNTS)


def test_a_damaged_backup_is_refused_and_nothing_moves(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    backup = rolled_back(path, "uniform", before=9, lost=2)
    with Ledger.open(backup) as ledger, ledger.writing() as connection:
        connection.exec_driver_sql("UPDATE charges SET epsilon = '1/9' WHERE id = 3")
        connection.commit()
    with pytest.raises(LedgerError, match="does not verify"):
        restore_file(backup, path, {}, apply=True)
    feed(path, "uniform", 1)


def test_a_server_that_was_recovered_is_refused_until_somebody_says_where_it_stands(
    new_postgres: NewLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = [1]
    monkeypatch.setattr(servers, "present_server", lambda _connection: servers.Server("7", timeline[0]))
    url = new_postgres()
    feed(url, "uniform", 5)
    timeline[0] = 2
    with pytest.raises(LedgerError, match="another timeline"):
        feed(url, "uniform", 1)
    with Ledger.open(url) as ledger:
        assert restore_in_place(ledger, {}, apply=True).losses == []
    feed(url, "uniform", 2)
    with Ledger.open(url) as ledger:
        found = restore_in_place(ledger, {"uniform": 9}, apply=True)
        assert [(loss.first, loss.last, loss.resume) for loss in found.losses] == [(7, 9, 13)]
        assert verify(ledger) == []
    feed(url, "uniform", 2)


def test_marks_of_a_server_are_kept_with_the_user(new_postgres: NewLedger) -> None:
    url = new_postgres()
    feed(url, "uniform", 5)
    with Ledger.open(url) as ledger:
        mark = ledger.all_marks()["uniform"]
        assert mark is not None
        assert mark.t == 4
        with ledger.writing() as connection:
            for statement in (
                "DELETE FROM chain WHERE number = 5",
                "DELETE FROM steps WHERE t = 4",
                "DELETE FROM charges WHERE t = 4",
            ):
                connection.exec_driver_sql(statement)
            connection.commit()
        with pytest.raises(LedgerError, match="rolled back"):
            feed(url, "uniform", 1)


def test_the_identity_of_a_server_is_what_it_says(new_postgres: NewLedger, tmp_path: Path) -> None:
    with Ledger.open(new_postgres()) as ledger, ledger.reading() as connection:
        present = servers.present_server(connection)
        assert present is None or (present.timeline >= 1 and present.system.isdecimal())
    with Ledger.open(tmp_path / "file.db") as ledger, ledger.reading() as connection:
        assert servers.present_server(connection) is None
    shutil.rmtree(tmp_path)
