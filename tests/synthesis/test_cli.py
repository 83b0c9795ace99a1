"""``veilstream synthesize``: rows, a page, a ledger, and clear refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tests.cli.support import overridden
from veilstream.cli import app
from veilstream.storage.ledger import Ledger

SECRET = "jane.doe@example.org"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    age = np.arange(600) % 90
    people = {"age": age, "income": age * 700 % 50_000, "sex": ["f", "m"] * 300, "id": np.arange(600) // 2}
    pl.DataFrame(people).write_csv(tmp_path / "in.csv")
    bins = {
        "age": {"low": 0, "high": 100, "cells": 100},
        "income": {"low": 0, "high": 50000, "cells": 100},
        "sex": ["f", "m"],
    }
    (tmp_path / "domain.json").write_text(json.dumps(bins))
    return tmp_path


def run(folder: Path, *options: str, file: str = "in.csv") -> tuple[int, str, str]:
    base = ["synthesize", str(folder / file), "--domain", str(folder / "domain.json")]
    result = CliRunner().invoke(app, [*base, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_rows_are_drawn_and_drawn_again_for_nothing(folder: Path, suffix: str) -> None:
    out = folder / f"out.{suffix}"
    options = ["--epsilon", "1", "--rows", "1000", "--out", str(out), "--json"]
    code, said, _ = run(folder, *options)
    assert code == 0
    assert json.loads(said)["spent_now"] == "1"
    read: dict[str, Any] = {"parquet": pl.read_parquet, "csv": pl.read_csv, "ndjson": pl.read_ndjson}
    frame = read[suffix](out)
    assert frame.shape == (1000, 3)
    assert set(frame["sex"]) <= {"f", "m"}
    assert frame["age"].is_between(0, 100).all()
    _, again, _ = run(folder, *options)
    assert json.loads(again)["spent_now"] == "0"


def test_a_page_costs_nothing_unless_it_measures(folder: Path) -> None:
    page = folder / "page.html"
    options = [
        "--epsilon",
        "1",
        "--out",
        str(folder / "o.csv"),
        "--ledger",
        str(folder / "b.db"),
        "--report",
        str(page),
    ]
    code, said, _ = run(folder, *options)
    assert code == 0
    assert "wrote" in said
    text = page.read_text()
    assert text.count("data:image/png") == 2
    assert "nothing" in text
    with Ledger.open(folder / "b.db") as ledger:
        assert [spec.name for spec in ledger.streams()] == ["table"]
    first, again = (run(folder, *options, "--measure", "1/10")[1] for _ in range(2))
    assert "spent epsilon 0.1 (0.1 on the page)" in first
    assert "nothing was spent" in again
    with Ledger.open(folder / "b.db") as ledger:
        charged = [sum(row.charge.epsilon for row in ledger.charges(name)) for name in ("table", "table quality")]
    assert [str(amount) for amount in charged] == ["1", "1/10"]
    assert "measured" in page.read_text()


def test_what_a_page_measures_is_told_with_what_the_model_cost(folder: Path) -> None:
    options = [
        "--epsilon",
        "1",
        "--out",
        str(folder / "o.csv"),
        "--report",
        str(folder / "p.html"),
        "--measure",
        "1/10",
    ]
    told = json.loads(run(folder, *options, "--json")[1])
    assert (told["spent_now"], told["spent_on_model"], told["spent_on_page"]) == ("11/10", "1", "1/10")
    assert json.loads(run(folder, *options, "--json")[1])["spent_now"] == "0"


def test_an_operator_at_a_terminal_sees_how_far_the_fit_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []

    @contextmanager
    def recorded(label: str, quiet: bool) -> Generator[Callable[[int, int], None]]:
        assert (label, quiet) == ("reading rows, fitting, drawing", False)
        yield lambda done, total: steps.append((done, total))

    monkeypatch.setattr("veilstream.cli.synthesize.progress_bar", recorded)
    run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"))
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_marginals_of_pairs_are_drawn_and_shown_on_the_page(folder: Path) -> None:
    page = folder / "page.html"
    options = ["--target", "sex", "--epsilon", "4", "--out", str(folder / "o.parquet"), "--report", str(page)]
    code, said, _ = run(folder, *options, "--json")
    assert code == 0
    assert json.loads(said)["copula"] == ["marginals"]
    shown = page.read_text()
    assert "age × income" in shown
    assert "from independence" in shown
    assert any(advice in shown for advice in ("use it", "with care", "no better than independence"))


@pytest.mark.parametrize("method", ["kendall", "mle", "hybrid"])
def test_every_method_and_the_choice_of_the_copula_run(folder: Path, method: str) -> None:
    out = folder / "out.parquet"
    code, said, _ = run(
        folder, "--epsilon", "4", "--method", method, "--copula", "choose", "--out", str(out), "--user", "id", "--json"
    )
    assert code == 0
    assert 200 < json.loads(said)["noisy_rows_of_the_table"] < 400


REFUSED: dict[str, tuple[list[str], str]] = {
    "method": (["--method", "magic"], "choose from auto, pairs, kendall, mle, hybrid"),
    "margins": (["--margins", "magic"], "margins 'magic'"),
    "target": (["--target", "height"], "target 'height': the attributes are age, income, sex"),
    "target of a copula": (["--target", "sex", "--method", "kendall"], "a copula measures all dependence alike"),
    "rows": (["--rows", "-5"], "rows -5"),
    "measure": (["--measure", "1"], "give --report"),
    "epsilon": (["--epsilon", "0"], "epsilon '0'"),
    "user": (["--user", "nobody"], "column 'nobody' is missing"),
    "out": (["--out", "out.xlsx"], "must end in"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_options_are_refused_in_one_line_before_anything_is_spent(folder: Path, name: str) -> None:
    options, words = REFUSED[name]
    code, said, complaint = run(
        folder, *map(str, overridden(["--epsilon", "1", "--out", str(folder / "o.csv")], *options))
    )
    assert code == 2
    assert said == ""
    assert words in complaint
    assert not (folder / "o.csv").exists()


def test_values_outside_the_domain_are_never_quoted(folder: Path) -> None:
    (folder / "bad.csv").write_text(f"age,income,sex\n3,5,{SECRET}\n")
    code, _, complaint = run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"), file="bad.csv")
    assert code == 2
    assert "attribute 'sex'" in complaint
    assert SECRET not in complaint


@pytest.fixture
def trips(folder: Path) -> Path:
    rows = np.arange(1200)
    table = {"id": rows // 2, "day": [f"2024-{1 + row // 400:02}-09" for row in rows], "sex": ["f", "m"] * 600}
    pl.DataFrame(table).write_csv(folder / "trips.csv")
    (folder / "domain.json").write_text(json.dumps({"sex": ["f", "m"]}))
    return folder


def over_time(folder: Path, end: str, *options: str) -> tuple[int, str, str]:
    time = ["--time", "day", "--every", "1mo", "--window", "2", "--start", "2024-01-01", "--end", end]
    rest = ["--user", "id", "--epsilon", "4", "--out", str(folder / "drawn.csv"), "--seed", "1"]
    return run(folder, *rest, *time, *options, file="trips.csv")


def test_a_table_for_every_step_is_paid_for_once(trips: Path) -> None:
    code, said, _ = over_time(trips, "2024-03-01", "--unknown", "drop", "--json")
    assert (code, json.loads(said)["spent_in_a_step"]) == (0, ["2", "2"])
    first = (trips / "drawn.csv").read_text()
    code, said, _ = over_time(trips, "2024-04-01", "--json")
    told = json.loads(said)
    assert (told["steps"], told["released_before"], told["spent_in_a_step"]) == (3, 2, ["2"])
    assert (trips / "drawn.csv").read_text().startswith(first)
    drawn = pl.read_csv(trips / "drawn.csv")
    assert drawn.columns == ["day", "sex"]
    assert drawn["day"].unique().sort().to_list() == [f"2024-{month:02}-01T00:00:00+00:00" for month in (1, 2, 3)]


@pytest.mark.parametrize(
    ("options", "about"),
    [
        (["--every", "1mo"], "--time"),
        (["--every", "1mo", "--time", "day", "--window", "2", "--start", "2024-01-01"], "--end"),
    ],
)
def test_options_of_time_belong_together(trips: Path, options: list[str], about: str) -> None:
    rest = ["--user", "id", "--epsilon", "4", "--out", str(trips / "drawn.csv")]
    code, _, error = run(trips, *rest, *options, file="trips.csv")
    assert code != 0
    assert about in error
    assert not (trips / "trips.csv.ledger.db").exists()


def test_a_page_is_about_one_table(trips: Path) -> None:
    code, _, error = over_time(trips, "2024-04-01", "--report", str(trips / "page.html"))
    assert code != 0
    assert "--report" in error


def test_a_dry_run_tells_the_window(trips: Path) -> None:
    _, said, _ = over_time(trips, "2024-04-01", "--dry-run", "--json")
    assert "2 successive steps" in json.loads(said)["promise"] or "window" in said
