"""Attacks that were tried, each with its outcome."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import pytest

from tests.server.conftest import HOUR, Running, StartServer, definition, until
from tests.server.test_ingest import CSV, PATH, body, frame, raw, send
from veilstream.server.access import COOKIE
from veilstream.server.tokens import Grant, TokenStore

DAY = 24 * HOUR


def with_token(server: Running, token: str) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {token}"}, timeout=30)


def test_guessed_forged_and_malformed_tokens_are_refused_alike(server: Running) -> None:
    token, grant = server.service.tokens.create("t", ("ingest",))
    forged = [
        "x",
        token[:-1],
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        f"vst_{grant.id}_{'A' * 43}",
        f"vst_{'a' * 13}_{token.rpartition('_')[2]}",
        token + "x",
        token.upper(),
        "' OR 1=1 --",
        "vst_" + "x" * 5000,
    ]
    answers = set()
    for one in forged:
        with with_token(server, one) as client:
            answer = send(client, body(frame(1), CSV))
            answers.add((answer.status_code, answer.text))
    assert len(answers) == 1
    assert answers.pop()[0] == 401
    with with_token(server, token) as client:
        assert send(client, body(frame(1), CSV)).status_code == 202


def test_expired_revoked_and_rotated_tokens_end_at_once(server: Running) -> None:
    tokens = server.service.tokens
    short, _ = tokens.create("short", ("read",), life="1h")
    gone, gone_grant = tokens.create("gone", ("read",))
    old, old_grant = tokens.create("old", ("read",))
    paths = "/v1/streams/visits"
    for token in (short, gone, old):
        with with_token(server, token) as client:
            assert client.get(paths).status_code == 200
    server.clock.tick += 2 * HOUR
    tokens.revoke(gone_grant.id)
    new = tokens.rotate(old_grant.id)
    for token, status in ((short, 401), (gone, 401), (old, 401), (new, 200)):
        with with_token(server, token) as client:
            assert client.get(paths).status_code == status


def test_a_token_that_another_process_revokes_ends_soon(server: Running) -> None:
    """The command ``veilstream token`` runs beside the server."""
    command = TokenStore(server.service.spool, server.clock)
    token, grant = command.create("made elsewhere", ("read",))
    with with_token(server, token) as client:
        until(lambda: client.get("/v1/streams/visits").status_code == 200)
        command.revoke(grant.id)
        until(lambda: client.get("/v1/streams/visits").status_code == 401)


def test_only_digests_of_secrets_are_stored(server: Running) -> None:
    token, grant = server.service.tokens.create("t", ("admin",))
    secret = token.partition(f"_{grant.id}_")[2]
    assert len(secret) > 20
    with server.service.spool.write() as connection:
        dumped = str(connection.exec_driver_sql("SELECT * FROM server_tokens").all())
    assert secret not in dumped
    with with_token(server, token) as client:
        assert secret not in client.get("/v1/tokens").text
        assert secret not in client.get("/v1/audit").text


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("ingest", {"send"}),
        ("read", {"read"}),
        ("operate", {"read", "operate", "metrics"}),
        ("admin", {"send", "read", "operate", "metrics", "tokens", "audit"}),
    ],
)
def test_a_scope_allows_what_it_says(server: Running, scope: str, allowed: set[str]) -> None:
    with server.client(scope) as client:
        done = {
            "send": send(client, body(frame(1), CSV)),
            "read": client.get("/v1/streams/visits"),
            "operate": client.get("/v1/operate"),
            "metrics": client.get("/metrics"),
            "tokens": client.post("/v1/tokens", json={"label": "x", "scopes": ["admin"]}),
            "audit": client.get("/v1/audit"),
        }
    assert {name for name, answer in done.items() if answer.is_success} == allowed
    assert {answer.status_code for name, answer in done.items() if name not in allowed} <= {403}


def test_a_token_of_one_stream_opens_no_other_and_makes_no_tokens(server: Running) -> None:
    with server.client("admin", streams=("open",)) as client:
        assert client.get("/v1/streams/visits").status_code == 403
        assert send(client, body(frame(1), CSV)).status_code == 403
        assert client.post("/v1/tokens", json={"label": "x", "scopes": ["admin"]}).status_code == 403
        assert [view["stream"] for view in client.get("/v1/operate").json()["streams"]] == ["open"]


def test_streams_cannot_be_enumerated(server: Running) -> None:
    with server.client() as client:
        answers = {client.get(f"/v1/streams/{name}").text for name in ("visits", "nothing")}
        assert len(answers) == 1
        assert [info["name"] for info in client.get("/v1/streams").json()["streams"]] == ["open"]


def test_a_token_in_the_address_is_not_taken(server: Running) -> None:
    token, _ = server.service.tokens.create("t", ("read",))
    with server.client() as client:
        assert client.get(f"/v1/streams/visits?token={token}&access_token={token}").status_code == 401


def logged_in(server: Running, *scopes: str) -> tuple[httpx.Client, dict[str, Any]]:
    token, _ = server.service.tokens.create("page", scopes)
    with server.client() as client:
        answer = client.post("/v1/session", json={"token": token})
    assert answer.status_code == 200
    return httpx.Client(base_url=server.url, cookies=answer.cookies), {"answer": answer, **answer.json()}


def test_forged_requests_from_other_sites_change_nothing(server: Running) -> None:
    client, session = logged_in(server, "admin")
    with client:
        flags = session["answer"].headers["set-cookie"].lower()
        assert "httponly" in flags
        assert "samesite=strict" in flags
        wanted = {"label": "x", "scopes": ["admin"]}
        assert client.post("/v1/tokens", json=wanted).status_code == 403
        assert client.post("/v1/tokens", json=wanted, headers={"x-csrf-token": "guess"}).status_code == 403
        assert send(client, body(frame(1), CSV)).status_code == 403
        done = client.post("/v1/tokens", json=wanted, headers={"x-csrf-token": session["csrf"]})
        assert done.status_code == 201
        assert "access-control-allow-origin" not in done.headers


def test_a_session_ends_with_its_token_and_at_log_out(server: Running) -> None:
    client, session = logged_in(server, "read")
    with client:
        assert client.get("/v1/streams/visits").status_code == 200
        for grant in server.service.tokens.grants():
            if grant.label == "page":
                server.service.tokens.revoke(grant.id)
        assert client.get("/v1/streams/visits").status_code == 401
    client, session = logged_in(server, "read")
    with client:
        cookie = client.cookies[COOKIE]
        assert client.delete("/v1/session", headers={"x-csrf-token": session["csrf"]}).status_code == 204
        client.cookies.set(COOKIE, cookie)
        assert client.get("/v1/streams/visits").status_code == 401


def test_guessing_tokens_on_the_page_gets_slower(server: Running) -> None:
    with server.client() as client:
        spans = []
        for _ in range(4):
            began = time.monotonic()
            assert client.post("/v1/session", json={"token": "x"}).status_code == 401
            spans.append(time.monotonic() - began)
        assert spans[3] > 0.75


@pytest.mark.parametrize(
    "name", ["../../pyproject.toml", "..%2f..%2fapp.py", "%2e%2e/app.py", "app.py", "index.html%00", ""]
)
def test_no_path_leads_out_of_the_assets(server: Running, name: str) -> None:
    with raw(server) as line:
        line.sendall(f"GET /assets/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert line.recv(4096).split(b" ")[1] == b"404"


@pytest.mark.parametrize(
    "path",
    ["/v1/streams/x%0d%0aSet-Cookie:%20a=b", "/v1/streams/%00", "/v1/streams/" + "a" * 3000, "/v1/streams/..%2f..%2f"],
)
def test_names_in_paths_inject_nothing(server: Running, path: str) -> None:
    with server.client("read") as client:
        answer = client.get(path)
        assert answer.status_code in (403, 404, 422, 500) or answer.json()
        assert answer.status_code != 500
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("name", ["x%0d%0aSet-Cookie:%20a=b", "%3e%3b rel=stylesheet,", "%22%3e%00", "ü"])
def test_names_in_the_header_that_announces_requests_are_quoted(server: Running, name: str) -> None:
    with server.client() as client:
        answer = client.get(f"/streams/{name}")
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        for part in answer.headers["link"].split(", "):
            assert re.fullmatch(r"</v1/streams/[\w.%~-]+[\w/?&=]*>; rel=preload; as=fetch; crossorigin=anonymous", part)


def test_a_file_of_the_page_is_sent_once_and_again_when_it_changed(server: Running) -> None:
    with server.client() as client:
        first = client.get("/assets/app.js")
        again = client.get("/assets/app.js", headers={"if-none-match": first.headers["etag"]})
        other = client.get("/assets/app.js", headers={"if-none-match": '"of another version"'})
    assert (first.status_code, again.status_code, other.status_code) == (200, 304, 200)
    assert (again.content, other.content) == (b"", first.content)


def test_headers_cannot_be_split_or_grow_without_limit(server: Running) -> None:
    token, _ = server.service.tokens.create("t", ("ingest",))
    attacks = [
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nBatch-Id: a\r\n b\r\nAuthorization: Bearer {token}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {'y' * 200_000}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost\r\n\r\n",
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    ]
    for attack in attacks:
        with raw(server) as line:
            line.sendall(attack.encode())
            assert line.recv(4096).split(b" ")[1] in (b"400", b"401", b"413", b"415", b"431")
    with server.client() as client:
        assert client.get("/health/live").status_code == 200


def test_a_last_event_id_of_any_kind_starts_a_stream_of_events(server: Running) -> None:
    for value in ("x", "9" * 400, "-" * 20, "1\t2", "²"):
        with raw(server) as line:
            line.sendall(
                b"GET /v1/streams/open/live HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: "
                + value.encode()
                + b"\r\n\r\n"
            )
            assert line.recv(4096).split(b" ")[1] == b"200"


def test_large_and_deep_json_is_refused(server: Running) -> None:
    with server.client() as client:
        assert client.post("/v1/session", content=b"x" * 70_000).status_code == 413
        deep = "[" * 30_000 + "]" * 30_000
        answer = client.post("/v1/session", content=deep, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        pieces = (b"x" * 1000 for _ in range(200))
        assert client.post("/v1/session", content=pieces).status_code in (400, 413, 422)
        assert client.get("/health/live").status_code == 200


def test_other_host_names_are_refused_when_hosts_are_listed(start_server: StartServer) -> None:
    server = start_server(definition(public=True), hosts=("127.0.0.1", "data.example"))
    with server.client() as client:
        assert client.get("/v1/streams").status_code == 200
        assert client.get("/v1/streams", headers={"host": "data.example:8000"}).status_code == 200
        assert client.get("/v1/streams", headers={"host": "evil.example"}).status_code == 421


def test_every_answer_carries_the_security_headers(server: Running) -> None:
    with server.client() as client:
        for path in ("/", "/v1/streams", "/assets/app.js", "/nothing", "/embed/open", "/v1/streams/open/releases"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            framed = "frame-ancestors *" in headers["content-security-policy"]
            assert framed == path.startswith("/embed/")
            assert ("x-frame-options" in headers) != framed


def test_the_log_tells_who_did_what(server: Running) -> None:
    with server.client("admin") as client:
        made = client.post("/v1/tokens", json={"label": "x", "scopes": ["read"], "life": "1d"}).json()
        client.post(f"/v1/tokens/{made['id']}/rotate")
        client.delete(f"/v1/tokens/{made['id']}")
        done = [(entry["action"], entry["subject"]) for entry in client.get("/v1/audit").json()["entries"]]
        assert done[:3] == [(f"{what} token", made["id"]) for what in ("revoke", "rotate", "create")]
        assert client.delete("/v1/tokens/nothing").status_code == 404


def test_a_grant_for_all_streams_includes_each(server: Running) -> None:
    grant = Grant("x", "x", ("read",), ("*",), DAY)
    assert grant.allows("read", "visits")
    assert not grant.allows("ingest", "visits")
