"""A run that is killed anywhere and goes on with new rows alone: everybody counts as if it had never ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from veilstream.data.bounding import PresenceHistory, store_history
from veilstream.errors import LedgerError
from veilstream.jobs import run as running
from veilstream.jobs.presence import KeptPresence
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.trusted.counts import Sealed

DAYS, KILLED = 6, 3
KILL = """
import os, sys
from tests.jobs import test_presence as test
from veilstream.jobs import run as running
feed = running._publish_or_repeat
def killed(publisher, snapshot, repeat):
    if snapshot.span.first < test.KILLED:
        return feed(publisher, snapshot, repeat)
    if sys.argv[2] == "after":
        feed(publisher, snapshot, repeat)
    os._exit(9)
running._publish_or_repeat = killed
test.publish(sys.argv[1], test.visits(range(test.DAYS)))
"""


def visits(days: range) -> dict[str, list[int]]:
    """Nine people: number k comes on every day from k on."""
    rows = [(who, day) for day in days for who in range(9) if who <= day]
    return {"id": [who for who, _ in rows], "day": [day for _, day in rows]}


def publish(folder: str | Path, rows: dict[str, list[int]], end: int = DAYS) -> list[int]:
    """How many people count in each step, with noise of next to nothing."""
    job = vs.publish(
        rows, user="id", time="day", every=1, start=0, end=end, epsilon=10**6, window=7, presence=2,
        unknown="drop", ledger=Path(folder) / "b.db", mechanism="uniform",
    )  # fmt: skip
    return [round(float(release.values[0])) for release in job.releases]


EXPECTED = [1, 2, 2, 2, 2, 2]
"""The newcomer of a day and that of the day before, who all are present later too."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_commit_of_a_step_neither_counts_twice_nor_forgets(tmp_path: Path, when: str) -> None:
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    done = subprocess.run([sys.executable, "-c", KILL, str(tmp_path), when], check=False, env=paths)
    assert done.returncode == 9
    with Ledger.open(tmp_path / "b.db") as ledger:
        head = ledger.head("default")
    assert head == (KILLED if when == "after" else KILLED - 1)
    assert (tmp_path / "b.db.default.key.presence.journal").exists()
    # The rows of released days are not given again.
    assert publish(tmp_path, visits(range(head + 1, DAYS))) == EXPECTED
    assert [path.name for path in tmp_path.glob("*.presence*")] == ["b.db.default.key.presence"]


def test_an_error_in_the_middle_leaves_enough_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = running._publish_or_repeat

    def failing(publisher: Any, snapshot: Sealed, repeat: bool) -> Any:
        if snapshot.span.first == KILLED:
            raise LedgerError("no room")
        return feed(publisher, snapshot, repeat)

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(running, "_publish_or_repeat", failing)
            with pytest.raises(LedgerError):
                publish(tmp_path, visits(range(DAYS)))
    assert publish(tmp_path, visits(range(KILLED, DAYS))) == EXPECTED


def test_a_history_that_is_ahead_of_its_ledger_is_refused(tmp_path: Path) -> None:
    """An old copy of a ledger was put back: its steps would be published as steps of nobody."""
    history = PresenceHistory(Guarantee(1, w=7, presence=2), bytes(16))
    history.advance(3)
    store_history(tmp_path / "presence", history)
    for released, name in ((2, "veilstream restore"), (4, "--all-rows")):
        with pytest.raises(LedgerError) as caught:
            KeptPresence(tmp_path / "presence", history, released, all_rows=False)
        assert caught.value.name == "presence history"
        assert name in str(caught.value.next_step)
    assert KeptPresence(tmp_path / "presence", history, 3, all_rows=False).history.through == 3
