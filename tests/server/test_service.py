"""A service goes on: without its database for a while, after the server before it ended, when one stream cannot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.conftest import NewLedger
from tests.server.conftest import HOUR, Running, StartServer, definition, start, until
from tests.server.test_ingest import CSV, body, frame, send
from veilstream.errors import BudgetExceededError, LedgerError
from veilstream.live import open_stream
from veilstream.server import service as service_module
from veilstream.server.service import ServerOptions, Service
from veilstream.server.workers import Worker
from veilstream.storage.leading import leadership


class Relay:
    """Stands between a service and PostgreSQL: it can cut all connections, or stop passing on what they say."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.passing = threading.Event()
        self.passing.set()
        self.open = True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self.open:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._path)
            self._lines += [near, far]
            for source, target in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass, args=(source, target), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(1 << 16):
                self.passing.wait()
                target.sendall(piece)
        except OSError:
            pass
        # Each direction closes the socket that it reads, when no byte can come any more.
        self._end(target)
        source.close()

    @staticmethod
    def _end(*lines: socket.socket) -> None:
        for line in lines:
            try:
                line.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def cut(self) -> None:
        self.open = False
        self._end(*self._lines)
        self._lines = []

    def close(self) -> None:
        self.passing.set()
        self.cut()
        for thread in self._threads:
            thread.join()
        self._listener.close()


