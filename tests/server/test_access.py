"""Rights are asked for again and again: per event, per batch, per session; and the log of them misses nobody."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.server.conftest import HOUR, Running, StartServer, definition, until
from tests.server.test_attacks import logged_in, with_token
from tests.server.test_ingest import CSV, PATH, body, frame, raw, send
from veilstream.cli.app import app
from veilstream.server.intake import Limits


def follow(server: Running, path: str, seen: list[dict[str, Any]], **how: dict[str, str]) -> threading.Thread:
    """Read events in a thread until the server ends them."""

    def read() -> None:
        with httpx.stream("GET", server.url + path, timeout=60, **how) as answer:  # type: ignore[arg-type]
            seen.extend(json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {"))

    thread = threading.Thread(target=read)
    thread.start()
    return thread


@pytest.mark.parametrize("how", ["revoked", "rotated", "expired"])
@pytest.mark.parametrize("path", ["/v1/streams/visits/live?after=-1", "/v1/live"])
def test_events_end_with_the_token(server: Running, path: str, how: str) -> None:
    tokens, seen = server.service.tokens, list[dict[str, Any]]()
    token, grant = tokens.create("reader", ("read",), life="2h")
    thread = follow(server, path, seen, headers={"authorization": f"Bearer {token}"})
    before = server.service.boards["visits"].published
    server.until_visible("visits", before + 1)
    until(lambda: bool(seen))
    if how == "expired":
        server.clock.tick += 3 * HOUR
    else:
        tokens.revoke(grant.id) if how == "revoked" else tokens.rotate(grant.id)
    last = server.service.boards["visits"].visible if how != "expired" else before + 1
    server.until_visible("visits", server.service.boards["visits"].visible + 2)
    thread.join(30)
    assert not thread.is_alive()
    # What was on its way may still come, and nothing of later steps.
    assert max(one.get("visits") or one.get("head", last) for one in seen) <= last


def test_a_session_ends_when_its_token_is_rotated(server: Running) -> None:
    client, _ = logged_in(server, "read")
    with client:
        assert client.get("/v1/streams/visits").status_code == 200
        for grant in server.service.tokens.grants():
            if grant.label == "page":
                server.service.tokens.rotate(grant.id)
        assert client.get("/v1/streams/visits").status_code == 401


def test_a_batch_that_came_slowly_needs_a_token_that_still_lives(server: Running) -> None:
    token, grant = server.service.tokens.create("slow", ("ingest",))
    content = body(frame(1), CSV)
    with raw(server) as line:
        head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: {CSV}\r\n"
        line.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[:-1])
        until(lambda: server.service.intake._bytes.total() > 0)
        server.service.tokens.revoke(grant.id)
        line.sendall(content[-1:])
        assert b"401" in line.recv(4096).split(b"\r\n")[0]


def test_the_administrator_of_one_stream_sees_its_tokens_alone(server: Running) -> None:
    tokens = server.service.tokens
    _, own = tokens.create("own", ("read",), ("open",))
    _, other = tokens.create("other", ("read",), ("visits",))
    _, both = tokens.create("both", ("read",), ("open", "visits"))
    with server.client("admin", streams=("open",)) as client:
        shown = {one["id"] for one in client.get("/v1/tokens").json()["tokens"]}
        assert own.id in shown
        assert not {other.id, both.id} & shown
        assert client.get("/v1/audit").status_code == 403
    with server.client("admin") as client:
        assert {own.id, other.id, both.id} <= {one["id"] for one in client.get("/v1/tokens").json()["tokens"]}


def test_what_the_command_line_does_with_tokens_is_in_the_log(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(definition())
    call, where = CliRunner(), ["--ledger", str(tmp_path / "b.db")]
    made = call.invoke(app, ["token", "create", "intake", "--scope", "ingest", "--quota", "1000", *where])
    name = made.stdout.strip().split("_")[1]
    assert call.invoke(app, ["token", "rotate", name, *where]).exit_code == 0
    assert call.invoke(app, ["token", "revoke", name, *where]).exit_code == 0
    with server.client("admin") as client:
        entries = client.get("/v1/audit").json()["entries"]
    done = [(one["who"], one["action"]) for one in entries if one["subject"] == name]
    assert done == [("command line", f"{what} token") for what in ("revoke", "rotate", "create")]


def test_a_token_sends_no_more_bytes_a_day_than_its_quota(start_server: StartServer) -> None:
    server = start_server(definition(), limits=Limits(seconds=2.0))
    content = body(frame(*range(50)), CSV)
    with server.client("admin") as client:
        wanted = {"label": "x", "scopes": ["ingest"], "quota": 2 * len(content) - 100}
        made = client.post("/v1/tokens", json=wanted).json()
        quotas = {one["id"]: one["quota"] for one in client.get("/v1/tokens").json()["tokens"]}
    assert quotas[made["id"]] == wanted["quota"]
    with with_token(server, made["token"]) as client, server.client("ingest") as other:
        assert [send(client, content).status_code for _ in range(3)] == [202, 202, 429]
        answer = send(client, content)
        assert "day" in answer.json()["error"]["message"]
        assert 1 <= int(answer.headers["retry-after"]) <= 86_400
        assert send(other, content).status_code == 202


@pytest.mark.parametrize(
    ("hosts", "allowed"),
    [
        (("data.example",), ("data.example:80", "DATA.example.", "127.0.0.1", "localhost:1", "[::1]:80")),
        ((), ("127.0.0.1", "localhost", "10.1.2.3", "[fe80::1]:80")),
    ],
)
def test_a_server_answers_to_its_names_alone(
    start_server: StartServer, hosts: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    server = start_server(definition(public=True), hosts=hosts)
    refused = ("evil.example", "[::1].evil", "127.0.0.1.evil.example", "localhost@evil.example", "a b", "")
    with server.client() as client:
        for host, status in [*((one, 200) for one in allowed), *((one, 421) for one in refused)]:
            assert client.get("/v1/streams", headers={"host": host}).status_code == status, host
            # Health is asked for by whatever address a machine is known.
            assert client.get("/health/ready", headers={"host": host}).status_code == 200


def test_names_of_the_configuration_and_of_the_command_are_both_answered_to(tmp_path: Path) -> None:
    from veilstream.cli.serve import _options

    (tmp_path / "serve.toml").write_text('ledger = "b.db"\nhosts = ["data.example"]\n')
    assert _options(tmp_path / "serve.toml", None, None, ("more.example",), secure=False).hosts == (
        "more.example",
        "data.example",
    )


def test_tokens_that_cannot_be_read_for_long_are_refused(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    token, _ = server.service.tokens.create("t", ("read",))
    with with_token(server, token) as client, server.client() as anybody:
        monkeypatch.setattr("veilstream.server.tokens.STALE_SECONDS", -1.0)
        answer = client.get("/v1/streams/visits")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert anybody.get("/v1/streams/open").status_code == 200
