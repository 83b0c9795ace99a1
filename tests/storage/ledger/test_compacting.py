"""A compacted ledger knows what it knew, verifies and goes on; its archive verifies by itself and takes no steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError, LedgerError
from veilstream.mechanisms.streams import DSAT, RetroactiveGrouping, Uniform
from veilstream.privacy.charge import Charge, Span
from veilstream.release import transacting
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.archiving import archive
from veilstream.storage.ledger.compacting import compact, plan_compaction
from veilstream.storage.ledger.exporting import export, header
from veilstream.storage.ledger.verifying import verify

NewLedger = Callable[[], str]
COUNTS = np.array([40, 7, 0])
STREAMS: dict[str, tuple[vs.Guarantee, Any]] = {
    "uniform": (vs.Guarantee(1, w=4), Uniform()),
    "dsat": (vs.Guarantee(2, w=7), DSAT()),
    "grouping-window": (vs.Guarantee(1, w=5), RetroactiveGrouping(window=4)),
}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots after a few steps."""
    monkeypatch.setattr(transacting, "INTERVAL", 3)


def publisher(url: str | Path, name: str) -> vs.Publisher[Any]:
    guarantee, mechanism = STREAMS[name]
    return vs.Publisher(3, guarantee, mechanism, url, stream=name)


def feed(url: str | Path, name: str, steps: int) -> None:
    with publisher(url, name) as p:
        for _ in range(steps):
            p.feed(COUNTS)


@pytest.mark.parametrize("keep_releases", [True, False])
@pytest.mark.parametrize("name", STREAMS)
def test_a_compacted_stream_goes_on_and_verifies(
    name: str, keep_releases: bool, new_ledger: NewLedger, tmp_path: Path
) -> None:
    url = new_ledger()
    feed(url, name, 30)
    for round_ in range(2):
        file = tmp_path / f"archive-{round_}.db"
        with Ledger.open(url) as ledger:
            seen, before = ledger.mark(name), len(list(ledger.charges(name)))
            plan = plan_compaction(ledger, name)
            assert 0 < plan.charges < before
            archive(ledger, [plan], file)
            compact(ledger, plan, keep_releases=keep_releases, archived=True)
            assert verify(ledger) == []
            assert len(list(ledger.charges(name))) == before - plan.charges
            ledger.check_seen(name, seen)
        with Ledger.open(file) as archived:
            assert verify(archived) == []
            assert len(list(archived.charges(name))) == plan.charges
        with pytest.raises(LedgerError, match="archive"):
            feed(file, name, 1)
        # More than two snapshots are apart, whatever the mechanism charges.
        feed(url, name, 60)
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []
        kept = [release.t for release in ledger.releases(name)]
        assert kept[-1] == 149
        assert (kept == list(range(150))) == keep_releases
        assert header(ledger, ledger.spec(name))["mark"]["t"] == 149
        assert export(ledger, name)


def test_a_snapshot_from_before_the_last_compaction_is_left_alone(tmp_path: Path) -> None:
    """Of the snapshots of entries 3, 10 and 18 the second becomes a summary by entry 20; then the third has passed."""
    url, name = tmp_path / "b.db", "uniform"
    through: list[int] = []
    for steps in (19, 5, 20):
        feed(url, name, steps)
        with Ledger.open(url) as ledger:
            plan = plan_compaction(ledger, name)
            through.append(plan.through)
            if plan.through:
                archive(ledger, [plan], tmp_path / f"{plan.through}.db")
                compact(ledger, plan, keep_releases=False, archived=True)
                assert verify(ledger) == []
    assert through[:2] == [10, 0]
    assert through[2] > 20


def test_what_was_spent_before_a_summary_is_remembered(tmp_path: Path) -> None:
    """Two streams of the same charges, one compacted: a charge that reaches back gets the same answer."""
    whole, small = tmp_path / "whole.db", tmp_path / "small.db"
    for path in (whole, small):
        feed(path, "uniform", 30)
    with Ledger.open(small) as ledger:
        compact(ledger, plan_compaction(ledger, "uniform"), keep_releases=True, archived=False)
    for reach in (0, 3, 20, 29):
        answers: list[str] = []
        for path in (whole, small):
            with publisher(path, "uniform") as p:
                book = p._book  # pyright: ignore[reportPrivateUsage]
                with book.transaction() as transaction:
                    book.catch_up(transaction, p._load)  # pyright: ignore[reportPrivateUsage]
                    book.session.accountant.advance(30)
                    wanted = Charge(vs.Guarantee(1, w=4).epsilon / 2, Span(30 - reach, 30), "publish")
                    try:
                        book.session.accountant.admit([wanted])
                        answers.append("admitted")
                    except BudgetExceededError as refused:
                        answers.append(str(refused))
        assert answers[0] == answers[1]


EDITS = {
    "the summary": "UPDATE snapshots SET digest = 'x' WHERE entry = (SELECT through FROM compactions)",
    "the record": "UPDATE compactions SET charge = charge - 1",
    "what was removed": "UPDATE compactions SET removed_steps = 3",
    "no record": "DELETE FROM compactions",
    "a kept release": "UPDATE steps SET std = 0.1 WHERE seq = 2",
    "a kept release deleted": "DELETE FROM steps WHERE seq = 2",
    "a charge that is left": "DELETE FROM charges WHERE id = (SELECT min(id) FROM charges)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_of_a_compacted_ledger_are_named(edit: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    feed(path, "uniform", 20)
    with Ledger.open(path) as ledger:
        compact(ledger, plan_compaction(ledger, "uniform"), keep_releases=True, archived=False)
        assert verify(ledger) == []
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        assert file.execute(EDITS[edit]).rowcount > 0
    with Ledger.open(path) as ledger:
        assert verify(ledger) != []


def test_nothing_is_taken_from_windows_that_can_change(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with vs.Publisher(3, vs.Guarantee(1, w=None), Uniform(horizon=40), path, stream="user") as p:
        for _ in range(20):
            p.feed(COUNTS)
    feed(path, "uniform", 4)
    with Ledger.open(path) as ledger:
        assert [plan_compaction(ledger, name).through for name in ("user", "uniform")] == [0, 0]
        assert "one budget" in str(plan_compaction(ledger, "user"))
