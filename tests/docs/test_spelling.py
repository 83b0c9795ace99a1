"""Documents, docstrings and comments are spelt right, as far as codespell and our word list know."""

from __future__ import annotations

import subprocess
import sys

from tests.docs.running import ROOT


def test_nothing_is_misspelt() -> None:
    checked = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "src", "examples", "website"]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *checked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_checker_finds_a_mistake() -> None:
    command = [sys.executable, "-m", "codespell_lib", "-"]
    done = subprocess.run(command, input="recieve\n", cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
