"""Help that is whole, ends in an example that runs, and fits a terminal of 80 columns; completion of a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.commands import model
from veilstream.cli.examples import EXAMPLES, with_examples

from .support import veilstream

GROUPS = ("ledger", "population", "token")


def test_every_command_has_examples_of_options_that_exist() -> None:
    known = {name: {option.flag for option in options} for name, options in model().items()}
    assert EXAMPLES.keys() == known.keys()
    for name, lines in EXAMPLES.items():
        for line in lines:
            words = shlex.split(line)
            assert words[: len(name.split())] == name.split()
            assert {word for word in words if word.startswith("--")} <= known[name], line


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_help_ends_in_its_examples_within_80_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = veilstream(*name.split(), "--help").out
    assert "Example" in told
    assert max(map(len, told.splitlines())) <= 80
    pasted = told.partition("Example")[2].replace("\\\n", " ").splitlines()[1:]
    shown = [shlex.split(line) for line in pasted if line.strip()]
    assert shown == [["veilstream", *shlex.split(line)] for line in EXAMPLES[name]]


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_tells_whole_sentences(name: str) -> None:
    told = veilstream(name, "--help").out
    assert "..." not in told.partition("Commands")[2]


def test_help_of_a_command_that_has_words_of_its_own_keeps_them() -> None:
    class Command:
        epilog = "own words"

    assert with_examples(Command(), "publish").epilog == "own words"


def test_mechanisms_are_told_in_80_columns_the_default_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = veilstream("mechanisms").out.splitlines()
    assert lines[2] == "auto"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("typed", "expected"), [("pub", "publish"), ("publish --wi", "--window"), ("ledger ver", "verify")]
)
def test_a_shell_completes_commands_and_options_without_a_word_of_error(
    typed: str, expected: str, tmp_path: Path
) -> None:
    program = tmp_path / "veilstream"
    program.write_text("from veilstream.cli import main\nmain()\n")
    words = f"veilstream {typed}"
    asked = {"_VEILSTREAM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = subprocess.run(
        [sys.executable, str(program)], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [expected], "")
