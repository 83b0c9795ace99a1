"""The whole service killed while clients send: every accepted batch counts once, every release stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.test_sources import free_port
from veilstream.live.clock import WallClock
from veilstream.live.spool import Spool
from veilstream.server.tokens import TokenStore

ROWS = 200
CONFIG = """
[streams.s]
user = "id"
start = "2026-01-01"
every = "1s"
delay = "2s"
epsilon = "1000000"
mechanism = "uniform"
window = 1
public = true
domain = { place = ["a"] }
"""


class Killed:
    """A server process that is killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "serve.toml").write_text(f'ledger = "b.db"\n{CONFIG}')
        with Spool(folder / "b.db.spool") as spool:
            self.token, _ = TokenStore(spool, WallClock()).create("client", ("ingest",))
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "veilstream.cli", "serve", "--config", "serve.toml", "--port", str(self.port)]
        return subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL)

    def send(self, number: int) -> bool:
        """Whether the batch is known to be stored."""
        people = "\n".join(f"p{number * ROWS + n},a" for n in range(ROWS))
        headers = {"authorization": f"Bearer {self.token}", "content-type": "text/csv", "batch-id": str(number)}
        try:
            answer = self.http.post("/v1/streams/s/events", content=f"id,place\n{people}\n", headers=headers)
        except httpx.TransportError:
            return False
        return answer.status_code in (200, 202)

    def releases(self) -> dict[int, Any]:
        seen: dict[int, Any] = {}
        step: int | None = 0
        while step is not None:
            page = self.http.get("/v1/streams/s/releases", params={"from": step}).json()
            seen |= dict(zip(page["step"], page["values"], strict=True))
            step = page["next"]
        return seen


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.audit)])
def test_kills_lose_no_accepted_batch_and_change_no_release(tmp_path: Path, kills: int) -> None:
    server = Killed(tmp_path)
    before: dict[int, Any] = {}
    stored = 0
    process = server.start()
    try:
        for kill in range(kills):
            wanted = stored + 5 + kill % 7
            while stored < wanted:
                stored += server.send(stored)
            before |= server.releases()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process = server.start()
        while not server.send(stored):
            time.sleep(0.05)
        total, deadline = (stored + 1) * ROWS, time.monotonic() + 60
        after: dict[int, Any] = {}
        while sum(value for (value,) in after.values()) < total and time.monotonic() < deadline:
            time.sleep(0.3)
            after = server.releases()
        assert sum(value for (value,) in after.values()) == total
        assert sorted(after) == list(range(min(after), max(after) + 1))
        assert all(after[step] == value for step, value in before.items())
    finally:
        process.terminate()
        process.wait()
        server.http.close()
