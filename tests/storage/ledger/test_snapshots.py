"""A stream reopened from a snapshot goes on as if all charges had been replayed, and no snapshot can be forged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import BudgetExceededError, LedgerError
from veilstream.mechanisms.streams import DSAT, BudgetAbsorption, RetroactiveGrouping, Uniform
from veilstream.privacy.charge import Charge, Span
from veilstream.release import transacting
from veilstream.storage.ledger import Ledger
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


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots after a few steps."""
    monkeypatch.setattr(transacting, "INTERVAL", 3)


def publisher(url: str | Path, name: str) -> vs.Publisher[Any]:
    guarantee, mechanism = STREAMS[name]
    return vs.Publisher(3, guarantee, mechanism, url, stream=name)


def snapshots(url: str) -> int:
    with Ledger.open(url) as ledger, ledger.reading() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM snapshots").scalar_one())


@pytest.mark.parametrize("name", STREAMS)
def test_a_reopened_stream_has_what_it_had_left(name: str, new_ledger: NewLedger) -> None:
    url = new_ledger()
    for opened in range(6):
        with publisher(url, name) as p:
            if opened == 2:
                failed = Charge(Fraction(0), Span(p.feed(COUNTS).t, p.feed(COUNTS).t), "publish")
                with p.ledger.transaction(name) as transaction:
                    assert transaction.head is not None
                    transaction.commit_failure(transaction.head + 1, [failed], "RuntimeError")
            for _ in range(7):
                release = p.feed(COUNTS)
            if opened == 4:
                release = p.skip()
        with Ledger.open(url) as ledger:
            replayed = vs.Publisher(3, *STREAMS[name], ledger, stream=name)
            session = replayed._book.refresh()  # pyright: ignore[reportPrivateUsage]  # every charge, no snapshot
            session.at(release.t)
            assert session.left == release.left
    assert snapshots(url) > 3
    with Ledger.open(url) as ledger:
        assert verify(ledger) == []


def test_charges_before_a_snapshot_still_count(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with publisher(path, "uniform") as p:
        for _ in range(9):
            p.feed(COUNTS)
        charged = Charge(Fraction(1, 4), Span(9, 9), "publish")
        with p.ledger.transaction("uniform") as transaction:
            transaction.commit_failure(9, [charged], "RuntimeError")
    with publisher(path, "uniform") as p, pytest.raises(BudgetExceededError):
        p.feed(COUNTS)


EDITS = {
    "the body": "UPDATE snapshots SET body = (SELECT body FROM other.snapshots WHERE body IS NOT NULL)",
    "body and digest": "UPDATE snapshots SET body = (SELECT body FROM other.snapshots WHERE body IS NOT NULL), "
    "digest = (SELECT digest FROM other.snapshots WHERE body IS NOT NULL) "
    "WHERE body IS NOT NULL",
    "its step": "UPDATE snapshots SET t = t - 1 WHERE body IS NOT NULL",
    "its entry": "UPDATE snapshots SET entry = entry + 1 WHERE body IS NOT NULL",
    "no bytes": "UPDATE snapshots SET body = x'00' WHERE body IS NOT NULL",
    "an entry before it": "DELETE FROM chain WHERE number = (SELECT entry - 1 FROM snapshots WHERE body IS NOT NULL)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_forged_snapshot_is_refused_and_named(edit: str, tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.db", tmp_path / "other.db"
    for where, steps in ((path, 20), (other, 5)):
        with publisher(where, "uniform") as p:
            for _ in range(steps):
                p.feed(COUNTS)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("ATTACH ? AS other", (str(other),))
        assert file.execute(EDITS[edit]).rowcount > 0
    with publisher(path, "uniform") as p, pytest.raises(LedgerError):
        p.feed(COUNTS)
    with Ledger.open(path) as ledger:
        assert [finding.stream for finding in verify(ledger)] == ["uniform"] * len(verify(ledger)) != []


def test_a_ledger_without_its_snapshots_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with publisher(path, "uniform") as p:
        for _ in range(8):
            p.feed(COUNTS)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("DELETE FROM snapshots")
    with publisher(path, "uniform") as p, pytest.raises(LedgerError):
        p.feed(COUNTS)


def test_two_processes_share_snapshots(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with publisher(path, "absorption") as first, publisher(path, "absorption") as second:
        for _ in range(6):
            for p in (first, second):
                p.feed(COUNTS)
    with Ledger.open(path) as ledger:
        assert verify(ledger) == []
        assert len(list(ledger.releases())) == 12
