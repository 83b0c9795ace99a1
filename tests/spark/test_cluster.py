"""Clusters of their own: encrypted on the wire and on disk with a killed executor, with copies of slow tasks, with one
person who has nearly all rows, behind Spark Connect, and as the page says that a job is submitted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyspark
import pytest

import veilstream
from tests.spark.test_docs import PAGE, examples
from veilstream.errors import MissingExtraError
from veilstream.spark import require_java

IN_CLUSTER = "spark = SparkSession.builder.getOrCreate()"


@pytest.mark.xdist_group("spark")
def test_a_killed_executor_changes_nothing_and_encrypted_files_and_logs_hold_no_id(tmp_path: Path) -> None:
    told = told_by("killed_executor", tmp_path)
    assert told["equal"]
    assert told["killed"]
    assert told["logs"] >= 2
    assert told["shuffled"] >= 1
    assert told["holders"] == {}


@pytest.mark.audit
@pytest.mark.xdist_group("spark")
def test_the_search_finds_what_is_not_encrypted(tmp_path: Path) -> None:
    told = told_by("killed_executor", tmp_path, "false")
    assert told["equal"]
    assert list(told["holders"]) == ["an id"]
    assert all("shuffle" in name for name in told["holders"]["an id"])


@pytest.mark.audit
@pytest.mark.xdist_group("spark")
def test_one_person_with_a_hundred_million_rows_fits_into_an_executor() -> None:
    told = told_by("heavy", 10**8)
    assert told["equal"]
    assert told["rows"] == 10**8
    assert 0 < told["peak"] < 1 << 30


@pytest.mark.audit
@pytest.mark.xdist_group("spark")
def test_the_example_is_submitted_to_a_cluster_as_the_page_says(tmp_path: Path) -> None:
    program = examples()[0].replace("100_000_000", "42_000").replace('"1h"', '"12h"')
    program, lines = re.subn(r"spark = local_session\(.*\)", IN_CLUSTER, program)
    program = f"from pyspark.sql import SparkSession\n{program}"
    assert lines == 1
    assert IN_CLUSTER in PAGE.read_text(encoding="utf-8")
    (tmp_path / "visits.py").write_text(program, encoding="utf-8")
    options = re.findall(r"--conf (spark\.\S+)", PAGE.read_text(encoding="utf-8"))
    options = [option for option in options if not option.startswith(("spark.pyspark.python", "spark.sql.shuffle"))]
    assert len(options) >= 5
    small = ("executor.memory=512m", "driver.memory=512m", "sql.shuffle.partitions=4", "authenticate.secret=of a test")
    options += [f"spark.{setting}" for setting in small]
    # Workers of such a cluster keep their logs at home.
    home = tmp_path / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    command = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    command += [word for option in options for word in ("--conf", option)]
    for expected in ("published 14 steps now, 14 in all", "published 0 steps now, 14 in all"):
        environment = {**clean_environment(), "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home)}
        done = subprocess.run(
            [*command, "visits.py"], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.splitlines()[-1] == expected
    assert list((home / "work").glob("app-*"))


@pytest.mark.xdist_group("spark")
def test_a_client_of_spark_connect_finds_the_same(tmp_path: Path) -> None:
    if find_spec("grpc") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must run the test of Spark Connect: pip install 'pyspark[connect]'")
        pytest.skip("Spark Connect needs: pip install 'pyspark[connect]'")
    told = told_by("connect", tmp_path)
    assert told["remote"]
    assert told["equal"]
    assert told["published"]
    assert told["errors"] == ["EngineError", "UnknownValueError"]
    assert not told["quoted"]


@pytest.mark.audit
@pytest.mark.xdist_group("spark")
def test_copies_of_slow_tasks_change_nothing(tmp_path: Path) -> None:
    """Speculative execution: the copy and the original both run to the end, and one of them counts."""
    told = told_by("speculation", tmp_path)
    assert told["equal"]
    assert told["copied"]
    assert told["copies"] >= 1


def clean_environment() -> dict[str, str]:
    """Without what the session of the other tests has put into this process: its own settings and folders."""
    try:
        require_java()
    except MissingExtraError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must run the tests of Spark: {error}")
        pytest.skip(str(error))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    folders = [Path(__file__).parents[2], Path(veilstream.__file__).parents[1]]
    return {**inherited, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def told_by(module: str, *arguments: Path | int | str) -> dict[str, Any]:
    """What a cluster in a process of its own found."""
    command = [sys.executable, "-m", f"tests.spark.{module}", *map(str, arguments)]
    done = subprocess.run(command, env=clean_environment(), check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
