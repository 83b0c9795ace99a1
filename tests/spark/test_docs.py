"""The examples of docs/spark.md work as they stand there, but for the number of events and steps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from tests.spark.conftest import Cluster
from tests.spark.support import opened
from veilstream.data import Calendar, Categories, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_directory_is_published_killed_and_resumed(
    spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = examples()[0].replace("100_000_000", "42_000").replace('"1h"', '"12h"')
    code = compile(source, "visits.py", "exec")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("veilstream.spark.local_session", lambda **_settings: spark.session)
    seen: dict[int, Any] = {}
    feed = vs.Publisher.feed
    dies_at = [9]

    def watched(publisher: Any, snapshot: Sealed, t: int | None = None) -> vs.Release:
        if snapshot.span.first in dies_at:
            raise KeyboardInterrupt
        seen[snapshot.span.first] = open_counts(snapshot)
        return feed(publisher, snapshot, t)

    monkeypatch.setattr(vs.Publisher, "feed", watched)
    with pytest.raises(KeyboardInterrupt):
        exec(code, {"__name__": "__main__"})
    dies_at.clear()
    exec(code, {"__name__": "__main__"})
    assert capsys.readouterr().out.endswith("published 5 steps now, 14 in all\n")
    domain, calendar = Domain({"zone": Categories(range(1000))}), Calendar("2024-01-01", "2024-01-08", "12h")
    events = read_events("visits", user="person", time="arrived", by=["zone"])
    with bound(events, domain, calendar, key=Path("visits.key").read_bytes()) as bounded:
        assert (opened(bounded.snapshots()) == [seen[t] for t in range(14)]).all()
    assert Path("visits.key").stat().st_mode & 0o777 == 0o600


def test_the_example_of_duckdb() -> None:
    names: dict[str, Any] = {}
    exec(examples()[1], names)
    assert len(names["steps"]) == 3
