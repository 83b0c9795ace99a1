"""What a ledger stands on: file systems, modes, servers, and what dead processes left behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from veilstream.errors import LedgerError
from veilstream.release.sinks import replacing
from veilstream.storage.keys import StreamKey, load, store
from veilstream.storage.ledger import Ledger, surroundings
from veilstream.storage.ledger import backend as backends
from veilstream.storage.ledger.surroundings import file_system, refuse_forgetful_server

from .support import SPEC, publish

DEAD = 4_194_304
"""Above the largest number that Linux gives to a process."""
MOUNTS = "overlay / overlay rw 0 0\nserver:/x /data nfs4 rw 0 0\n/dev/sda1 /data/local\\040disk ext4 rw 0 0\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/a.db", "nfs4"),
        ("/data/local disk/a.db", "ext4"),
        ("/home/a.db", "overlay"),
        ("/database/a.db", "overlay"),
    ],
)
def test_the_nearest_mount_counts(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"none / ext4 rw 0 0\nserver {tmp_path} {kind} rw 0 0\n")
    monkeypatch.setattr(surroundings, "MOUNTS", mounts)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(tmp_path / "budget.db")
    assert kind in str(caught.value.limit)
    assert not (tmp_path / "budget.db").exists()


def test_secrets_that_everybody_can_read_are_refused(tmp_path: Path) -> None:
    ledger, key_file = tmp_path / "budget.db", tmp_path / "visits.key"
    Ledger.open(ledger).close()
    key = store(key_file, StreamKey.fresh("visits"))
    for path in (ledger, key_file):
        path.chmod(0o640)
    Ledger.open(ledger).close()
    assert load(key_file, "visits") == key
    for path in (ledger, key_file):
        path.chmod(0o604)
    with pytest.raises(LedgerError, match="chmod 600"):
        Ledger.open(ledger)
    with pytest.raises(LedgerError, match="chmod 600"):
        load(key_file, "visits")


class Server:
    """Answers SHOW as a server with some settings would."""

    def __init__(self, **settings: str) -> None:
        self._settings = {"fsync": "on", "full_page_writes": "on"} | settings
        self._asked = ""

    def execute(self, statement: str) -> Server:
        self._asked = statement.removeprefix("SHOW ")
        return self

    def fetchone(self) -> tuple[Any]:
        return (self._settings[self._asked],)


def test_a_server_that_may_forget_is_refused() -> None:
    refuse_forgetful_server(Server())
    for setting in ("fsync", "full_page_writes"):
        with pytest.raises(LedgerError, match=setting):
            refuse_forgetful_server(Server(**{setting: "off"}))


def test_what_dead_processes_left_is_cleaned_and_the_living_are_spared(tmp_path: Path) -> None:
    key_file, table = tmp_path / "visits.key", tmp_path / "table.csv"
    dead = [
        tmp_path / f".visits.key.{DEAD}",
        tmp_path / f".{DEAD}-table.csv",
        tmp_path / f".budget.db.visits.mark.{DEAD}",
    ]
    alive = [tmp_path / f".visits.key.{os.getppid()}", tmp_path / f".{os.getppid()}-table.csv"]
    for path in (*dead, *alive):
        path.touch()
    store(key_file, StreamKey.fresh("visits"))
    with replacing(table) as partial:
        partial.write_text("a\n")
    with Ledger.open(tmp_path / "budget.db") as ledger:
        ledger.register(SPEC)
        publish(ledger, 0)
    assert [path for path in dead if path.exists()] == []
    assert [path for path in alive if not path.exists()] == []


def test_the_log_is_brought_into_the_file_every_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "CHECKPOINT_COMMITS", 4)
    path = tmp_path / "budget.db"
    with Ledger.open(path) as ledger:
        ledger.register(SPEC)
        publish(ledger, 0)
        before = path.stat().st_size
        for t in range(1, 8):
            publish(ledger, t)
        assert path.stat().st_size > before
