"""``veilstream advise`` answers both ways round and ends in a command that publishes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError

from .support import veilstream


def test_what_an_error_costs_and_the_command_to_paste(tmp_path: Path) -> None:
    told = veilstream("advise", "--count", 500, "--bins", 6, "--error", 50, "--plot", tmp_path / "a.png")
    assert told.code == 0, told.err
    assert "at epsilon 1.5" in told.out
    assert "±48" in told.out
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    command = told.out.split("veilstream publish", 1)[1].split("\n\n")[0].replace("\\\n", " ")
    assert "--epsilon 3/2 --window 24" in " ".join(command.split())
    rows = "ID,TIME,place\n" + "".join(f"{i},2024-01-01T0{i % 3}:00,a\n" for i in range(30))
    (tmp_path / "FILE.csv").write_text(rows)
    (tmp_path / "DOMAIN.json").write_text('{"place": ["a"]}')
    words = command.replace("FILE", str(tmp_path / "FILE.csv")).replace("DOMAIN", str(tmp_path / "DOMAIN"))
    words = words.replace("START", "2024-01-01").replace("END", "2024-01-01T03:00")
    for name in ("budget.db", "releases.csv", "releases.png"):
        words = words.replace(name, str(tmp_path / name))
    published = veilstream("publish", *shlex.split(words))
    assert published.code == 0, published.err
    assert (tmp_path / "releases.csv").exists()


def test_what_an_epsilon_gives_as_json() -> None:
    told = veilstream("advise", "--population", 600, "--bins", 6, "--epsilon", "1/2", "--window", 8, "--json")
    assert told.code == 0, told.err
    answer = json.loads(told.out)
    assert answer["epsilon"] == "1/2"
    assert {"uniform", "sample", "dsat"} <= {row["mechanism"] for row in answer["mechanisms"]}
    assert "--window 8" in answer["command"]


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [
        (["--count", 5], "either it or the wanted error"),
        (["--epsilon", 1], "either it or the population"),
        (["--count", 5, "--epsilon", "0,5"], "write 0.5"),
        (["--count", 5, "--error", "fifty"], "e.g. 10%"),
        (["--count", 5, "--epsilon", 1, "--window", "user"], "say how many"),
        (["--count", 5, "--epsilon", 1, "--window", "a day"], "24h"),
    ],
)
def test_what_is_missing_is_asked_for(arguments: list[object], cure: str) -> None:
    told = veilstream("advise", *arguments)
    assert told.code == 2
    assert cure in " ".join(told.err.split())


def test_in_python_the_advice_is_a_table() -> None:
    advice = vs.advise(count=80, bins=4, every="1d", window="user", steps=20, error="25%")
    assert advice.table["mechanism"].to_list()[0] == advice.choices[0].mechanism
    assert advice.choices[0].mean_error == advice.table["mean_error"].min()
    assert "--window user" in advice.command
    assert "horizon=20" in advice.command
    assert "epsilon" in vs.advise(count=3, bins=4, epsilon=1, runs=1).verdict
    with pytest.raises(InvalidInputError):
        vs.advise(count=80, population=320, epsilon=1)


def test_measures_of_a_column_have_their_expected_widths() -> None:
    told = veilstream(
        "advise", "--count", "500", "--epsilon", "1", "--measure", "mean=0..100", "--measure", "median=0..60"
    )
    assert told.code == 0, told.err
    assert "mean 0..100, released in every step: about ±" in told.out
    assert "median 0..60, released in every step: about ±" in told.out
    refused = veilstream("advise", "--count", "500", "--epsilon", "1", "--measure", "mode=0..100")
    assert refused.code != 0
    assert "measure 'mode=0..100'" in refused.err
