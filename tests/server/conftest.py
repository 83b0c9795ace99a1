"""A server on a port of its own, with a clock that tests move."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from veilstream.live import StreamDefinition
from veilstream.live.clock import SettableClock, tick_of
from veilstream.server.app import make_app
from veilstream.server.intake import Limits
from veilstream.server.service import ServerOptions, Service

HOUR = 3_600_000_000
START = tick_of("2024-01-01")
NO_NOISE = "1000000"


def definition(name: str = "visits", **changes: Any) -> StreamDefinition:
    return StreamDefinition.from_json(
        {
            "name": name,
            "user": "id",
            "time": "ts",
            "domain": {"place": ["a", "b"]},
            "start": "2024-01-01",
            "every": "1h",
            "epsilon": NO_NOISE,
            "window": 1,
            **changes,
        }
    )


@dataclass
class Running:
    """A server that runs, and a client of each kind."""

    url: str
    service: Service
    clock: SettableClock
    server: uvicorn.Server
    thread: threading.Thread

    def client(self, *scopes: str, streams: tuple[str, ...] = ("*",)) -> httpx.Client:
        headers = {}
        if scopes:
            headers["authorization"] = f"Bearer {self.service.tokens.create('test', scopes, streams)[0]}"
        # Certificates take long to load, and nothing here is encrypted.
        return httpx.Client(base_url=self.url, headers=headers, timeout=120, verify=False)

    def until_visible(self, name: str, step: int) -> None:
        """Move the clock to the moment at which the step is shown, and wait for it."""
        self.clock.tick = max(self.clock.tick, self.service.boards[name].definition.timetable.shown(step))
        deadline = time.monotonic() + 30
        while self.service.boards[name].visible < step:
            assert time.monotonic() < deadline, f"step {step} of {name} is not shown"
            time.sleep(0.005)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()


StartServer = Callable[..., Running]


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(folder: Path, *streams: StreamDefinition, clock: SettableClock | None = None, **options: Any) -> Running:
    """A server that answers when this returns."""
    chosen = clock if clock is not None else SettableClock(START)
    limits, port = options.pop("limits", Limits(seconds=2.0)), options.pop("port", 0)
    ledger = options.pop("ledger", folder / "b.db")
    service = Service(ServerOptions(ledger, streams=streams, limits=limits, **options), chosen, chosen)
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        make_app(service), http="h11", log_level="error", timeout_graceful_shutdown=1, lifespan="on"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    return Running(f"http://127.0.0.1:{listener.getsockname()[1]}", service, chosen, server, thread)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    running: list[Running] = []

    def begin(*streams: StreamDefinition, **options: Any) -> Running:
        running.append(start(tmp_path, *streams, **options))
        return running[-1]

    yield begin
    for one in running:
        one.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests of a file that leave it as it was: a stream for tokens alone, and a public one."""
    one = start(tmp_path_factory.mktemp("server"), definition(), definition("open", public=True))
    yield one
    one.stop()
