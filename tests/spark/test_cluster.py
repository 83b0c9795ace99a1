"""Clusters of their own: encrypted on the wire and on disk with a killed executor, and with copies of slow tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import veilstream
from veilstream.errors import MissingExtraError
from veilstream.spark import require_java


@pytest.mark.xdist_group("spark")
def test_a_killed_executor_changes_nothing(tmp_path: Path) -> None:
    assert told_by("killed_executor", tmp_path) == {"equal": True, "killed": True}


@pytest.mark.audit
@pytest.mark.xdist_group("spark")
def test_copies_of_slow_tasks_change_nothing(tmp_path: Path) -> None:
    """Speculative execution: the copy and the original both run to the end, and one of them counts."""
    told = told_by("speculation", tmp_path)
    assert told["equal"]
    assert told["copied"]
    assert told["copies"] >= 1


def told_by(module: str, folder: Path) -> dict[str, Any]:
    """What a cluster in a process of its own found."""
    try:
        require_java()
    except MissingExtraError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must run the tests of Spark: {error}")
        pytest.skip(str(error))
    # The session of the other tests has put its own settings and folders into this process.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    folders = [Path(__file__).parents[2], Path(veilstream.__file__).parents[1]]
    environment = {**inherited, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-m", f"tests.spark.{module}", str(folder)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
