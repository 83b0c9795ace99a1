"""A server with sources: what a file of settings takes, and steps that wait for rows that their store has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import START, StartServer, definition, until
from veilstream.errors import UnreadableFileError
from veilstream.live.sources import SOURCES, Batch
from veilstream.live.sources.base import batch_of_messages
from veilstream.server.config import read_config

HOUR = 3_600_000_000
SETTINGS: dict[str, dict[str, Any]] = {
    "directory": {"path": "incoming"},
    "delta": {"path": "table"},
    "iceberg": {"catalog": "local", "table": "a.b"},
    "kafka": {"topic": "visits", "settings": {"bootstrap.servers": "127.0.0.1:9"}},
    "nats": {"url": "nats://127.0.0.1:9", "jetstream": "CITY", "subject": "visits"},
    "redis": {"url": "redis://127.0.0.1:9", "key": "visits"},
}


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {toml(one)}' for name, one in value.items()) + "}"
    return f'"{value}"'


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_can_be_configured(tmp_path: Path, kind: str) -> None:
    own = "\n".join(f"{name} = {toml(value)}" for name, value in SETTINGS[kind].items())
    stream = 'user = "id"\nstart = "2024-01-01"\nevery = "1h"\nepsilon = 1\nwindow = 1\n'
    (tmp_path / "serve.toml").write_text(
        f'[streams.visits]\n{stream}[[sources]]\nstream = "visits"\nkind = "{kind}"\n{own}\n'
    )
    ((name, source),) = read_config(tmp_path / "serve.toml").sources
    assert (name, type(source)) == ("visits", SOURCES[kind])


@dataclass
class Store:
    """A store of messages that is away until it is back."""

    messages: list[tuple[bytes, int]] = field(default_factory=list[tuple[bytes, int]])
    away: bool = True
    name: str = "store:visits"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        if self.away:
            raise UnreadableFileError("it is away")
        found = self.messages[int(known.get("0", 0)) :]
        if found:
            after = {"0": str(len(self.messages))}
            yield batch_of_messages([data for data, _ in found], [when for _, when in found], columns, after)

    def close(self) -> None:
        """Nothing is held open."""


def test_steps_wait_until_their_sources_were_read(start_server: StartServer) -> None:
    """While a source is away its steps wait, those of other streams do not; what it had in time counts afterwards."""
    store = Store([(b'{"id": %d, "ts": "2024-01-01T00:10", "place": "a"}' % n, START + 1) for n in range(7)])
    server = start_server(definition(), definition("other"), sources=(("visits", store),))
    timetable = server.service.boards["visits"].definition.timetable
    server.clock.tick = timetable.shown(0) + HOUR // 2
    until(lambda: server.service.boards["other"].published >= 0)
    (worker,) = server.service.sources
    until(lambda: worker.error == "UnreadableFileError")
    time.sleep(0.2)
    assert server.service.boards["visits"].published < 0
    store.away = False
    server.until_visible("visits", 0)
    assert (worker.error, worker.state.up) == (None, True)
    with server.client("read") as client:
        assert client.get("/v1/streams/visits/releases").json()["values"][0] == [7.0, 0.0]
