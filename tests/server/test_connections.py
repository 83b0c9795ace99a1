"""Silent clients give way, the description is true of HEAD and of tokens, and bodies that do harm are refused."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.server.conftest import START, Running, StartServer, definition
from tests.server.test_ingest import ARROW, CSV, NDJSON, PARQUET, body, frame, send
from veilstream.errors import LedgerError, LedgerMismatchError
from veilstream.live.clock import SettableClock
from veilstream.server import connections
from veilstream.server.connections import Connections, most_connections
from veilstream.server.intake import Limits
from veilstream.server.run import Listen, uvicorn_server
from veilstream.server.service import ServerOptions, Service

ABORTS = Path(__file__).parent / "data" / "abort.parquet"


class Silent:
    """A connection that says nothing."""

    def __init__(self, among: Connections, address: str) -> None:
        self._among, self._address, self.closed = among, address, False
        self.entered = among.enter(address)
        if self.entered:
            among.silent[self] = address

    def give_way(self) -> None:
        del self._among.silent[self]
        self._among.leave(self._address)
        self.closed = True


def test_the_longest_silent_connection_gives_way() -> None:
    among = Connections(4)
    silent = [Silent(among, f"192.0.2.{number}") for number in range(6)]
    assert [one.entered for one in silent] == [True] * 6
    assert [one.closed for one in silent] == [True, True, False, False, False, False]
    assert among.count == 4


def test_an_address_has_its_share_and_busy_connections_stay() -> None:
    among = Connections(40, ("198.51.100.7",))
    assert [among.enter("192.0.2.1") for _ in range(11)] == [True] * 10 + [False]
    assert all(among.enter(address) for address in ("127.0.0.1", "198.51.100.7") for _ in range(12))
    assert among.enter("192.0.2.2")
    among.leave("192.0.2.1")
    assert among.enter("192.0.2.1")


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server as the command runs it, with room for sixteen connections."""
    monkeypatch.setattr("veilstream.server.run.most_connections", lambda: 16)
    monkeypatch.setattr(connections, "SILENT_SECONDS", 1.0)
    clock = SettableClock(START)
    service = Service(ServerOptions(tmp_path / "b.db", streams=(definition(public=True),)), clock, clock)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn_server(service, Listen())
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    one = Running(f"http://127.0.0.1:{listener.getsockname()[1]}", service, clock, server, thread)
    yield one
    one.stop()


def connected(server: Running, said: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=120)
    line.sendall(said)
    return line


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX-a:"])
def test_many_silent_clients_neither_stop_answers_nor_stay(limited: Running, said: bytes) -> None:
    lines = [connected(limited, said) for _ in range(60)]
    with limited.client("ingest") as client:
        assert client.get("/health/live").status_code == 200
        assert send(client, body(frame(1), CSV)).status_code == 202
    for line in lines:
        # The end comes by itself.
        with line, suppress(ConnectionResetError):
            assert line.recv(1) == b""


def test_readers_of_events_leave_room_for_others(limited: Running) -> None:
    follow = b"GET /v1/streams/visits/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    lines = [connected(limited, follow) for _ in range(16)]
    begun = [line.recv(12)[9:12] for line in lines[:12]]
    assert begun == [b"200"] * 12
    assert lines[12].recv(12)[9:12] == b"503"
    with limited.client() as client:
        assert client.get("/health/live").status_code == 200
    for line in lines:
        line.close()


def test_connections_leave_files_for_the_rest() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= most_connections() <= max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - connections.KEPT_FILES)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= soft


def table(place: Any, rows: int) -> pa.Table:
    return pa.table({"id": pa.array(range(rows)), "ts": ["2024-01-01T00:00:00"] * rows, "place": place})


def arrow(one: pa.Table) -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, one.schema) as writer:
        writer.write_table(one)
    return file.getvalue()


def parquet(one: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(one, file)
    return file.getvalue()


def bombs() -> dict[str, tuple[bytes, str, int]]:
    """Small bodies that stand for gigabytes, and some that no reader should meet."""
    large, rows = "x" * (1 << 20), 400
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([large]))
    view = np.zeros((rows, 4), np.int32)
    view[:, 0], view[:, 1] = len(large), int.from_bytes(b"xxxx", "little")
    views = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(view), pa.py_buffer(large.encode())])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.array([large]))
    few = ["a"] * 3
    return {
        "dictionary": (arrow(table(repeated, rows)), ARROW, 413),
        "views": (arrow(table(views, rows)), ARROW, 413),
        "runs": (arrow(table(runs, rows)), ARROW, 422),
        "dictionary in parquet": (parquet(table(repeated, rows)), PARQUET, 422),
        "list": (arrow(table([few] * 3, 3)), ARROW, 422),
        "list in parquet": (parquet(table([few] * 3, 3)), PARQUET, 422),
        "struct": (arrow(table([{"a": 1}] * 3, 3)), ARROW, 422),
        "columns": (b"," * (1 << 20), CSV, 422),
        "odd date": (arrow(table(few, 3).set_column(1, "ts", pa.array([1 << 62] * 3, pa.timestamp("s")))), ARROW, 202),
        "abort": (ABORTS.read_bytes(), PARQUET, 422),
    }


