"""The demo leaves what it promises, and a second run spends nothing."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from veilstream.cli.demo_data import JOB, bundled_data, true_counts
from veilstream.data import Calendar
from veilstream.errors import InvalidInputError
from veilstream.release.plots import plot_releases

from .support import veilstream


def test_demo_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = veilstream("demo", "--out", tmp_path / "demo")
    assert first.code == 0, first.err
    told = " ".join(first.out.split())
    assert "Released 156 weeks x 50 bins" in told
    assert "Assumed, not checked: a person is counted at most once a week" in told
    for name in ("releases.png", "heatmap.png", "with_truth.png"):
        assert (tmp_path / "demo" / name).read_bytes().startswith(b"\x89PNG")
    assert "visits per week" in (tmp_path / "demo" / "releases.html").read_text(encoding="utf-8")
    releases = pl.read_parquet(tmp_path / "demo" / "releases.parquet")
    assert len(releases) == 156 * 50
    assert {"value", "low", "high", "fresh", "covers", "as_of", "counted"} <= set(releases.columns)
    assert releases["value"].to_list() == pl.read_csv(tmp_path / "demo" / "releases.csv")["value"].to_list()
    monkeypatch.setattr("veilstream.cli.demo.draw", lambda *_: None)
    second = veilstream("demo", "--out", tmp_path / "demo")
    assert second.code == 0
    assert "nothing was spent again" in " ".join(second.out.split())
    assert pl.read_parquet(tmp_path / "demo" / "releases.parquet").equals(releases)


def test_bundled_data_are_complete() -> None:
    with bundled_data() as data:
        counts = true_counts(data, Calendar(JOB["start"], JOB["end"], JOB["every"]))
    assert counts["step"].min() == 0
    assert counts.group_by("step").len()["len"].unique().to_list() == [50]
    assert counts.select(pl.col("value").min()).item() >= 0


def test_true_counts_are_never_drawn_without_a_word(tmp_path: Path) -> None:
    table = pl.DataFrame({"step": [0], "time": [0], "value": [3], "low": [1.0], "high": [5.0], "fresh": [True]})
    truth = table.select("step", "value")
    with pytest.raises(InvalidInputError, match="note"):
        plot_releases(table, tmp_path / "truth.png", truth=truth)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInputError, match="0 releases"):
        plot_releases(table.clear(), tmp_path / "none.png")
    assert plot_releases(table, tmp_path / "one.png").exists()
