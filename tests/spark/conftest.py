"""One Spark session for all tests, which writes down all that Spark may write down, so that it can be searched."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from veilstream.errors import MissingExtraError
from veilstream.spark import local_session, require_java

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A session of a minute does not earn back the work of the second compiler."""
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A session, and the folder in which it keeps logs, event logs, shuffle and temporary files."""

    session: Any
    folder: Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One group, so that parallel test processes start one session between them.
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            # PySpark leaves the sockets through which it read an answer to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _sockets_of_this_test_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "spark" in request.fixturenames:
        gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two cores, encrypted files, and tasks that are tried four times."""
    try:
        require_java()
    except MissingExtraError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI must run the tests of Spark: {error}")
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("spark")
    for name in ("events", "local"):
        (folder / name).mkdir()
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING.format(path=folder / "spark.log"), encoding="utf-8")
    session = local_session(
        settings={
            "spark.master": "local[2,4]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Dlog4j2.configurationFile={logging}",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(folder / "local"),
            # Compressed files would hide what they hold from the search for planted ids.
            "spark.shuffle.compress": "false",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.sql.session.timeZone": "America/New_York",
        }
    )
    yield Cluster(session, folder)
    session.stop()
