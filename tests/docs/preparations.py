"""Files that pages take for granted, blocks that no test can run, and what a page must have made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.metric.support import uniform_points

NOT_RUN: dict[str, str] = {
    "CONTRIBUTING.md": "its files belong into the package: tests/docs/test_contributing.py puts them there",
    "docs/experiments/index.md": "experiments of minutes and hours",
    "docs/ledger.md": "its commands read a ledger with the program sqlite3",
    "docs/live.md": "a server, its clients and their certificates: tests/server runs them",
    "docs/population.md": "tests/cli/test_population.py runs it and looks at every window",
    "docs/spark.md": "a hundred million events on Spark: tests/spark/test_docs.py makes them fewer",
    "docs/maintain/releasing.md": "commands of a release",
}
"""Pages with commands that cannot run as they stand, with the reason."""
SHORTER: dict[str, Callable[[str], str]] = {
    "docs/privacy.md": lambda text: text.replace("100000", "1000 --workers 1"),
    "docs/synthesis.md": lambda text: text.replace("100000", "1000"),
    "docs/advise.md": lambda text: text.replace("error=50)", "error=50, runs=2)"),
    "docs/compare.md": lambda text: text.replace(
        "--epsilon 1/10 ", "--mechanism uniform --mechanism sample --runs 2 "
    ).replace('["1/2", 1]', "[1]"),
}
"""What a page does for long is made short."""


def prepare(page: str, folder: Path) -> None:
    """The files that a page speaks of, small."""
    makers: dict[str, Callable[[Path], None]] = {
        "docs/advise.md": _requests,
        "docs/compare.md": _published_visits,
        "docs/fast.md": _cases,
        "docs/metric.md": _taxis,
        "docs/synthesis.md": _people,
    }
    if page in makers:
        makers[page](folder)


def _requests(folder: Path) -> None:
    rows = [f"{host},2024-01-01T0{hour}:00" for host in range(30) for hour in range(3)]
    (folder / "requests.csv").write_text("\n".join(["host,time", *rows]) + "\n")


def _published_visits(folder: Path) -> None:
    rows = [f"2019-{1 + day // 28:02}-{1 + day % 28:02},{place},{100 + day % 7}" for day in range(60) for place in "ab"]
    (folder / "visits_2019_published.csv").write_text("\n".join(["day,place,visits", *rows]) + "\n")


def _cases(folder: Path) -> None:
    (folder / "cases.csv").write_text("\n".join(["week,cases", *(f"{week},{week % 50}" for week in range(209))]) + "\n")
    rows = [f"{person},2024-{1 + person % 12:02}-15" for person in range(100)]
    (folder / "visits.csv").write_text("\n".join(["id,ts", *rows, "101,2024-12-31"]) + "\n")


def _taxis(folder: Path) -> None:
    rows = [f"{x:.3f},{y:.3f}" for x, y in (uniform_points(300, 2, 1) * [40, 30]).tolist()]
    (folder / "taxis.csv").write_text("\n".join(["x,y", *rows]) + "\n")


def _people(folder: Path) -> None:
    rows = [f"{person * 7 % 90},{person * 900 % 90_000}" for person in range(500)]
    (folder / "in.csv").write_text("\n".join(["age,income", *rows]) + "\n")
    domain = {"age": {"low": 0, "high": 100, "cells": 20}, "income": {"low": 0, "high": 100_000, "cells": 20}}
    (folder / "domain.json").write_text(json.dumps(domain))


def check(page: str, names: dict[str, Any], folder: Path) -> None:
    """What the page says that it does."""
    if page == "README.md":
        table = names["job"].to_polars()
        assert table.height == 48 * 2
        assert (table["low"] < table["high"]).all()
    elif page == "docs/guides/first-release.md":
        for name in ("budget.db", "releases.csv", "releases.png"):
            assert (folder / name).exists()
    elif page == "docs/advise.md":
        assert str(names["advice"].epsilon) == "3/2"
        assert (folder / "limits.png").exists()
    elif page == "docs/evaluation.md":
        assert names["released"].shape == (156, 50)
        assert set(names["table"]["metric"]) == {"range error", "range error (exact)", "fresh"}
    elif page == "docs/histograms.md":
        trial = np.asarray(names["trial"])
        assert (trial == np.rint(trial)).all()
        assert trial.min() >= 0
    elif page == "docs/measures.md":
        assert names["job"].measure == "visits, total so far"
    elif page == "docs/metric.md":
        assert names["guarantee"].cost(10) == 100
        assert float(names["map_of_points"].values.sum()) == pytest.approx(5000)
        assert (np.diff(names["east"].values) >= 0).all()
        assert str(names["release"].spent) == "1/10"
        assert (folder / "map.csv").read_text().startswith("x,y,points,low,high,covers\n")
    elif page == "docs/retroactive_grouping.md":
        assert names["errors"]["RetroactiveGrouping"] < names["errors"]["TimeUnit"]
    elif page == "docs/sparse.md":
        assert names["again"].release.seq == names["tree"].release.seq
        assert abs(names["tree"].boxes.total - 50_000) < 2_000
