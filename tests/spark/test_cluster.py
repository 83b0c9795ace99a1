"""A cluster of its own, encrypted on the wire and on disk, with a killed executor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import veilstream
from veilstream.errors import MissingExtraError
from veilstream.spark import require_java


@pytest.mark.xdist_group("spark")
def test_a_killed_executor_changes_nothing(tmp_path: Path) -> None:
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
    command = [sys.executable, "-m", "tests.spark.killed_executor", str(tmp_path)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"equal": True, "killed": True}
