"""The demonstration of the server has something to see at once."""

from __future__ import annotations

from pathlib import Path

from veilstream import Ledger
from veilstream.server.demo import Replay, definitions, fill


def test_the_first_weeks_are_published_before_the_server_starts(tmp_path: Path) -> None:
    fill(tmp_path / "budget.db", Replay(), weeks=5)
    with Ledger.open(tmp_path / "budget.db") as ledger:
        published = {one.name: len(list(ledger.releases(one.name))) for one in definitions()}
    assert len(published) > 1
    assert set(published.values()) == {5}
