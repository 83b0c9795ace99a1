"""A ledger that cannot write says so, keeps what it had, and shows no secret."""

from __future__ import annotations

import os
import resource
import socket
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from veilstream.errors import InvalidInputError, LedgerBusyError, LedgerError, LedgerFullError, MissingExtraError
from veilstream.storage.ledger import Ledger, servers

from .support import SPEC, fork, publish, state

NewLedger = Callable[[], str]


def modes(path: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.glob(f"{path.name}*")}


def test_files_are_private_from_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budget.db"
    seen: list[int] = []
    real = sqlite3.connect

    def connect(database: str, *args: object, **options: object) -> object:
        seen.append(stat.S_IMODE(path.stat().st_mode))
        return real(database, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(sqlite3.dbapi2, "connect", connect)
    before = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            ledger.register(SPEC)
            publish(ledger, 0)
            names = ("budget.db", "budget.db-wal", "budget.db-shm", "budget.db.visits.mark")
            assert modes(path) == dict.fromkeys(names, 0o600)
    finally:
        os.umask(before)
    assert seen
    assert set(seen) == {0o600}


def test_sqlite_is_set_to_survive_power_failure(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db") as ledger, ledger._backend.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}


def test_a_path_may_be_text_or_path_or_url(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    Ledger.open(str(path)).close()
    with Ledger.open(path) as ledger:
        ledger.register(SPEC)
    with Ledger.open(f"sqlite:///{path}") as ledger:
        assert ledger.streams() == [SPEC]


def test_a_held_ledger_is_busy_after_the_timeout(new_ledger: NewLedger) -> None:
    url = new_ledger()
    with Ledger.open(url, timeout=0.3) as first, Ledger.open(url, timeout=0.3) as second:
        first.register(SPEC)
        with first.transaction("visits"):
            assert list(second.releases()) == []
            with pytest.raises(LedgerBusyError, match=r"waited 0\.[3-9] s, limit 0\.3 s; nothing was released"):
                publish(second, 0)
        assert publish(second, 0).seq == 1


def test_sqlite_held_by_another_program_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path, timeout=0.2) as ledger:
        ledger.register(SPEC)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusyError, match="nothing was released"):
            publish(ledger, 0)
        other.execute("ROLLBACK")
        other.close()
        publish(ledger, 0)


def test_a_ledger_in_memory_is_busy_alike() -> None:
    with Ledger.open(None, timeout=0.2) as ledger:
        ledger.register(SPEC)
        raised: list[BaseException] = []

        def compete() -> None:
            try:
                publish(ledger, 0)
            except LedgerBusyError as error:
                raised.append(error)

        with ledger.transaction("visits"):
            thread = threading.Thread(target=compete)
            thread.start()
            thread.join()
            with pytest.raises(LedgerBusyError):
                publish(ledger, 0)
        assert len(raised) == 1
        publish(ledger, 0)


def test_a_full_database_keeps_what_it_had(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db") as ledger:
        ledger.register(SPEC)
        made = publish(ledger, 0)
        with ledger._backend.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(LedgerFullError, match=r"no room \(SQLITE_FULL\); nothing was released"):
            publish(ledger, 1, state(np.arange(10**5) ** 3))
        assert [r.t for r in ledger.releases()] == [0]
        assert len(list(ledger.charges("visits"))) == 1
        assert publish(ledger, 1).seq == made.seq + 1


def test_a_file_that_may_not_grow_keeps_what_it_had(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "budget.db") as ledger:
        ledger.register(SPEC)
        publish(ledger, 0)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
        try:
            with pytest.raises(LedgerError, match="nothing was released"):
                publish(ledger, 1, state(np.arange(10**5) ** 3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert publish(ledger, 1).t == 1


@pytest.mark.xdist_group("postgres")
def test_postgres_without_room_is_full(new_postgres: NewLedger) -> None:
    url = new_postgres()
    with Ledger.open(url) as ledger:
        ledger.register(SPEC)
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(
                sa.text(
                    "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION 'secret 42' USING ERRCODE = 'disk_full'; END $$"
                )
            )
            connection.execute(sa.text("CREATE TRIGGER full_disk BEFORE INSERT ON steps EXECUTE FUNCTION no_room()"))
        with pytest.raises(LedgerFullError, match=r"no room \(53100\); nothing was released") as caught:
            publish(ledger, 0)
        assert "42" not in str(caught.value).replace(ledger._backend.label, "")
        assert list(ledger.charges("visits")) == []


def _fail_a_step_cut_off(ledger: Ledger, other: Ledger) -> None:
    with ledger.transaction("visits") as step:
        pid = step._connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with other._backend.read() as connection:
            connection.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        step.commit_failure(0, [], "ValueError")


@pytest.mark.xdist_group("postgres")
def test_a_lost_connection_is_told_and_survived(new_postgres: NewLedger) -> None:
    url = new_postgres()
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        ledger.register(SPEC)
        with pytest.raises(LedgerError, match=r"connection was lost .* feed it again"):
            _fail_a_step_cut_off(ledger, other)
        assert publish(ledger, 0).seq == 1


def cut_off(ledger: Ledger, other: Ledger, ask: Callable[[sa.Connection], object]) -> None:
    with ledger._backend.write() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with other._backend.read() as killer:
            killer.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        ask(connection)


def pending(connection: sa.Connection) -> None:
    with pytest.raises(DBAPIError):
        connection.exec_driver_sql("SELECT 1")
    connection.exec_driver_sql("SELECT 1")


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("ask", [servers.present_server, pending])
def test_a_connection_that_is_lost_while_a_ledger_is_opened_is_told(
    new_postgres: NewLedger, ask: Callable[[sa.Connection], object]
) -> None:
    """Also where a statement is made after SQLAlchemy noticed the loss."""
    url = new_postgres()
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        with pytest.raises(LedgerError, match=r"connection was lost .* feed it again"):
            cut_off(ledger, other, ask)
        ledger.register(SPEC)
        assert publish(ledger, 0).seq == 1


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be one" * 99, b"SQLite format 3\0" + b"\1" * 5000]
)
def test_another_file_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="not a database, or a damaged one"):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with Ledger.open(path) as ledger:
        ledger.register(SPEC)
        publish(ledger, 0)
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x5a" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="damaged"), Ledger.open(path) as ledger:
        list(ledger.releases())


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="No such file or directory; nothing was opened"):
        Ledger.open(tmp_path / "missing" / "budget.db")
    with pytest.raises(LedgerError, match="not a file; nothing was opened"):
        Ledger.open(tmp_path)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}/budget"
        for url in (f"postgresql://me:hunter2@{place}", f"postgres://me@{place}?password=hunter2"):
            with pytest.raises(LedgerError, match=r"cannot be reached: .*nothing was released") as caught:
                Ledger.open(url, timeout=2)
            assert "127.0.0.1" in str(caught.value)
            assert "hunter2" not in str(caught.value)
            assert caught.value.__suppress_context__


def test_a_missing_driver_is_named_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'veilstream\[postgres\]'"):
        Ledger.open("postgresql://localhost/budget")


@pytest.mark.parametrize("url", ["mysql://localhost/x", "://", "postgresql+psycopg2://localhost/x", "http://[x"])
def test_unknown_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="nothing was opened"):
        Ledger.open(url)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(timeout: float) -> None:
    with pytest.raises(InvalidInputError, match="nothing was opened"):
        Ledger.open(None, timeout=timeout)


@pytest.mark.parametrize("place", [None, "budget.db"])
def test_a_ledger_does_not_cross_a_fork(tmp_path: Path, place: str | None) -> None:
    with Ledger.open(None if place is None else tmp_path / place) as ledger:
        ledger.register(SPEC)
        child = fork()
        if child == 0:
            try:
                publish(ledger, 0)
            except LedgerError as error:
                os._exit(0 if "open it anew in each process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(ledger.releases()) == []
