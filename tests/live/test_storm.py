"""Kills at any moment lose nothing and count nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("kills", [12, pytest.param(1000, marks=pytest.mark.audit)])
def test_no_kill_loses_or_repeats_a_batch_or_a_step(tmp_path: Path, kills: int) -> None:
    command = [sys.executable, "-m", "tests.live.storm", str(tmp_path), str(kills), "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills" in done.stdout
    assert "0 violations" in done.stdout
    assert ", 0 steps" not in done.stdout
