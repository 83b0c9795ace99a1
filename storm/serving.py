"""The service itself under kills: a client sends batches over HTTP, again and again until each is accepted."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any, Final

import uvicorn

from storm import reader
from storm.children import Notes, Strike, begin, end, poll
from storm.kills import in_child
from storm.outcome import Outcome
from storm.subjects import Place
from veilstream.live import StreamDefinition
from veilstream.live.clock import WallClock
from veilstream.live.spool import Spool
from veilstream.server.app import make_app
from veilstream.server.service import ServerOptions, Service
from veilstream.server.tokens import TokenStore

ROWS: Final = 50
SPEED: Final = 60
"""How many seconds of the service pass in one."""
START: Final = 1_767_225_600_000_000
"""2026-01-01 in microseconds. Definitions are read in children alone: reading them starts threads."""
STEP: Final = 10_000_000
BATCHES_READ: Final = 7
"""After so many batches the client reads what was released."""
LONGEST: Final = 0.5
DEFINITION: Final[dict[str, Any]] = {
    "name": "served",
    "user": "id",
    "domain": {"place": ["a"]},
    "start": "2026-01-01",
    "every": "10s",
    "delay": "2m",
    "epsilon": "1000000",
    "mechanism": "uniform",
    "window": 1,
    "public": True,
}


@dataclass(frozen=True, slots=True)
class FastClock:
    """A clock that goes ``SPEED`` times as fast as the machine's, whichever process reads it."""

    began: float

    def now(self) -> int:
        return START + int((time.time() - self.began) * SPEED * 1e6)

    def seconds_until(self, tick: int) -> float:
        return max(0.0, (tick - self.now()) / 1e6 / SPEED)

    def seconds_since(self, tick: int) -> float:
        return (self.now() - tick) / 1e6 / SPEED


class Client:
    """Sends batches in order; the next one only after the last was accepted."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token
        self.accepted = 0
        self.shown: dict[int, list[float]] = {}
        self.problems: list[str] = []

    def send(self) -> bool:
        """Send the next batch; whether it is known to be stored."""
        people = "\n".join(f"p{self.accepted * ROWS + n},a" for n in range(ROWS))
        headers = {"authorization": f"Bearer {self._token}", "content-type": "text/csv", "batch-id": str(self.accepted)}
        status, body = self._ask("POST", "/v1/streams/served/events", f"id,place\n{people}\n", headers)
        if status in (200, 202):
            self.accepted += 1
            return True
        if status not in (0, 408, 429, 503):
            self.problems.append(f"batch {self.accepted} was answered {status}: {body!r}")
        return False

    def read(self) -> None:
        """See what is shown, and compare it with what was shown before."""
        first = max(self.shown, default=-1)
        status, body = self._ask("GET", f"/v1/streams/served/releases?from={max(0, first)}")
        if status != 200:
            return
        page: dict[str, Any] = json.loads(body)
        for step, values in zip(page["step"], page["values"], strict=True):
            if self.shown.setdefault(step, values) != values:
                self.problems.append(f"step {step} was shown as {self.shown[step]}, now as {values}")

    def _ask(self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()


def kill_servers(place: Place, most: int, chance: random.Random) -> Outcome:
    """Kill ``most`` servers while a client sends, then let one serve until every row is published."""
    outcome = Outcome()
    errors, clock = place.folder / "errors", FastClock(time.time())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(listener.getsockname()[1], _token(place))
        while outcome.tried < most and len(client.problems) == 0:
            child = begin(lambda: _serve(place, listener, clock), errors, Strike(busy=LONGEST * chance.random()))
            while (status := poll(child)) is None:
                if not client.send():
                    time.sleep(0.005)
                elif client.accepted % BATCHES_READ == 0:
                    client.read()
            if status != -signal.SIGKILL:
                client.problems.append(f"a server ended with {status}: {Notes(errors).lines()[-1:]}")
            outcome.tried += 1
        child = begin(lambda: _serve(place, listener, clock), errors)
        _finish(client, clock)
        os.kill(child, signal.SIGKILL)
        end(child)
    outcome.problems += client.problems
    outcome.problems += in_child(lambda: _examine(place, client), place.folder)
    outcome.resumed = 0 if outcome.problems else outcome.tried
    return outcome


def _token(place: Place) -> str:
    """A token for the client; made in a process of its own, which leaves no connection here."""
    made = Notes(place.folder / "token")

    def make() -> None:
        with Spool(place.folder / "spool") as spool:
            made.add(TokenStore(spool, WallClock()).create("client", ("ingest",))[0])

    end(begin(make, place.folder / "errors"))
    return made.lines()[0]


def _serve(place: Place, listener: socket.socket, clock: FastClock) -> None:
    definition = StreamDefinition.from_json(DEFINITION)
    service = Service(ServerOptions(place.ledger, place.folder / "spool", streams=(definition,)), clock)
    config = uvicorn.Config(make_app(service), http="h11", log_level="critical", lifespan="on")
    asyncio.run(uvicorn.Server(config).serve([listener]))


def _finish(client: Client, clock: FastClock) -> None:
    """Send a last batch and wait until its step is shown."""
    deadline = time.monotonic() + 60
    while not client.send() and time.monotonic() < deadline:
        time.sleep(0.02)
    last = (clock.now() - START) // STEP
    while max(client.shown, default=-1) < last and time.monotonic() < deadline:
        time.sleep(0.2)
        client.read()


def _examine(place: Place, client: Client) -> list[str]:
    stream = reader.examine(reader.read(place.ledger))["served"]
    problems = list(stream.problems)
    counted = sum(sum(step.values) for step in stream.steps.values())
    if counted != client.accepted * ROWS:
        problems.append(f"{client.accepted * ROWS} rows were accepted, {counted:g} were counted")
    for step, values in client.shown.items():
        if step not in stream.steps or stream.steps[step].values != values:
            problems.append(f"step {step} was shown as {values} and is not so in the ledger")
    return problems
