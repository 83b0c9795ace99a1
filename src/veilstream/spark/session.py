"""A Spark session on this machine, with what it needs found first and what it writes encrypted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from veilstream.errors import EngineError, InvalidInputError, MissingExtraError
from veilstream.extras import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA: Final = 17
SAFE_SETTINGS: Final[Mapping[str, str]] = {
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Shuffle and spill files are encrypted; row counts and sizes, which are exact, go to no page and no log."""


def local_session(cores: int = 2, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on this machine, or a clear message about what is missing for it.

    Executors run the Python of this process unless ``PYSPARK_PYTHON`` names another. ``settings`` go on top of
    ``SAFE_SETTINGS``. Spark has one session in a process: one that runs with other settings is refused, since its
    files may be in the clear.
    """
    if type(cores) is not int or cores < 1:
        raise InvalidInputError(name="cores", value=cores, limit="a whole number of at least 1 is needed")
    sql = load("pyspark.sql", "Spark support")
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master(f"local[{cores}]").appName("veilstream")
    wanted = {**SAFE_SETTINGS, **(settings or {})}
    for name, value in wanted.items():
        builder = builder.config(name, value)
    errors: Any = import_module("pyspark.errors")
    java: Any = import_module("py4j.protocol")
    try:
        session: SparkSession = builder.getOrCreate()
    except (errors.PySparkException, java.Py4JError):
        raise EngineError(
            "Spark: its session did not start", next_step="what Java printed says why; correct the settings"
        ) from None
    _require_settings(session, wanted)
    return session


def _require_settings(session: SparkSession, wanted: Mapping[str, str]) -> None:
    """Refuse a session that ran before and leaves unencrypted or shown what should not be."""
    found = session.sparkContext.getConf()
    for name in SAFE_SETTINGS:
        if found.get(name) != wanted[name]:
            raise InvalidInputError(
                name=name,
                value=found.get(name, "unset"),
                limit=f"a session of this process runs already, and {wanted[name]} is needed",
                outcome="nothing was read",
                next_step="stop it first, or use it instead of local_session if it is as safe as you need",
            )


def require_java() -> None:
    """Refuse to go on without a Java that Spark can use."""
    cure = (
        f"Spark needs Java {LEAST_JAVA} or newer on the PATH or in JAVA_HOME: apt-get install openjdk-17-jre-headless"
    )
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    found = None if java is None else java_version(java)
    if found is None:
        raise MissingExtraError(f"Java: not found. {cure}")
    if found < LEAST_JAVA:
        raise MissingExtraError(f"Java {found}: too old. {cure}")


def java_version(java: str) -> int | None:
    """The major version of a Java, None if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return None if match is None else int(match[1])