@pytest.fixture
def relay(new_postgres: NewLedger) -> Iterator[tuple[Relay, str]]:
    """A relay, and the URL of a ledger behind it."""
    url = sa.make_url(new_postgres())
    folder = url.query.get("host") or url.host
    made = Relay(f"{folder}/.s.PGSQL.{url.port or 5432}")
    rest = {name: value for name, value in url.query.items() if name != "host"}
    near = url.set(host="127.0.0.1", port=made.port, query=rest)
    yield made, near.render_as_string(hide_password=False)
    made.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a database ends soon."""
    for name, value in (("WAIT_SECONDS", 0.5), ("ASK_SECONDS", 0.05), ("RETRY_SECONDS", 0.05)):
        monkeypatch.setattr(service_module, name, value)
    monkeypatch.setattr("veilstream.server.workers.LONGEST_PAUSE", 0.2)


@pytest.mark.xdist_group("postgres")
@pytest.mark.usefixtures("hasty")
def test_publishing_goes_on_after_postgresql_was_away(relay: tuple[Relay, str], tmp_path: Path) -> None:
    between, url = relay
    server = start(tmp_path, definition(public=True), ledger=url)
    try:
        with server.client("ingest", "read") as client:
            assert send(client, body(frame(1, 2), CSV)).status_code == 202
            server.until_visible("visits", 0)
            between.cut()
            until(lambda: client.get("/health/ready").status_code == 503)
            server.clock.tick += 2 * HOUR
            refused = send(client, body(frame(3), CSV))
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "LedgerError")
            # What is in memory is still read.
            assert client.get("/v1/streams/visits/releases").json()["step"] == [0]
            between.open = True
            until(lambda: client.get("/health/ready").status_code == 200)
            server.until_visible("visits", 2)
            assert client.get("/v1/streams/visits/releases").json()["step"] == [0, 1, 2]
    finally:
        server.stop()


@pytest.mark.xdist_group("postgres")
@pytest.mark.usefixtures("hasty")
def test_a_postgresql_that_hangs_holds_up_nobody_else(relay: tuple[Relay, str], tmp_path: Path) -> None:
    between, url = relay
    server = start(tmp_path, definition(public=True), ledger=url)
    try:
        with server.client("operate", "ingest") as client, server.client() as anybody:
            server.until_visible("visits", 0)
            between.passing.clear()
            assert [client.get("/health/live").status_code for _ in range(20)] == [200] * 20
            assert anybody.get("/v1/streams/visits/releases").json()["step"] == [0]
            # A request that needs the database is told that it is away.
            assert send(client, body(frame(1), CSV)).status_code == 503
            until(lambda: client.get("/health/ready").status_code == 503)
            between.passing.set()
            until(lambda: client.get("/health/ready").status_code == 200)
            server.until_visible("visits", 1)
    finally:
        between.passing.set()
        server.stop()


def test_what_is_unforeseen_in_one_stream_stops_no_other(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "RETRY_SECONDS", 0.05)
    server = start_server(definition(), definition("other"))
    closer = server.service._closers["visits"]
    with monkeypatch.context() as patch:
        patch.setattr(closer, "snapshot", lambda *_: 1 / 0)
        server.until_visible("other", 1)
        with server.client() as client:
            until(lambda: server.service.problems.get("visits", ("", 0))[0] == "ZeroDivisionError")
            # The others are closed: the server does its work.
            assert client.get("/health/ready").status_code == 200
    server.until_visible("visits", 1)
    assert not server.service.problems


def test_a_server_is_not_ready_when_no_stream_can_go_on(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(definition(), definition("other"))

    def refuse(*_: Any) -> Any:
        raise BudgetExceededError(name="pool", limit="spent")

    for name, ready in (("visits", 200), ("other", 503)):
        monkeypatch.setattr(server.service._closers[name], "snapshot", refuse)
        server.clock.tick += HOUR + 60_000_000
        until(lambda name=name: name in server.service.problems)  # type: ignore[misc]
        with server.client() as client:
            assert client.get("/health/ready").status_code == ready


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_begins_again_after_an_error_and_its_end_is_seen() -> None:
    calls: list[int] = []

    def work(worker: Worker) -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise KeyError("private")
        if len(calls) == 2:
            worker.well()
            worker.stopping.wait(0.2)
            raise SystemExit

    worker = Worker("w", work)
    worker.start()
    until(lambda: worker.error == "KeyError")
    assert worker.alive
    until(lambda: worker.error is None and len(calls) == 2)
    until(lambda: not worker.alive)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_process_ends_when_a_worker_died(start_server: StartServer) -> None:
    server = start_server(definition())
    ended = threading.Event()
    server.service.end = ended.set
    dead = Worker("dead", lambda _: sys.exit())
    dead.start()
    until(lambda: not dead.alive)
    server.service.sources.append(dead)  # type: ignore[arg-type]
    with server.client() as client:
        answer = client.get("/health/live")
        assert (answer.status_code, answer.json()) == (503, {"status": "worker died"})
    assert ended.wait(10)
    assert server.service.ended_by == "dead"
    server.service.sources.clear()


def test_a_second_server_stands_by_and_takes_over(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "ASK_SECONDS", 0.05)
    first = start_server(definition(public=True))
    second = start_server(definition(public=True), clock=first.clock)
    with first.client("ingest") as client, second.client("ingest", "operate") as other:
        send(client, body(frame(1, 2), CSV))
        first.until_visible("visits", 1)
        assert other.get("/health/live").status_code == 200
        assert other.get("/health/ready").json() == {"status": "standby"}
        for answer in (other.get("/v1/streams"), other.get("/"), send(other, body(frame(3), CSV))):
            assert (answer.status_code, answer.json()["error"]["type"]) == (503, "NotLeadingError")
            assert answer.headers["retry-after"] == "1"
        assert "veilstream_leading 0" in other.get("/metrics").text
        first.stop()
        until(lambda: other.get("/health/ready").status_code == 200)
        second.until_visible("visits", 3)
        page = other.get("/v1/streams/visits/releases").json()
        assert page["step"] == [0, 1, 2, 3]
        assert round(sum(page["values"][0])) == 2


def test_a_board_shows_what_another_process_published(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(definition(public=True))
    server.until_visible("visits", 0)
    with open_stream(tmp_path / "b.db", "visits", clock=server.clock) as other:
        server.service._closers.clear()
        server.clock.tick += 3 * HOUR
        assert [release.t for release in other.close_due()] == [1, 2, 3]
    server.service._lead()
    board = server.service.boards["visits"]
    board._kept.clear()
    with open_stream(tmp_path / "b.db", "visits", clock=server.clock) as other:
        closers, server.service._closers = server.service._closers, {}
        server.clock.tick += 2 * HOUR
        other.close_due()
        server.service._closers = closers
    server.until_visible("visits", 6)
    with server.client() as client:
        assert client.get("/v1/streams/visits/releases").json()["step"] == list(range(7))


def test_a_definition_that_changed_is_refused_also_by_a_server_that_stands_by(
    start_server: StartServer, tmp_path: Path
) -> None:
    start_server(definition())
    with pytest.raises(Exception, match="epsilon"):
        Service(ServerOptions(tmp_path / "b.db", streams=(definition(epsilon="7"),)))


def test_who_leads_is_told_by_a_lock_of_the_ledger(new_ledger: NewLedger) -> None:
    url = new_ledger()
    first, second = leadership(url, 5), leadership(url, 5)
    assert first.take()
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    assert not first.take()
    second.release()
    first.release()


@pytest.mark.xdist_group("postgres")
def test_a_session_that_was_ended_leads_no_more(new_postgres: NewLedger) -> None:
    url = new_postgres()
    lock, other = leadership(url, 5), leadership(url, 5)
    assert lock.take()
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
    until(other.take)
    with pytest.raises(LedgerError):
        lock.take()
    assert not lock.take()
    lock.release()
    other.release()


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("observes", [True, False])
def test_a_server_on_another_machine_knows_what_was_published(
    new_postgres: NewLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observes: bool
) -> None:
    """Marks lie with each machine: without its own a server does not go on with what another published."""
    monkeypatch.setattr(service_module, "ASK_SECONDS", 0.02)
    monkeypatch.setattr(service_module, "OBSERVE_SECONDS", 0.02 if observes else 1e9)
    url, servers = new_postgres(), list[Running]()
    try:
        for machine in ("one", "two"):
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
            clock = servers[0].clock if servers else None
            servers.append(start(tmp_path, definition(), ledger=url, clock=clock))
            if machine == "one":
                servers[0].until_visible("visits", 0)
        first, second = servers
        marks = tmp_path / "two" / "veilstream" / "marks"
        until(lambda: bool(list(marks.rglob("*.mark"))) or not observes)
        first.until_visible("visits", 2)
        first.stop()
        until(lambda: second.service.leading)
        if not observes:
            # As if it had never stood by.
            for mark in marks.rglob("*.mark"):
                mark.unlink()
        second.clock.tick += HOUR
        until(lambda: second.service.boards["visits"].published == 3 or "visits" in second.service.problems)
        assert ("visits" in second.service.problems) != observes
    finally:
        for one in servers:
            one.stop()


CONFIG = """
ledger = "budget.db"
[streams.visits]
user = "id"
start = "2026-01-01"
every = "1s"
epsilon = "1"
window = 10
delay = "1s"
public = true
domain = { place = ["a", "b"] }
"""


def test_the_second_process_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    (tmp_path / "serve.toml").write_text(CONFIG)
    urls: list[str] = []
    running: list[subprocess.Popen[bytes]] = []

    def health(url: str) -> str:
        try:
            return str(httpx.get(f"{url}/health/ready", timeout=5).json()["status"])
        except httpx.HTTPError:
            return "none"

    try:
        for wanted in ("ok", "standby"):
            with socket.create_server(("127.0.0.1", 0)) as line:
                port = line.getsockname()[1]
            command = [sys.executable, "-m", "veilstream", "serve", "--config", "serve.toml", "--port", str(port)]
            running.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, env={**os.environ}))
            urls.append(f"http://127.0.0.1:{port}")
            until(lambda wanted=wanted: health(urls[-1]) == wanted, 60)  # type: ignore[misc]
        page = f"{urls[0]}/v1/streams/visits/releases"
        until(lambda: bool(httpx.get(page).json()["step"]))
        running[0].send_signal(signal.SIGKILL)
        running[0].wait()
        until(lambda: health(urls[1]) == "ok")
        before = httpx.get(page.replace(urls[0], urls[1])).json()["head"]
        until(lambda: httpx.get(page.replace(urls[0], urls[1])).json()["head"] > before)
        steps = httpx.get(page.replace(urls[0], urls[1])).json()["step"]
        assert steps == list(range(steps[0], steps[-1] + 1))
    finally:
        for one in running:
            one.send_signal(signal.SIGTERM)
            one.wait()
