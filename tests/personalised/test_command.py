"""``veilstream personalised``: counts from a file with an epsilon column."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.cli.support import Outcome, veilstream

SECRET = "jane.doe@example.org"


def write(folder: Path, rows: list[str] | None = None) -> list[object]:
    budgets = ["0.25", "0.5", "2"]
    lines = [f"p{i},{budgets[i % 3]},{'harbour' if i % 2 else 'market'}" for i in range(600)] if rows is None else rows
    (folder / "people.csv").write_text("\n".join(["id,epsilon,place", *lines]) + "\n")
    (folder / "domain.json").write_text(json.dumps({"place": ["harbour", "market"]}))
    return ["personalised", folder / "people.csv", "--person", "id", "--domain", folder / "domain.json"]


@pytest.mark.parametrize("method", ["stretching", "utility", "waste", "sampling", "minimum"])
def test_counts_are_published_once_and_charged_to_everybody_by_their_own_budget(method: str, tmp_path: Path) -> None:
    options = [*write(tmp_path), "--ledger", tmp_path / "budget.db", "--method", method, "--json"]
    first, again = veilstream(*options), veilstream(*options)
    assert first.code == again.code == 0, first.err
    assert first.json == again.json
    assert [row["people"] for row in first.json["charged"]] == [200, 200, 200]
    for row in first.json["charged"]:
        assert 0 < Fraction(row["charged"]) <= Fraction(row["epsilon"])
    # Noise of standard deviation at most 6, sampling error about 10: 150 off is beyond 1e-7.
    assert [row["place"] for row in first.json["counts"]] == ["harbour", "market"]
    assert all(abs(row["value"] - 300) < 150 for row in first.json["counts"])


def test_a_table_is_written(tmp_path: Path) -> None:
    done = veilstream(*write(tmp_path), "--ledger", tmp_path / "budget.db", "--out", tmp_path / "counts.csv")
    assert done.code == 0, done.err
    assert (tmp_path / "counts.csv").read_text().splitlines()[0] == "place,value,noise_low,noise_high,counted,covers"
    assert "nobody was charged more than their own epsilon" in done.out


@pytest.mark.parametrize(
    ("method", "warning", "held", "bias"),
    [
        ("stretching", "counts are wrong by up to", "hold the value before noise, not the count,", True),
        ("utility", "counts are wrong besides noise", "hold the value before noise, not the count,", None),
        ("checked", "which it cannot notice", "hold the value before noise, not the count,", None),
        ("minimum", "", "hold the count with", False),
    ],
)
def test_what_intervals_do_not_hold_is_said_from_public_numbers(
    method: str, warning: str, held: str, bias: bool | None, tmp_path: Path
) -> None:
    options = [*write(tmp_path), "--ledger", tmp_path / "budget.db", "--method", method]
    told = veilstream(*options)
    assert told.code == 0, told.err
    assert warning in told.out
    assert held in told.out
    assert ("wrong" in told.out) == (method in ("stretching", "utility"))
    stated = veilstream(*options, "--json").json["worst_bias"]
    assert stated is None if bias is None else (stated > 0) == bias
    ends = set(veilstream(*options, "--json").json["counts"][0])
    assert ({"low", "high"} <= ends) == (method == "minimum")
    assert ({"noise_low", "noise_high"} <= ends) == (method != "minimum")


def refused(folder: Path, rows: list[str] | None, *options: object) -> Outcome:
    outcome = veilstream(*write(folder, rows), "--ledger", folder / "budget.db", *options)
    assert outcome.code == 2
    assert SECRET not in outcome.out + outcome.err
    assert not (folder / "budget.db").exists()
    return outcome


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([f"{SECRET},,harbour"], "a budget is missing"),
        (["a,1,market", f"{SECRET},-1,harbour"], "the budget of row 2"),
        ([f"{SECRET},0,harbour"], "above 0"),
        ([f"{SECRET},lots,harbour"], "the budget of row 1"),
        ([f"{SECRET},1,harbour", f"{SECRET},1,market"], "there twice"),
        (["a,1,harbour", ",1,market"], "a row has no person"),
        ([f"a,1,{SECRET}"], "outside the public domain"),
        ([], "no rows"),
    ],
)
def test_bad_rows_are_refused_without_quoting_them(rows: list[str], words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, rows).err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "luck"], "method 'luck'"),
        (["--method", "threshold"], "needs --threshold"),
        (["--threshold", "1"], "has none"),
        (["--by", "age"], "not in the domain"),
        (["--epsilon-column", "eps"], "column 'eps' is missing"),
        (["--out", "x.doc"], "must end in one of"),
        (["--unknown", "maybe"], "'error' or 'drop'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_recorded(options: list[str], words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, None, *options).err


def test_a_group_below_its_minimum_size_is_refused(tmp_path: Path) -> None:
    options = [*write(tmp_path), "--ledger", tmp_path / "budget.db", "--method", "waste"]
    outcome = veilstream(*options, "--groups", "3", "--minimum", "201")
    assert outcome.code == 2
    assert "3 groups of at least 201 people" in outcome.err