def test_a_small_body_that_does_harm_is_refused_and_the_next_one_taken(
    start_server: StartServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start_server(definition())
    tried = []
    with server.client("ingest") as client:
        for name, (content, kind, status) in bombs().items():
            answer = send(client, content, kind)
            assert answer.status_code in (status, 413), (name, answer.text)
            tried.append(name)
            assert send(client, body(frame(1), CSV)).status_code == 202
    assert len(tried) == 10
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", [CSV, NDJSON])
def test_all_members_of_a_gzip_body_count(start_server: StartServer, kind: str) -> None:
    server = start_server(definition())
    rows = body(frame(1, 2, 3, 4), kind).splitlines(keepends=True)
    parts = [gzip.compress(line) for line in rows]
    with server.client("ingest") as client:
        headers = {"content-encoding": "gzip"}
        assert send(client, b"".join(parts) + bytes(512), kind, **headers).status_code == 202
        for damaged in (b"".join(parts) + b"more", b"".join(parts)[:-3], b""):
            answer = send(client, damaged, kind, **headers)
            assert (answer.status_code, "gzip" in answer.text) == (422, True)
    server.until_visible("visits", 0)
    with server.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"] == [[4, 0]]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"id,ts,place\n1,2024-01-01T00:00:01,a\n1,2,3,4\n2,2024-01-01T00:00:01,a\n", CSV),
        (b'{"id":1,"ts":"2024-01-01T00:00:01","place":"a"}\nwhat?\n{"id":2,"ts":"2024-01-01","place":"a"}\n', NDJSON),
    ],
)
def test_a_line_that_cannot_be_read_is_no_concern_of_the_others(
    start_server: StartServer, content: bytes, kind: str
) -> None:
    server = start_server(definition(), definition("strict", bad_rows="refuse"))
    with server.client("ingest", "operate") as client:
        assert send(client, content, kind).status_code == 202
        strict = client.post("/v1/streams/strict/events", content=content, headers={"content-type": kind})
        assert (strict.status_code, "bad_rows" in strict.text) == (422, True)
        (view,) = [one for one in client.get("/v1/operate").json()["streams"] if one["stream"] == "visits"]
        assert sum(hour["unreadable"] for hour in view["hours"]) == 1
    server.until_visible("visits", 0)
    with server.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"] == [[2, 0]]


def test_unfinished_uploads_hold_up_nobody(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(under_way=4000, most_bytes=1000, seconds=5.0))
    token, _ = server.service.tokens.create("slow", ("ingest",))
    head = f"POST /v1/streams/visits/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    head += "Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
    lines = [connected(server, head.encode() + b"1f4\r\n" + b"x" * 500 + b"\r\n") for _ in range(9)]
    with server.client("ingest") as client:
        assert [send(client, body(frame(1), CSV)).status_code for _ in range(3)] == [202] * 3
    for line in lines:
        line.close()


@pytest.mark.parametrize(
    "path", ["/", "/health/live", "/v1/streams", "/v1/streams/open", "/v1/streams/open/releases", "/v1/live", "/none"]
)
def test_head_answers_like_get_without_a_body(server: Running, path: str) -> None:
    with server.client() as client:
        head = client.head(path)
        assert head.content == b""
        if not path.endswith("/v1/live"):
            get = client.get(path)
            assert (head.status_code, head.headers["content-type"]) == (get.status_code, get.headers["content-type"])


def test_the_description_says_who_may_use_what(server: Running) -> None:
    with server.client() as client:
        described = client.get("/openapi.json").json()
        assert set(described["components"]["securitySchemes"]) == {"token", "session"}
        tried = 0
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                if {"token": []} in operation.get("security", []) and {} not in operation["security"]:
                    request = httpx.Request(method.upper(), server.url + path.replace("{", "").replace("}", ""))
                    request.headers["content-length"] = "0"
                    assert client.send(request).status_code in (401, 422), path
                    tried += 1
        assert tried >= 8


def test_answers_do_not_name_files_of_the_operator(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, status in ((LedgerError("/secret/b.db: no room"), 503), (LedgerMismatchError("stream: another"), 409)):

        def fail(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr("veilstream.server.readers.budget", fail)
        with server.client() as client:
            answer = client.get("/v1/streams/open/budget")
        assert (answer.status_code, "/secret" in answer.text) == (status, False)


def test_a_preview_has_limits_of_its_own(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {
        "name": "z", "user": "id", "time": "ts", "every": "1m", "start": "2024-01-01", "end": "2025-01-01",
        "epsilon": "1", "window": 10, "mechanism": "uniform",
    }  # fmt: skip
    with server.client() as client:
        one = client.post("/v1/guide/preview", json=asked)
        assert (one.status_code, one.json()["steps"]) == (200, 527_040)
        wide = {**asked, "domain": {"x": {"low": 0, "high": 1, "cells": 1000}}}
        large = client.post("/v1/guide/preview", json=wide)
        assert (large.status_code, large.json()["error"]["type"]) == (413, "TooMuchError")
        answers = [client.post("/v1/guide/preview", json=wide).status_code for _ in range(25)]
        assert 429 in answers
        assert answers.index(429) < 24
