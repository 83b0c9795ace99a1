"""A server of its own process for measurements, and clients for it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from veilstream.live.clock import WallClock
from veilstream.live.spool import Spool
from veilstream.server.tokens import TokenStore


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    token: str
    process: int


def stream_toml(name: str, every: str, delay: str, bins: int, *, public: bool) -> str:
    """A stream whose rows count in the step of their arrival."""
    return (
        f'[streams.{name}]\nuser = "id"\nstart = "2026-01-01"\nevery = "{every}"\nepsilon = "1"\nwindow = 10\n'
        f'delay = "{delay}"\npublic = {str(public).lower()}\n'
        f"domain = {{ bin = {{ low = 0, high = {bins}, cells = {bins} }} }}\n"
    )


@contextmanager
def served(folder: Path, streams: str) -> Generator[Served]:
    """Run ``veilstream serve`` on the streams."""
    ledger = folder / "budget.db"
    (folder / "serve.toml").write_text(f'ledger = "{ledger}"\n{streams}', encoding="utf-8")
    with Spool(folder / "budget.db.spool") as spool:
        token, _ = TokenStore(spool, WallClock()).create("benchmark", ("admin",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    command = [
        sys.executable,
        "-m",
        "veilstream.cli",
        "serve",
        "--config",
        str(folder / "serve.toml"),
        "--port",
        str(port),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if httpx.get(f"{url}/health/ready").status_code == 200:
                    break
            except httpx.TransportError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
            time.sleep(0.2)
        yield Served(url, token, process.pid)
    finally:
        process.terminate()
        process.wait()
