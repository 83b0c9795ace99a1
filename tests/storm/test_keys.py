"""A run of ``publish`` that dies while its key and its ledger come into being can be run again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storm.children import Strike
from storm.kills import KILLED
from veilstream.storage.keys import StreamKey, begun_path, load, settle, store

CHILD = """
import sys
from pathlib import Path
from storm.children import Strike, begin, end
from storm.subjects import Command, Place
folder, call, after = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "after"
work = lambda: Command(3).work(Place(str(folder / "ledger.db"), folder), lambda release: None)
print(end(begin(work, folder / "errors", Strike(call=call, after=after) if call else None)))
"""
"""Forks before any library has started a thread, which a test cannot promise."""


def run(folder: Path, strike: Strike) -> int:
    arguments = [str(folder), str(strike.call), "after" if strike.after else "before"]
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("call", [2, 4, 6])
def test_a_publish_that_was_killed_at_its_beginning_is_resumed(call: int, tmp_path: Path) -> None:
    assert run(tmp_path, Strike(call=call, after=call % 4 == 0)) == KILLED
    assert run(tmp_path, Strike()) == 0, (tmp_path / "errors").read_text(encoding="utf-8")
    assert load(tmp_path / "stream.key", "default") is not None
    assert not begun_path(tmp_path / "stream.key").exists()


def test_a_begun_key_is_settled_once(tmp_path: Path) -> None:
    path = tmp_path / "visits.key"
    key = store(begun_path(path), StreamKey.fresh("visits"))
    assert load(path, "visits") is None
    settle(path)
    settle(path)
    assert load(path, "visits") == key
