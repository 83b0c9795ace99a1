"""A stream that has commits and no usable mark goes on only when the operator has said where it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from tests.storage.ledger.support import copy_of
from veilstream.errors import LedgerError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.decisions import RESTORED, last_decision
from veilstream.storage.ledger.restoring import restore_in_place
from veilstream.storage.ledger.verifying import verify

COUNTS = np.array([40, 7])


def publisher(url: str | Path) -> vs.Publisher[Any]:
    return vs.Publisher(2, vs.Guarantee(1, w=4), vs.Uniform(), url, stream="v")


def feed(url: str | Path, steps: int = 1) -> int:
    with publisher(url) as p:
        return [p.feed(COUNTS).t for _ in range(steps)][-1]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    assert feed(path, 3) == 2
    return path


def mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.v.mark")


def gone(mark: Path) -> None:
    mark.unlink()


def garbage(mark: Path) -> None:
    mark.write_bytes(os.urandom(5000))


def emptied(mark: Path) -> None:
    mark.write_bytes(b"")


def link_to_itself(mark: Path) -> None:
    aside = mark.with_name("aside")
    mark.replace(aside)
    mark.symlink_to(aside)


def pipe(mark: Path) -> None:
    mark.unlink()
    os.mkfifo(mark)


@pytest.mark.parametrize("harm", [gone, garbage, emptied, link_to_itself, pipe])
def test_without_its_mark_a_stream_is_refused_until_the_operator_says_where_it_is(
    harm: Callable[[Path], None], ledger: Path
) -> None:
    harm(mark_of(ledger))
    with pytest.raises(LedgerError) as caught:
        feed(ledger)
    assert "veilstream restore" in caught.value.next_step
    with Ledger.open(ledger) as opened:
        assert [finding.stream for finding in verify(opened)] == ["v"]
        with pytest.raises(LedgerError, match="ends with step 2") as asked:
            restore_in_place(opened, {}, apply=True)
        assert "--last-step v=T" in asked.value.next_step
        assert restore_in_place(opened, {"v": 2}, apply=True).losses == []
        assert verify(opened) == []
        with opened.reading() as connection:
            assert last_decision(connection, opened.label, RESTORED, None) == {"stated": {"v": 2}, "lost": []}
    assert feed(ledger) == 3
    assert not mark_of(ledger).is_symlink()


def test_what_a_link_points_to_is_left_alone(tmp_path: Path) -> None:
    victim, mark = tmp_path / "victim", tmp_path / "ledger.db.v.mark"
    victim.write_text("precious")
    mark.symlink_to(victim)
    with pytest.raises(LedgerError):
        feed(tmp_path / "ledger.db")
    assert victim.read_text() == "precious"


def test_a_loss_of_power_that_spoils_the_last_note_leaves_an_earlier_one(ledger: Path) -> None:
    with mark_of(ledger).open("r+b") as file:
        file.write(os.urandom(107))
    assert feed(ledger) == 3


def test_a_loss_of_power_before_the_first_commit_leaves_a_mark_that_says_nothing(tmp_path: Path) -> None:
    mark_of(tmp_path / "ledger.db").write_bytes(b"")
    assert feed(tmp_path / "ledger.db") == 0


def test_a_mark_that_cannot_be_written_stops_the_stream_before_the_next_step(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with publisher(ledger) as p:
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            # The commit is made when the mark is written: the release exists.
            assert p.feed(COUNTS).t == 3
            assert p.ledger.marks.failed == {"v": "No space left on device"}
            with pytest.raises(LedgerError, match="No space left"):
                p.feed(COUNTS)
        assert p.feed(COUNTS).t == 4
        assert p.ledger.marks.failed == {}
        seen = p.ledger.all_marks()["v"]
        assert seen is not None
        assert seen.number == p.ledger.mark("v").number


@pytest.mark.xdist_group("postgres")
def test_a_server_without_a_folder_for_marks_is_refused_before_anything_is_drawn(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_postgres()
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(LedgerError, match="old copy of the ledger would not be noticed"):
        feed(url)
    with Ledger.open(url) as opened:
        assert list(opened.charges("v")) == []


@pytest.mark.xdist_group("postgres")
def test_another_machine_of_a_server_asks_where_the_stream_is(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = new_postgres()
    feed(url, 3)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(LedgerError, match="no mark"):
        feed(url)
    with Ledger.open(url) as opened:
        restore_in_place(opened, {"v": 2}, apply=True)
    assert feed(url) == 3


def test_a_copy_that_is_opened_as_a_ledger_is_refused(ledger: Path, tmp_path: Path) -> None:
    with Ledger.open(ledger) as opened:
        copy_of(opened, tmp_path / "copy.db")
    with pytest.raises(LedgerError, match="no mark"):
        feed(tmp_path / "copy.db")
