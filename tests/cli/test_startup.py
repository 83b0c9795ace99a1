"""The command answers at once: what is slow to load waits until it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["scipy", "matplotlib"])
def test_help_does_not_load(package: str) -> None:
    program = f"import sys, veilstream.cli.app; sys.exit({package!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
