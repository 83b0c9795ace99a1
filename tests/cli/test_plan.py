"""``veilstream plan``: a schedule in words, as a table, as a picture; nothing read, nothing spent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from tests.cli.support import veilstream


def test_a_week_is_planned_and_repeats() -> None:
    outcome = veilstream("plan", "--weights", "1 1 1 1 1 8 8", "--epsilon", "1", "--window", "7", "--json")
    found = outcome.json
    budgets = [Fraction(text) for text in found["budgets"]]
    assert outcome.code == 0
    assert found["repeats"]
    assert [round(float(b) * 9, 4) for b in budgets] == [1, 1, 1, 1, 1, 2, 2]
    assert sum(budgets, Fraction(0)) == Fraction(found["fullest_window"]) <= 1
    assert found["cost"] == pytest.approx(found["cost_at_least"], rel=1e-6)
    assert found["cost"] < found["cost_of_equal_shares"]


def test_table_picture_and_words(tmp_path: Path) -> None:
    table, picture = tmp_path / "plan.csv", tmp_path / "plan.png"
    given = ("--epsilon", "1/2", "--window", "5", "--steps", "40", "--out", table, "--plot", picture)
    outcome = veilstream("plan", "--weights", "1 0 4", *given)
    assert outcome.code == 0
    assert "within any 5 successive steps" in outcome.out
    assert "... and 10 steps more" in outcome.out
    assert picture.stat().st_size > 10_000
    rows = pl.read_csv(table)
    assert rows.height == 40
    exact = [Fraction(text) for text in rows["epsilon_exact"].cast(pl.String)]
    assert max(sum(exact[k : k + 5], Fraction(0)) for k in range(36)) <= Fraction(1, 2)
    assert all(budget == 0 for budget in exact[1::3])


def test_weights_from_a_file_user_level_and_online(tmp_path: Path) -> None:
    weights = tmp_path / "weights.txt"
    weights.write_text("1\n8, 8\n1/2\n")
    for more in ((), ("--online",), ("--error", "absolute")):
        outcome = veilstream(
            "plan", "--weights", weights, "--epsilon", "2", "--window", "user", "--steps", "4", "--json", *more
        )
        assert outcome.code == 0
        assert outcome.json["weights"] == ["1", "8", "8", "1/2"]
        assert 0 < sum(Fraction(text) for text in outcome.json["budgets"]) <= 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--weights": "no-such-file.txt"}, "neither numbers nor a readable text file"),
        ({"--weights": " "}, "0 numbers"),
        ({"--weights": "1 -2"}, "weights[1] -2"),
        ({"--weights": "0 0"}, "none above 0"),
        ({"--window": "soon"}, "window 'soon'"),
        ({"--window": "user"}, "steps: missing"),
        ({"--steps": "0"}, "steps 0"),
        ({"--epsilon": "-1"}, "epsilon '-1'"),
        ({"--error": "size"}, "error 'size'"),
        ({"--plot": "plan.gif"}, "must end in one of"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes: dict[str, str], words: str) -> None:
    given = {"--weights": "1 2", "--epsilon": "1", "--window": "3", **changes}
    outcome = veilstream("plan", *(part for pair in given.items() for part in pair))
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
