"""The examples of the page on privacy run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veilstream.audit.deep import SECTION
from veilstream.cli import app
from veilstream.evaluate.pages import sections

PAGE = Path(__file__).resolve().parents[2] / "docs" / "privacy.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^veilstream (.*)$", TEXT, flags=re.MULTILINE)


def test_the_page_has_examples_and_commands() -> None:
    assert EXAMPLES
    assert COMMANDS


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_run(example: str) -> None:
    exec(compile(example, str(PAGE), "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str) -> None:
    words = command.replace("100000", "1000").split()
    result = CliRunner().invoke(app, [*words, *(["--workers", "1"] if "--trials" in words else [])])
    assert result.exit_code == 0


def test_the_page_has_a_section_for_the_table() -> None:
    assert SECTION in sections(TEXT)
