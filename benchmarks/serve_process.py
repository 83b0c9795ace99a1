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
    port = free_port()
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
    with running(command, port, token) as server:
        yield server


@contextmanager
def bare_server(path: Path, stored: int) -> Generator[Served]:
    """Run a server that decodes bodies and makes as many bytes durable, and nothing else."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.serve_floor", str(port), str(path), str(stored)]
    with running(command, port, "none") as server:
        yield server


@contextmanager
def running(command: list[str], port: int, token: str) -> Generator[Served]:
    """A process that answers on the port when this begins."""
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if httpx.get(f"{url}/health/ready").is_success:
                    break
            except httpx.TransportError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
            time.sleep(0.2)
        yield Served(url, token, process.pid)
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
