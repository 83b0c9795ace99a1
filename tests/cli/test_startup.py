"""The command answers at once: what is slow to load waits until it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from veilstream.cli.app import COMMANDS

from .support import veilstream

HEAVY = ("numpy", "scipy", "polars", "pyarrow", "pydantic", "sqlalchemy", "matplotlib", "cryptography")


@pytest.mark.parametrize(("words", "loaded"), [(["--help"], []), (["publish", "--help"], ["pydantic"])])
def test_help_loads_none_of_the_heavy_packages(words: list[str], loaded: list[str]) -> None:
    program = f"""
import sys
from typer.testing import CliRunner
from veilstream.cli import app
shown = CliRunner().invoke(app, {words!r})
assert "publish" in shown.stdout, shown.output
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    seen = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert seen.stdout.strip() == str(loaded)


def test_help_lists_every_command_with_its_whole_summary() -> None:
    told = veilstream("--help").out
    lines = {
        line.split()[0]: line
        for line in told.partition("Commands:")[2].partition("Exit")[0].splitlines()
        if line.strip()
    }
    assert list(lines) == list(COMMANDS)
    assert all(lines[name].endswith(entry.summary) for name, entry in COMMANDS.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    shown = veilstream(name, "--help")
    assert shown.code == 0
    assert "Usage" in shown.out
