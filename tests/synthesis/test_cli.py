"""``veilstream synthesize``: rows, a page, a ledger, and clear refusals."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from tests.cli.support import overridden
from veilstream.cli import app
from veilstream.cli.progress import Stages, stages
from veilstream.storage.ledger import Ledger
from veilstream.synthesis.quality import measured_errors

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


@pytest.mark.parametrize(("method", "pictures"), [("auto", 2), ("kendall", 3)])
def test_a_page_costs_nothing_unless_it_measures(folder: Path, method: str, pictures: int) -> None:
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
        "--method",
        method,
    ]
    code, said, _ = run(folder, *options)
    assert code == 0
    assert "wrote" in said
    text = page.read_text()
    assert text.count("data:image/png") == pictures
    assert "nothing" in text
    with Ledger.open(folder / "b.db") as ledger:
        assert [spec.name for spec in ledger.streams()] == ["table"]
    first, again = (run(folder, *options, "--measure", "1/10")[1] for _ in range(2))
    assert "spent epsilon 0.1 (0.1 on the page)" in first
    assert "nothing was spent" in again
    with Ledger.open(folder / "b.db") as ledger:
        names = ("table", "table quality", "table quality of tables")
        charged = [sum(row.charge.epsilon for row in ledger.charges(name)) for name in names]
    assert [str(amount) for amount in charged] == ["1", "1/40", "3/40"]
    assert "measured error" in page.read_text()


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


def test_an_operator_at_a_terminal_sees_the_stage_of_the_fit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    shown: list[tuple[int, int]] = []

    @contextmanager
    def recorded(total: int, quiet: bool) -> Generator[Stages]:
        assert not quiet
        yield Stages(lambda done, of: shown.append((done, of)), begun.append, total)

    monkeypatch.setattr("veilstream.cli.synthesize.stages", recorded)
    run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"))
    assert begun == ["reading rows", "fitting the model", "drawing rows"]
    assert shown == [(0, 3), (1, 3), (2, 3)]


def test_stages_are_shown_at_a_terminal_and_nothing_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal in (False, True):
        monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")
        with stages(2, quiet=False) as progress:
            progress.begin("reading rows")
            progress.begin("fitting the model")
        shown = capsys.readouterr().err
        assert ("fitting the model" in shown or "done" in shown) == terminal


def test_a_wide_bin_with_most_rows_is_pointed_out_and_a_stated_spike_is_kept(folder: Path) -> None:
    """Nine of ten incomes are 0. The noise at this epsilon moves shares by some thousandths."""
    income = np.where(np.arange(3000) % 10, 0, np.arange(3000))
    pl.DataFrame({"income": income, "sex": ["f", "m"] * 1500}).write_csv(folder / "spiky.csv")
    bins: dict[str, Any] = {"income": {"low": 0, "high": 3000, "cells": 30}, "sex": ["f", "m"]}
    options = ["--epsilon", "10", "--out", str(folder / "o.csv")]
    zeros: list[float] = []
    for spikes in ({}, {"spikes": [0]}):
        stated = bins | {"income": bins["income"] | spikes}
        (folder / "domain.json").write_text(json.dumps(stated))
        code, _, noted = run(folder, *options, "--name", f"spikes {len(spikes)}", file="spiky.csv")
        assert code == 0
        assert ('"spikes": [0]' in noted and "income" in noted) == (not spikes)
        zeros.append(float(np.mean(pl.read_csv(folder / "o.csv")["income"].to_numpy() == 0)))
    assert zeros[0] < 0.1
    assert abs(zeros[1] - 0.9) < 0.03


def test_parts_of_a_table_are_charged_once_and_keep_the_total(folder: Path) -> None:
    """At epsilon 1/10 the noise of the total has a standard deviation of some tens of rows, in 800."""
    rows = np.arange(800)
    pl.DataFrame({"age": rows % 90, **{f"c{i}": rows // 2**i % 2 for i in range(6)}}).write_csv(folder / "parts.csv")
    bins = {"age": {"low": 0, "high": 100, "cells": 100}, **{f"c{i}": [0, 1] for i in range(6)}}
    (folder / "domain.json").write_text(json.dumps(bins))
    options = ["--method", "hybrid", "--out", str(folder / "o.csv"), "--json"]
    told = [
        json.loads(run(folder, *options, "--epsilon", epsilon, "--name", f"at {epsilon}", file="parts.csv")[1])
        for epsilon in ("1", "1/10")
    ]
    assert [each["spent_now"] for each in told] == ["1", "1/10"]
    assert abs(told[0]["noisy_rows_of_the_table"] - 800) < 200
    assert 100 < told[1]["noisy_rows_of_the_table"] < 4000


def test_a_page_measures_errors_against_the_table_and_tells_what_it_measured(folder: Path) -> None:
    page = folder / "page.html"
    options = ["--target", "sex", "--epsilon", "4", "--out", str(folder / "o.csv"), "--report", str(page)]
    run(folder, *options)
    assert "was not measured" in page.read_text()
    assert "advice, as far as noise goes" in page.read_text()
    run(folder, *options, "--measure", "4")
    text = page.read_text()
    assert "measured error of independence" in text
    assert "not measured (" not in text


def test_a_page_of_an_earlier_version_measures_nothing_again(folder: Path) -> None:
    """Ledgers that measured ranges alone, for all of the budget, give these back."""
    options = ["--epsilon", "4", "--out", str(folder / "o.csv"), "--ledger", str(folder / "b.db")]
    report = ["--report", str(folder / "p.html"), "--measure", "1/10"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("veilstream.synthesis.quality.measured_all", _ranges_alone)
        run(folder, *options, *report)
    told = json.loads(run(folder, *options, *report, "--json")[1])
    assert told["spent_now"] == "0"


def _ranges_alone(rows: Any, model: Any, drawn: Any, _pairs: Any, epsilon: Any, ledger: Any, *, name: str) -> Any:
    return measured_errors(rows, model, drawn, epsilon, ledger, name=name), {}


def test_marginals_of_pairs_are_drawn_and_shown_on_the_page(folder: Path) -> None:
    page = folder / "page.html"
    options = ["--target", "sex", "--epsilon", "4", "--out", str(folder / "o.parquet"), "--report", str(page)]
    code, said, _ = run(folder, *options, "--json")
    assert code == 0
    assert json.loads(said)["copula"] == ["marginals"]
    shown = page.read_text()
    assert "age × income" in shown
    assert "error of independence" in shown
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
    "measure of nothing": (["--measure", "abc", "--report", "p.html"], "measure 'abc'"),
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


WRONG_BINS: dict[str, tuple[Any, str]] = {
    "upside down": ({"low": 100, "high": 0, "cells": 10}, "attribute 'age': grid from 100.0 to 0.0"),
    "nothing": ([], "attribute 'age': categories: 0 values"),
    "a number": (100, 'write {"low": 0, "high": 100, "cells": 100}'),
    "a spike of text": ({"low": 0, "high": 100, "cells": 10, "spikes": ["x"]}, "spikes of 'age' ['x']"),
    "a spike alone": ({"low": 0, "high": 100, "cells": 10, "spikes": 0}, "spikes of 'age' 0"),
    "a spike outside": ({"low": 0, "high": 100, "cells": 10, "spikes": [200]}, "spikes of 'age' [200]"),
    "texts": (["a", "b"], "attribute 'age': a row has a value"),
}


@pytest.mark.parametrize("name", WRONG_BINS)
def test_wrong_bins_are_refused_with_the_name_of_the_attribute(folder: Path, name: str) -> None:
    bins, words = WRONG_BINS[name]
    (folder / "domain.json").write_text(json.dumps({"age": bins}))
    code, said, complaint = run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"))
    assert (code, said) == (2, "")
    assert words in complaint
    assert "Next: " in complaint


def test_texts_in_a_column_of_numbers_and_a_missing_file_are_told_as_such(folder: Path) -> None:
    (folder / "domain.json").write_text(json.dumps({"sex": {"low": 0, "high": 2, "cells": 2}}))
    _, _, complaint = run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"))
    assert "the column holds texts and its bins are numbers" in complaint
    code, _, complaint = run(folder, "--epsilon", "1", "--out", str(folder / "o.csv"), file="none.csv")
    assert code == 2
    assert "there is no such file" in complaint


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
