"""Revisions are published with a step, kept version by version, and covered by the chain like releases."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError, LedgerError
from veilstream.release import transacting
from veilstream.storage.codec import encode
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.archiving import archive
from veilstream.storage.ledger.compacting import compact, plan_compaction
from veilstream.storage.ledger.exporting import export
from veilstream.storage.ledger.marks import Marks
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.verifying import verify
from veilstream.values.revision import Revision
from veilstream.values.values import NoiseLaw, Values

NewLedger = Callable[[], str]
COUNTS = [np.array([100 + 9 * t, 40, 3 * t]) for t in range(40)]


def publisher(url: str | Path, revise: int = 2) -> vs.Publisher[Any]:
    return vs.Publisher(3, vs.Guarantee(1, w=4), vs.ModelBased(revise=revise), url)


def told(revisions: list[Revision]) -> list[tuple[Any, ...]]:
    return [
        (each.step, each.version, each.made, each.values.numbers.tolist(), np.asarray(each.values.std).tolist())
        for each in revisions
    ]


def test_every_version_is_kept_and_a_step_fed_again_adds_none(new_ledger: NewLedger) -> None:
    url, seen = new_ledger(), list[tuple[Any, ...]]()
    for part in (COUNTS[:3], COUNTS[3:6]):
        # The second process goes on from the ledger alone.
        with publisher(url) as p:
            for counts in part:
                p.feed(counts)
                seen += told(p.revisions())
    with publisher(url) as p:
        again = p.feed(COUNTS[5], t=5)
        assert again.t == 5
        assert told(list(p.ledger.revisions("default"))) == seen
        assert [each[:3] for each in seen] == [
            (0, 1, 1), (0, 2, 2), (1, 1, 2), (1, 2, 3), (2, 1, 3), (2, 2, 4), (3, 1, 4), (3, 2, 5), (4, 1, 5)
        ]  # fmt: skip
        middle = told(list(p.ledger.revisions("default", first=2, last=3)))
        assert middle == [each for each in seen if each[0] in (2, 3)]
        assert verify(p.ledger) == []


def test_a_skipped_step_is_not_revised(new_ledger: NewLedger) -> None:
    with publisher(new_ledger()) as p:
        for counts in COUNTS[:3]:
            p.feed(counts)
        p.skip()
        p.feed(COUNTS[4])
        last = [(each.step, each.version) for each in p.ledger.revisions("default") if each.made == 4]
        assert last == [(1, 3), (2, 2)]
        assert verify(p.ledger) == []


def test_exports_have_each_version_behind_its_release(tmp_path: Path) -> None:
    with publisher(tmp_path / "ledger.db") as p:
        for counts in COUNTS[:3]:
            p.feed(counts)
        rows = [row for row in export(p.ledger, "default") if row["kind"] != "charge"]
    assert [(row["t"], row["kind"], row.get("version")) for row in rows] == [
        (0, "release", None), (0, "revision", 1), (0, "revision", 2), (1, "release", None), (1, "revision", 1),
        (2, "release", None),
    ]  # fmt: skip
    assert all(len(row["values"]) == len(row["std"]) == 3 for row in rows)


@pytest.mark.parametrize("keep_releases", [True, False])
def test_compacting_keeps_or_archives_them_with_the_releases(
    keep_releases: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transacting, "INTERVAL", 3)
    path, file = tmp_path / "ledger.db", tmp_path / "archive.db"
    with publisher(path) as p:
        for counts in COUNTS[:30]:
            p.feed(counts)
        before = told(list(p.ledger.revisions("default")))
        plan = plan_compaction(p.ledger, "default")
        assert plan.through > 0
        archive(p.ledger, [plan], file)
        compact(p.ledger, plan, keep_releases=keep_releases, archived=True)
        after = told(list(p.ledger.revisions("default")))
        assert after == (before if keep_releases else [each for each in before if each[2] > plan.t])
        p.feed(COUNTS[30])
        assert verify(p.ledger) == []
    with Ledger.open(file) as archived:
        assert told(list(archived.revisions("default"))) == [each for each in before if each[2] <= plan.t]
        assert verify(archived) == []
    if keep_releases:
        _edit(path, "UPDATE revisions SET law = 'laplace' WHERE t = 1")
        with Ledger.open(path) as ledger:
            assert any("altered" in finding.problem for finding in verify(ledger))


EDITS = {
    "a vintage deleted": "DELETE FROM revisions WHERE t = 3",
    "the last vintage deleted": "DELETE FROM revisions WHERE t = (SELECT max(t) FROM revisions)",
    "a vintage moved": "UPDATE revisions SET t = t + 1 WHERE t = 3",
    "its steps": "UPDATE revisions SET steps = '[0, 1]' WHERE t = 3",
    "values of another vintage": "UPDATE revisions SET values_array = (SELECT values_array FROM revisions WHERE t = 2) "
    "WHERE t = 3",
    "the law": "UPDATE revisions SET law = 'laplace' WHERE t = 3",
    "a vintage added": "INSERT INTO revisions SELECT stream_id, 99, t, first, last, steps, law, values_array, "
    "std_array, recorded FROM revisions WHERE t = 3",
}


def _edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "ledger.db"
    with publisher(path) as p:
        for counts in COUNTS[:6]:
            p.feed(counts)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named_and_refused(name: str, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(made, path)
    path.chmod(0o600)
    Marks(path).replace("default", Mark())
    with Ledger.open(path) as ledger:
        assert verify(ledger) == []
    _edit(path, EDITS[name])
    with Ledger.open(path) as ledger:
        assert verify(ledger) != []
    with pytest.raises(LedgerError), publisher(path) as p:
        p.feed(COUNTS[6])


def _revision(step: int, version: int) -> Revision:
    return Revision(step, version, Values(np.ones(3), 1.0, NoiseLaw.MODEL))


@pytest.mark.parametrize(
    "wrong",
    [[_revision(0, 1), _revision(0, 1)], [_revision(0, 2), _revision(1, 2)], [_revision(1, 0)]],
    ids=["a step twice", "made at two steps", "of its own step"],
)
def test_what_is_no_vintage_is_refused(wrong: list[Revision], tmp_path: Path) -> None:
    values, one = Values(np.ones(3), 1.0, NoiseLaw.MODEL), vs.Guarantee(1, w=4).epsilon
    with publisher(tmp_path / "ledger.db") as p:
        p.feed(COUNTS[0])
        with p.ledger.transaction("default") as transaction, pytest.raises(InvalidInputError) as caught:
            transaction.commit_step(1, [], encode(0), values, one, one, revisions=wrong)
        assert caught.value.name == "revisions"
        assert list(p.ledger.revisions("default")) == []
