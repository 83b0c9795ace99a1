"""Webhooks: every release once it is shown, in order, signed, again until it is taken; and traces without numbers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.server.conftest import StartServer, definition
from tests.server.test_ingest import CSV, body, frame, send
from veilstream.errors import InvalidInputError
from veilstream.server import webhooks


class Receiver(HTTPServer):
    """Remembers what it took; refuses as often as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.taken: list[tuple[int, str, bytes]] = []
        self.refusals = 0


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.server.refusals -= 1
        refused = self.server.refusals >= 0
        if not refused:
            step, signed = int(self.headers["x-veilstream-step"]), str(self.headers["x-veilstream-signature"])
            self.server.taken.append((step, signed, content))
        self.send_response(503 if refused else 200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_releases_are_sent_in_order_until_they_are_taken(
    start_server: StartServer, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(webhooks.SECRET, "key")
    monkeypatch.setattr(webhooks.deliver, "__defaults__", (0.01,))
    url = f"http://127.0.0.1:{receiver.server_port}/hook"
    server = start_server(definition(webhooks=[url]))
    receiver.refusals = 2
    server.until_visible("visits", 2)
    deadline = time.monotonic() + 20
    while len(receiver.taken) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [step for step, _, _ in receiver.taken] == [0, 1, 2]
    for step, signed, content in receiver.taken:
        assert json.loads(content)["step"] == [step]
        assert signed == webhooks.signature(content, "key")


def test_only_safe_addresses_are_taken() -> None:
    with pytest.raises(InvalidInputError, match="https"):
        definition(webhooks=["http://somewhere.example/hook"])


def test_traces_name_streams_and_no_numbers(start_server: StartServer) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    server = start_server(definition())
    with server.client("ingest") as client:
        assert send(client, body(frame(*range(777)), CSV)).status_code == 202
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert spans["veilstream.ingest"] == {"veilstream.stream": "visits", "veilstream.format": CSV}
    assert "777" not in str(spans)
