"""Batches in: four formats, once each, durable before the answer, and refused with a reason."""

from __future__ import annotations

import gzip
import io
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import polars as pl
import pyarrow as pa
import pytest

from tests.server.conftest import START, Running, StartServer, definition
from veilstream.live.clock import moment
from veilstream.server.intake import Limits

NDJSON, CSV = "application/x-ndjson", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
PATH = "/v1/streams/visits/events"


def frame(*people: Any, place: str = "a") -> pl.DataFrame:
    return pl.DataFrame({"id": list(people), "ts": [moment(START + 1)] * len(people), "place": [place] * len(people)})


def body(rows: pl.DataFrame, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == NDJSON:
        rows.write_ndjson(file)
    elif kind == CSV:
        rows.write_csv(file)
    elif kind == PARQUET:
        rows.write_parquet(file)
    else:
        table = rows.to_arrow()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


def send(client: httpx.Client, content: bytes, kind: str = CSV, **headers: str) -> httpx.Response:
    return client.post(PATH, content=content, headers={"content-type": kind, **headers})


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("kind", [NDJSON, CSV, ARROW, PARQUET])
def test_every_format_counts_the_same_people(start_server: StartServer, kind: str, encoding: str) -> None:
    server = start_server(definition())
    with server.client("ingest") as client:
        content = body(frame(1, 2, 2), kind)
        content = gzip.compress(content) if encoding == "gzip" else content
        answer = send(client, content, kind, **{"content-encoding": encoding})
        assert (answer.status_code, answer.json()) == (202, {"status": "accepted"})
    server.until_visible("visits", 0)
    with server.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"] == [[2, 0]]


def test_a_batch_id_makes_it_once(start_server: StartServer) -> None:
    server = start_server(definition())
    with server.client("ingest") as client:
        content = body(frame(1, 2), CSV)
        answers = [send(client, content, **{"batch-id": "x"}) for _ in range(3)]
        assert [(a.status_code, a.json()["status"]) for a in answers] == [
            (202, "accepted"),
            (200, "duplicate"),
            (200, "duplicate"),
        ]
        other = send(client, body(frame(3), CSV), **{"batch-id": "x"})
        assert (other.status_code, other.json()["error"]["type"]) == (409, "BatchConflictError")
    server.until_visible("visits", 0)
    with server.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"] == [[2, 0]]


def test_an_accepted_batch_survives_the_end_of_the_server(start_server: StartServer) -> None:
    first = start_server(definition())
    with first.client("ingest") as client:
        assert send(client, body(frame(1, 2, 3), NDJSON), NDJSON).status_code == 202
    first.stop()
    second = start_server(definition(), clock=first.clock)
    second.until_visible("visits", 0)
    with second.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"] == [[3, 0]]


@pytest.mark.parametrize(
    ("content", "kind", "headers", "status", "words"),
    [
        (b"id,ts\n1,2", CSV, {}, 422, "'place'"),
        (b'id,ts,place\n1,"x,a', CSV, {}, 422, "quote"),
        (b"id,ts,place\n1,2,3,4", CSV, {}, 422, "cannot be read"),
        (b"", CSV, {}, 422, ""),
        (b'{"id": 1', NDJSON, {}, 422, "cannot be read"),
        (b"[1, 2]", NDJSON, {}, 422, "cannot be read"),
        (b"PAR1 and no more", PARQUET, {}, 422, "cannot be read"),
        (b"\xff" * 64, ARROW, {}, 422, "cannot be read"),
        (b"ARROW1\0\0", ARROW, {}, 422, "stream"),
        (b"<rows/>", "application/xml", {}, 415, "Content-Type"),
        (b"id,ts,place\n", CSV, {"content-encoding": "br"}, 415, "Content-Encoding"),
        (b"not gzip", CSV, {"content-encoding": "gzip"}, 422, "gzip"),
        (gzip.compress(b"id,ts,place\n", mtime=0)[:-4], CSV, {"content-encoding": "gzip"}, 422, "break off"),
        (b"id,ts,place\n", CSV, {"batch-id": "x" * 201}, 400, "Batch-Id"),
        (b"id,ts,place\n", CSV, {"batch-id": "a b"}, 400, "Batch-Id"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(
    server: Running, content: bytes, kind: str, headers: dict[str, str], status: int, words: str
) -> None:
    with server.client("ingest") as client:
        answer = send(client, content, kind, **headers)
        assert answer.status_code == status
        assert words in answer.json()["error"]["message"]
        assert answer.json()["error"]["message"].endswith("nothing was stored")


def test_a_refusal_never_repeats_what_was_sent(start_server: StartServer) -> None:
    server = start_server(definition(bad_rows="refuse"))
    with server.client("ingest") as client:
        for rows in (frame("secret-person", place="secret-place"), frame(1).with_columns(ts=pl.lit("secret-time"))):
            answer = send(client, body(rows, CSV))
            assert answer.status_code == 422
            assert "secret" not in answer.text


def test_bombs_are_not_unpacked(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(most_bytes=1 << 20, most_unpacked=1 << 20, most_rows=1000))
    with server.client("ingest") as client:
        bomb = gzip.compress(b"id,ts,place\n" + b"0" * (1 << 26))
        assert len(bomb) < 1 << 17
        assert send(client, bomb, **{"content-encoding": "gzip"}).status_code == 413
        many = pl.DataFrame({"id": [1] * 2000, "ts": ["x"] * 2000, "place": ["a"] * 2000})
        for kind in (NDJSON, CSV, ARROW, PARQUET):
            assert send(client, body(many, kind), kind).status_code == 413
        file = io.BytesIO()
        table = pa.table({"id": pa.array(["0" * 10_000_000]), "ts": ["x"], "place": ["a"]})
        with pa.ipc.new_stream(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        packed = send(client, file.getvalue(), ARROW)
        assert (packed.status_code, "compressed" in packed.text) == (422, True)
        assert send(client, b"x" * ((1 << 20) + 1)).status_code == 413
        assert send(client, body(frame(1), CSV)).status_code == 202


def test_a_body_without_a_length_is_limited_too(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(most_bytes=1000))
    with server.client("ingest") as client:
        pieces = iter([b"x" * 600, b"x" * 600])
        assert client.post(PATH, content=pieces, headers={"content-type": CSV}).status_code == 413


def test_a_slow_client_is_let_go(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(seconds=0.2))
    token = server.service.tokens.create("slow", ("ingest",))[0]
    with raw(server) as line:
        head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        line.sendall((head + "Content-Type: text/csv\r\nContent-Length: 100\r\n\r\nid,").encode())
        assert b"408" in line.recv(4096).split(b"\r\n")[0]


def test_a_client_that_is_too_fast_is_told_when_to_come_back(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(batches_per_second=0.5, burst=2))
    with server.client("ingest") as client:
        answers = [send(client, body(frame(1), CSV)) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        assert int(answers[2].headers["retry-after"]) >= 1


def test_a_full_server_pushes_back_and_loses_nothing(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(under_way=400))
    with server.client("ingest") as client:
        small = send(client, body(frame(1), CSV))
        large = send(client, body(frame(*range(50)), CSV))
        assert (small.status_code, large.status_code) == (202, 429)
        assert large.headers["retry-after"] == "1"


def raw(server: Running) -> socket.socket:
    place = urlsplit(server.url)
    assert place.hostname is not None
    return socket.create_connection((place.hostname, place.port or 80), timeout=10)
