"""``veilstream points``: releases of points from a file."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.support import Outcome, overridden, veilstream
from tests.metric.support import uniform_points

SECRET = "31.4159"


def write(folder: Path, rows: list[str] | None = None) -> list[object]:
    places = uniform_points(400, 2, 3) * [10, 4]
    lines = [f"p{i},{x:.6f},{y:.6f}" for i, (x, y) in enumerate(places.tolist())] if rows is None else rows
    (folder / "points.csv").write_text("\n".join(["id,x,y", *lines]) + "\n")
    line = ["--at", "x", "--low", 0, "--high", 10, "--distance", "0.05", "--epsilon", "1/2"]
    return ["points", folder / "points.csv", "--user", "id", "--ledger", folder / "budget.db", *line]


def in_the_plane(folder: Path) -> list[object]:
    return [*write(folder), "--at", "y", "--low", 0, "--high", 4]


@pytest.mark.parametrize("kind", ["sorted", "median", "smooth-median", "grid"])
def test_points_are_released_once_and_charged_once(kind: str, tmp_path: Path) -> None:
    options = in_the_plane(tmp_path) if kind == "grid" else write(tmp_path)
    first, again = (veilstream(*options, "--release", kind, "--json", "--out", tmp_path / "out.csv") for _ in "ab")
    assert first.code == again.code == 0, first.err
    assert (first.json["released_before"], again.json["released_before"]) == (False, True)
    assert first.json["spent"] == again.json["spent"] == "1/2"
    assert first.json["value"] == again.json["value"]
    table = pl.read_csv(tmp_path / "out.csv")
    assert len(table) == first.json["rows"]
    if kind == "sorted":
        assert table.columns == ["rank", "x", "low", "high", "covers"]
        assert table["x"].is_sorted()
        assert len(table) == 400
    if kind == "grid":
        assert table.columns == ["x", "y", "points", "low", "high", "covers"]
        assert float(table["points"].sum()) == pytest.approx(400)
        assert float(table["x"].to_numpy().max()) == pytest.approx(10)
    shown = veilstream("ledger", "show", tmp_path / "budget.db", "--json").json["streams"][0]
    assert "moving one point by up to 1/20 (euclidean)" in shown["guarantee_in_words"]
    assert "Not protected" in shown["promise"]
    assert [row["epsilon"] for row in shown["charges"]] == ["1/2"]
    listed = veilstream("ledger", "releases", tmp_path / "budget.db", "--json")
    assert (listed.json["releases"][0]["std"] is None) == ("median" in kind)
    assert "NaN" not in listed.out


def test_a_grid_comes_back_as_it_was_chosen_before_counts_in_cells_were_known(tmp_path: Path) -> None:
    options = [*overridden(in_the_plane(tmp_path), "--distance", 5), "--release", "grid", "--json"]
    first = veilstream(*options, "--noise", "flow-or-nodes")
    again = veilstream(*options, "--out", tmp_path / "out.csv")
    assert first.code == again.code == 0, again.err
    assert (again.json["released_before"], again.json["rows"]) == (True, first.json["rows"])
    other = veilstream(*options, "--noise", "cells")
    assert other.code != 0
    assert "recorded as" in other.err
    new = [veilstream(*options, "--stream", "new", *more) for more in ([], ["--noise", "cells"])]
    assert new[0].code == 0
    assert new[0].json["rows"] < first.json["rows"]
    assert new[1].code != 0


def test_a_median_is_told_in_words(tmp_path: Path) -> None:
    done = veilstream(*write(tmp_path), "--release", "median", "--quantile", "9/10")
    assert done.code == 0, done.err
    (value,) = (line for line in done.out.splitlines() if line.startswith("value: "))
    # 400 even points on 0..10: 10 off the 360th has odds of e^(-ε·rank/2) < 1e-20 per place.
    assert float(value.removeprefix("value: ")) == pytest.approx(9, abs=3)
    assert "Moving one point by up to 0.05 (euclidean)" in done.out
    assert "nothing new" in veilstream(*write(tmp_path), "--release", "median", "--quantile", "9/10").out


def test_only_sorted_points_are_said_to_be_put_in_order(tmp_path: Path) -> None:
    said = {kind: veilstream(*write(tmp_path), "--release", kind, "--stream", kind).out for kind in ("sorted", "grid")}
    assert "put in order" in said["sorted"]
    assert "noise: standard deviation" in said["grid"]
    assert "order" not in said["grid"]


def test_the_first_row_of_a_person_counts(tmp_path: Path) -> None:
    options = write(tmp_path, ["a,1,1", "b,2,1", "a,9,1"])
    done = veilstream(*options, "--release", "sorted", "--json")
    assert done.json["rows"] == 2


def refused(folder: Path, rows: list[str] | None, *options: object) -> Outcome:
    usual = write(folder, rows)
    # A second column is one more, a second distance would be one too many.
    outcome = veilstream(*([*usual, *options] if "--at" in options else overridden(usual, *options)))
    assert outcome.code == 2, outcome.out
    assert SECRET not in outcome.out + outcome.err
    assert not (folder / "budget.db").exists()
    return outcome


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([f"a,{SECRET},1"], "outside the public box"),
        (["a,,1"], "missing or not finite"),
        (["a,here,1"], "missing or not finite"),
        ([",1,1"], "has no person"),
        ([], "no rows"),
    ],
)
def test_bad_rows_are_refused_without_quoting_them(rows: list[str], words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, rows, "--release", "sorted").err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--release", "mean"], "release 'mean'"),
        (["--release", "sorted", "--quantile", "1/3"], "has none"),
        (["--release", "sorted", "--cells", "5"], "has none"),
        (["--release", "sorted", "--noise", "cells"], "several kinds"),
        (["--release", "grid", "--noise", "loud"], "noise 'loud'"),
        (["--release", "sorted", "--distance", "0"], "distance '0'"),
        (["--release", "sorted", "--metric", "roads"], "metric 'roads'"),
        (["--release", "sorted", "--row-per-person"], "but not both"),
        (["--release", "grid", "--at", "y"], "2 numbers each"),
        (["--release", "sorted", "--at", "z"], "column 'z' is missing"),
        (["--release", "sorted", "--out", "x.doc"], "must end in one of"),
    ],
)
def test_bad_options_are_refused_before_anything_is_recorded(options: list[str], words: str, tmp_path: Path) -> None:
    outcome = refused(tmp_path, None, *options)
    if words != "2 numbers each":
        assert words in outcome.err


def test_points_outside_are_clipped_when_asked(tmp_path: Path) -> None:
    done = veilstream(*write(tmp_path, [f"a,{SECRET},1", "b,3,1"]), "--release", "sorted", "--clip", "--json")
    assert done.code == 0, done.err


def test_an_order_needs_one_coordinate(tmp_path: Path) -> None:
    outcome = veilstream(*in_the_plane(tmp_path), "--release", "median", "--json")
    assert outcome.code == 2
    assert "only on 1 do points have an order" in json.loads(outcome.out)["error"]["message"]
