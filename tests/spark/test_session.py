"""What Spark needs is looked for first, and its absence is said with the cure."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.spark.conftest import Cluster
from veilstream.errors import InvalidInputError, MissingExtraError
from veilstream.spark import SAFE_SETTINGS, local_session, require_java
from veilstream.spark.environment import modules, source_path
from veilstream.spark.shipping import archive, ship

IMPORT = """
import sys
sys.path.insert(0, sys.argv[1])
import veilstream.spark.worker, veilstream.spark.record_worker
from veilstream.spark.environment import environment
print(environment()["veilstream"], *sorted({name.partition(".")[0] for name in sys.modules}))
"""

NO_START = """
from veilstream.errors import EngineError
from veilstream.spark import local_session
try:
    local_session(settings={"spark.driver.memory": "much"})
except EngineError as error:
    print(error)
"""


def fake_java(folder: Path, version: str) -> None:
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "told"), [(None, "not found"), ("11.0.2", "Java 11: too old"), ("1.8.0_402", "Java 8")]
)
def test_a_missing_or_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None, told: str
) -> None:
    if version is not None:
        fake_java(tmp_path, version)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin" if version else str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for call in (require_java, local_session):
        with pytest.raises(MissingExtraError, match=told) as caught:
            call()
        assert "apt-get install" in str(caught.value)


def test_a_new_java_is_taken_from_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    fake_java(tmp_path / "bin", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    require_java()


def test_a_missing_pyspark_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"veilstream\[spark\]"):
        local_session()


def test_a_session_that_runs_with_other_settings_is_refused(spark: Cluster) -> None:
    """Spark would return it as it is, with its pages and its logs."""
    with pytest.raises(InvalidInputError) as caught:
        local_session()
    assert (caught.value.name, caught.value.value) == ("spark.eventLog.enabled", "true")
    shown = {"spark.eventLog.enabled": "true", "spark.ui.enabled": "true"}
    assert local_session(settings=shown).sparkContext is spark.session.sparkContext


def test_settings_with_which_spark_does_not_start() -> None:
    for cores in (0, True, "2"):
        with pytest.raises(InvalidInputError) as caught:
            local_session(cores=cores)  # type: ignore[arg-type]
        assert caught.value.name == "cores"
    command = [sys.executable, "-c", NO_START]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "its session did not start" in done.stdout


def test_files_are_encrypted_by_default() -> None:
    assert SAFE_SETTINGS["spark.io.encryption.enabled"] == "true"
    assert SAFE_SETTINGS["spark.eventLog.enabled"] == "false"


def test_executors_import_the_archive_without_the_rest(tmp_path: Path) -> None:
    path = archive()
    with zipfile.ZipFile(path) as packed:
        assert {f"veilstream/{source_path(module)}" for module in modules()} <= set(packed.namelist())
    command = [sys.executable, "-c", IMPORT, str(path)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    digest, *loaded = done.stdout.split()
    assert digest in path.name
    assert not {"scipy", "sqlalchemy", "cryptography", "matplotlib", "pyspark"} & set(loaded)


def test_other_processes_of_the_driver_find_all_of_the_package(spark: Cluster) -> None:
    ship(spark.session)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(find_spec, "veilstream.evaluate").result() is not None
