"""``python -m fuzz.requests --requests 100000``: odd requests to a server of its own, with a token for everything.

No answer is 500, none takes longer than half a minute, and the log holds no traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from fuzz.bodies import body_of, damaged

TOGETHER: Final = 12
PATIENCE: Final = 30.0
CONFIG: Final = """
ledger = "budget.db"
[streams.v]
user = "id"
time = "ts"
start = "2026-01-01"
every = "2s"
epsilon = "1"
window = 10
delay = "4s"
grace = "30s"
domain = { place = ["a", "b"], lat = { low = 0, high = 90, cells = 9 } }
[streams.daily]
user = "id"
time = "ts"
start = "2026-01-01"
every = "1d"
zone = "Europe/Paris"
epsilon = "1"
window = 10
public = true
domain = { lat = { low = 0, high = 90, cells = 9 } }
[streams.fares]
user = "id"
start = "2026-01-01"
every = "2s"
epsilon = "1"
window = 10
delay = "4s"
quantiles = "lat"
between = [0, 100]
[streams.strict]
user = "id"
time = "ts"
start = "2026-01-01"
every = "1h"
epsilon = "1"
window = 10
bad_rows = "refuse"
domain = { place = ["a", "b"] }
"""
WORDS: Final = (
    "", "a", "0", "-1", "1", "1e309", "NaN", "inf", "null", "true", "9" * 30, "-" + "9" * 20, "2026-11-18T15:00:00",
    "2026-11-18", "9999-12-31T23:59:59", "0001-01-01", "1e3", "0x10", "2026-13-45", "\0", "\U0001f600", "é", "a\nb",
    'a"b', "'", "<script>", "=1+1", "../../etc/passwd", "%00", "%s%n", "{{7*7}}", "x" * 5000, "2026-03-29T02:30:00",
    "1795000000", "-62135596800", "2026-11-18T15:00:00+14:00", "24:00", "2026-W10", "١٢", " 1 ", "1_000", "1/0",
    "0.1e-400", "uniform", "sample", "dsat", "running-total", "1h", "1mo", "3d", "Europe/Paris",
)  # fmt: skip
NAMES: Final = ("v", "daily", "fares", "strict", "nothing", "..", "%2e%2e", "a" * 200, "v%00", "v/", "V", "g1", "g2")
PAGES: Final = (
    "/v1/streams", "/v1/operate", "/metrics", "/v1/audit", "/v1/populations", "/v1/tokens", "/openapi.json", "/",
    "/assets/app.js", "/assets/..%2f..", "/assets/%00", "/streams/v", "/embed/v", "/health/ready", "/v1/session",
)  # fmt: skip
METHODS: Final = ("PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "DELETE", "BREW", "GET")
QUERIES: Final = ("from", "to", "limit", "numbers", "newest", "format", "digits", "latest", "brief")


@dataclass(slots=True)
class Asked:
    """What became of many requests."""

    answers: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])


def _word(rng: Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(WORDS)
    return "".join(rng.choice(string.printable) for _ in range(rng.randint(0, 30)))


def _value(rng: Random) -> Any:
    plain = [_word(rng), rng.randint(-10, 10), rng.random() * 100, None, True, 10 ** rng.randint(0, 300), 1e308, -0.0]
    return rng.choice([*plain, [_word(rng)], {"a": _word(rng)}, {"low": 0, "high": _word(rng), "cells": 10**7}])


def _guide(rng: Random) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "name": rng.choice(["g1", "g2", "v", "-x", ".a"]), "user": "id", "time": "ts", "every": "1d", "window": 3,
        "start": "2024-01-01", "end": "2024-01-08", "epsilon": "1", "domain": {"place": ["a", "b"]},
    }  # fmt: skip
    others = ["zone", "mechanism", "sum", "mean", "median", "quantiles", "between", "bins_per_user", "junk"]
    for _ in range(rng.randint(0, 3)):
        ranges = {"x": {"low": _value(rng), "high": _value(rng), "cells": rng.choice([1, 5, 0, -1, 10**7])}}
        edges = {"x": {"edges": [_value(rng) for _ in range(3)]}}
        asked[rng.choice([*asked, *others])] = rng.choice([_value(rng), ranges, edges, {"x": [_value(rng)] * 4}])
    return asked


def _batch(rng: Random, number: int) -> dict[str, Any]:
    body = body_of(number, 0)
    headers = {"content-type": body.kind if rng.random() < 0.95 else _word(rng)}
    if body.gzip:
        headers["content-encoding"] = "gzip"
    if rng.random() < 0.3:
        headers["batch-id"] = rng.choice(["a", "b", "x" * 201, "é", "a b", "1", "'; drop table live_batches; --"])
    return {"content": body.content, "headers": _sendable(headers)}


def _sendable(headers: dict[str, str]) -> dict[str, str]:
    return {name: "".join(one for one in value if 32 <= ord(one) < 127).strip() for name, value in headers.items()}


def request_of(seed: int, number: int) -> tuple[str, str, dict[str, Any]]:
    """Method, path and the rest of a request; the same for the same numbers."""
    rng = Random(f"{seed}/{number}")
    name, choice = rng.choice(NAMES), rng.randrange(100)
    if choice < 45:
        return "POST", f"/v1/streams/{rng.choice((*NAMES[:4], name))}/events", _batch(rng, number)
    if choice < 65:
        values = [_word(rng), rng.randint(-5, 14_000_000), "json", "csv", "parquet", "arrow", "columns", 3, 2**53 - 1]
        query = {one: rng.choice(values) for one in QUERIES if rng.random() < 0.4}
        headers = _sendable({"if-none-match": _word(rng)}) if rng.random() < 0.2 else {}
        part = rng.choice(["/releases", "/releases", "/revisions", "/budget", ""])
        return "GET", f"/v1/streams/{name}{part}", {"params": query, "headers": headers}
    if choice < 72:
        return rng.choice(["GET", "HEAD"]), rng.choice(PAGES), {"params": {"limit": _word(rng)}}
    if choice < 76:
        token = {
            "label": _word(rng),
            "scopes": rng.choice([["read"], [], [_word(rng)], _word(rng)]),
            "life": _word(rng),
        }
        return "POST", "/v1/tokens", {"json": token}
    if choice < 80:
        path = rng.choice(["nothing", "x" * 50, "%00", "a/rotate", "é/rotate"])
        return rng.choice(["DELETE", "POST"]), f"/v1/tokens/{path}", {}
    if choice < 83:
        return "POST", "/v1/session", {"content": damaged(b'{"token": "x"}', rng)}
    if choice < 92:
        return "POST", rng.choice(["/v1/guide/preview", "/v1/guide/streams"]), {"json": _guide(rng)}
    if choice < 96:
        until = {"until": rng.choice(["2024-01-08", "2024-01-03", _word(rng)])}
        stream = rng.choice(["g1", "g2", "v", "nothing"])
        return "POST", f"/v1/guide/streams/{stream}/events", {**_batch(rng, number), "params": until}
    return rng.choice(METHODS), rng.choice([*PAGES, "/v1/streams/v/events"]), {}


async def ask(client: httpx.AsyncClient, method: str, path: str, rest: dict[str, Any], asked: Asked) -> None:
    """Send one request and judge the answer."""
    began = time.monotonic()
    try:
        answer = await client.request(method, path, **rest)
        outcome = str(answer.status_code)
        bad = answer.status_code >= 500 and answer.status_code != 503
    except httpx.HTTPError as error:
        outcome, bad = type(error).__name__, True
    except (httpx.InvalidURL, ValueError, TypeError):
        outcome, bad = "not sent", False
    asked.answers[outcome] += 1
    if bad or time.monotonic() - began > PATIENCE:
        asked.faults.append(f"{outcome} after {time.monotonic() - began:.1f} s: {method} {path} {str(rest)[:600]}")


async def ask_all(url: str, token: str, seed: int, first: int, last: int) -> Asked:
    """Send the requests ``first`` to ``last - 1``."""
    asked, gate = Asked(), asyncio.Semaphore(TOGETHER)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=2 * PATIENCE) as client:

        async def one(number: int) -> None:
            async with gate:
                await ask(client, *request_of(seed, number), asked)

        for start in range(first, last, 500):
            await asyncio.gather(*(one(number) for number in range(start, min(start + 500, last))))
    return asked


def serve_and_ask(folder: Path, seed: int, requests: int) -> Asked:
    """Start a server, send requests, and read its log when it has ended."""
    (folder / "serve.toml").write_text(CONFIG, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command, url = [sys.executable, "-m", "veilstream.cli"], f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "serve", "--config", "serve.toml", "--port", str(port)], cwd=folder, stdout=log, stderr=log
        )
        try:
            _until_it_answers(url)
            words = ["token", "create", "fuzz", "--ledger", "budget.db", "--scope", "admin"]
            made = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, check=True)
            time.sleep(1.1)
            asked = asyncio.run(ask_all(url, made.stdout.strip(), seed, 0, requests))
            if server.poll() is not None:
                asked.faults.append(f"the server ended with {server.poll()}")
        finally:
            server.terminate()
            server.wait(120)
    text = (folder / "log").read_text(errors="replace")
    asked.faults += [
        f"in the log: {text[text.find(mark) :][:2000]}" for mark in ("Traceback", "panicked") if mark in text
    ]
    return asked


def _until_it_answers(url: str) -> None:
    for _ in range(600):
        try:
            if httpx.get(f"{url}/health/live", timeout=5).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit("the server does not answer")


def main() -> int:
    """The exit code is 1 if any request did harm."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.requests", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="another seed, other requests")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="veilstream-fuzz-") as folder:
        asked = serve_and_ask(Path(folder), given.seed, given.requests)
    total = asked.answers.total()
    sys.stdout.write(f"{total:,} requests, {len(asked.faults)} faults, {time.monotonic() - began:,.0f} s\n")
    sys.stdout.write(f"{json.dumps(dict(sorted(asked.answers.items())))}\n")
    for fault in asked.faults[:20]:
        sys.stdout.write(f"{fault}\n")
    return 1 if asked.faults else 0


if __name__ == "__main__":
    sys.exit(main())
