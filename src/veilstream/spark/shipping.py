"""Executors get the code that they run from the driver: a small archive of the modules that they import."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from veilstream.spark.environment import environment, modules, source, source_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHIPPED: Final[WeakSet[SparkSession]] = WeakSet()
"""Sessions that have the archive: Spark would warn of a second one."""


def ship(session: SparkSession) -> None:
    """Give the session's executors veilstream's code; a second time does nothing.

    Python functions of the same session that import ``veilstream`` find this part of it.
    """
    if session not in _SHIPPED:
        session.addArtifacts(str(archive()), pyfile=True)
        # Spark puts it first on the path of the driver too, whose other processes would find this part alone.
        sys.path[:] = [place for place in sys.path if not place.endswith(archive().name)]
        _SHIPPED.add(session)


@cache
def archive() -> Path:
    """The archive, named after its content; it is deleted when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="veilstream-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"veilstream_executor_{environment()['veilstream']}.zip"
    packages = {str(parent) for module in modules() for parent in Path("veilstream", source_path(module)).parents}
    with zipfile.ZipFile(path, "w") as packed:
        # One date for all, so that equal content gives equal bytes.
        for package in sorted(packages - {"."}):
            packed.writestr(zipfile.ZipInfo(f"{package}/__init__.py"), b"")
        for module in modules():
            packed.writestr(zipfile.ZipInfo(f"veilstream/{source_path(module)}"), source(module))
    return path
