"""The files for running the service pass the linters of their kinds, and their example is a valid configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from veilstream.server.config import read_config

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
LINTERS = {
    "hadolint": ["Dockerfile"],
    "check-jsonschema": ["--builtin-schema", "vendor.compose-spec", "compose.yaml"],
    "systemd-analyze": ["verify", "./veilstream.service"],
}


@pytest.mark.parametrize("program", LINTERS)
def test_linters_find_nothing(program: str) -> None:
    found = shutil.which(program, path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"no {program} here")
    done = subprocess.run([found, *LINTERS[program]], cwd=DEPLOY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_can_be_read() -> None:
    config = read_config(DEPLOY / "serve.toml")
    assert [stream.name for stream in config.streams] == ["visits"]
