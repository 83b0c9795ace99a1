"""Compacting, restoring and starting over by command: each says first what it means, and does it when told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilstream as vs
from tests.cli.support import City, veilstream
from veilstream.mechanisms.streams import Uniform
from veilstream.release import transacting


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with snapshots."""
    monkeypatch.setattr(transacting, "INTERVAL", 3)
    path = tmp_path / "grown.db"
    for name in ("visits", "trips"):
        with vs.Publisher(2, vs.Guarantee(1, w=4), Uniform(), path, stream=name) as p:
            for _ in range(25):
                p.feed(np.array([5, 9]))
    return path


def test_compacting_says_what_it_would_do_first(grown: Path, tmp_path: Path) -> None:
    before = grown.read_bytes()
    said = veilstream("ledger", "compact", grown)
    assert said.code == 0
    assert "give way to an exact summary" in said.out
    assert "--apply" in said.err
    assert grown.read_bytes() == before
    for wrong in ([], ["--no-archive", "--releases", "archive"], ["--no-archive", "--releases", "some"]):
        assert veilstream("ledger", "compact", grown, "--apply", *wrong).code == 2
    archive = tmp_path / "archive.db"
    done = veilstream("ledger", "compact", grown, "--apply", "--archive", archive, "--json")
    assert [stream["through"] > 0 for stream in done.json["streams"]] == [True, True]
    for file in (grown, archive):
        assert veilstream("ledger", "verify", file, "--json").json["problems"] == []
    assert veilstream("ledger", "compact", grown, "--apply", "--archive", archive).code in (0, 4)
    assert len(veilstream("ledger", "releases", grown, "--json").json["releases"]) == 50


def test_a_lost_ledger_goes_on_from_its_backup_one_window_later(grown: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    assert veilstream("backup", grown, backup).code == 0
    assert veilstream("backup", grown, backup).code == 4
    with vs.Publisher(2, vs.Guarantee(1, w=4), Uniform(), grown, stream="visits") as p:
        for _ in range(3):
            p.feed(np.array([5, 9]))
    assert "empty place" in veilstream("restore", backup, grown).err
    grown.unlink()
    said = veilstream("restore", backup, grown)
    assert "steps 25 to 27 are lost and count as spent; it goes on at step 31" in said.out
    assert not grown.exists()
    assert veilstream("restore", backup, grown, "--last-step", "visits").code == 2
    done = veilstream("restore", backup, grown, "--apply", "--json").json
    assert [(loss["stream"], loss["resume"]) for loss in done["losses"]] == [("visits", 31)]
    with vs.Publisher(2, vs.Guarantee(1, w=4), Uniform(), grown, stream="visits") as p:
        assert p.feed(np.array([5, 9])).t == 31
    shown = veilstream("ledger", "show", grown, "--json").json
    assert [stream["fullest_window"] for stream in shown["streams"]] == ["1", "1"]
    assert veilstream("ledger", "verify", grown).code == 0


def test_starting_over_is_a_recorded_decision(city: City) -> None:
    assert city.publish().code == 0
    before = city.released()
    assert veilstream("ledger", "reset", city.ledger, "--stream", "default", "--reason", "x").code == 4
    city.ledger.unlink()
    key = city.folder / "budget.db.default.key"
    former = json.loads(key.read_text())["key"]
    refused = city.publish("--json")
    assert refused.code == 4
    assert "ledger reset" in refused.json["error"]["next_step"]
    said = veilstream("ledger", "reset", city.ledger, "--stream", "default", "--reason", "the disk burned")
    assert "second whole budget" in said.out
    assert "step 5" in said.out
    assert not city.ledger.exists()
    done = veilstream("ledger", "reset", city.ledger, "--stream", "default", "--reason", "the disk burned", "--apply")
    assert done.code == 0
    written = json.loads(key.read_text())
    assert written["key"] != former
    assert written["reset"]["reason"] == "the disk burned"
    assert (city.folder / "budget.db.default.key.before-reset-1").exists()
    assert city.publish().code == 0
    assert city.released() != before
    assert city.publish().code == 0
    assert veilstream("ledger", "verify", city.ledger).code == 0


def test_streams_about_the_same_people_are_added_up(grown: Path, city: City) -> None:
    shown = veilstream("ledger", "show", grown, "--json").json
    assert shown["total"] == {"streams": 2, "epsilon": "2", "promised": "2"}
    assert "together: if these 2 streams are about the same people" in veilstream("ledger", "show", grown).out
    assert city.publish().code == 0
    assert "together:" not in veilstream("ledger", "show", city.ledger).out


def test_what_publish_said_tells_an_older_ledger(city: City) -> None:
    assert city.publish(end="2024-01-01T02:00", unknown="drop").code == 0
    copy, seen = city.folder / "copy" / "ledger.db", city.folder / "said.json"
    assert veilstream("backup", city.ledger, copy.parent).code == 0
    said = city.publish("--json")
    assert said.json["mark"]["t"] == 5
    seen.write_text(said.out)
    assert veilstream("ledger", "verify", city.ledger, "--seen", seen).code == 0
    assert veilstream("ledger", "verify", copy, "--seen", seen).code == 4
