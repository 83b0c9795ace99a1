"""The storm's own server: what it is asked after one of its backends was killed is answered once it has recovered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from storm import reader
from storm.servers import Server
from veilstream.storage.ledger import Ledger


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def killed(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Backends whose connections were handed out dead: the first one after the list was cleared."""
    connect, killed = psycopg.connect, [0]

    def connect_then_kill(*given: Any, **named: Any) -> psycopg.Connection[Any]:
        connection = connect(*given, **named)
        if not killed:
            killed.append(connection.info.backend_pid)
            os.kill(killed[0], signal.SIGKILL)
        return connection

    monkeypatch.setattr(psycopg, "connect", connect_then_kill)
    return killed


def test_a_ledger_is_made_and_dropped_while_the_server_recovers(server: Server, killed: list[int]) -> None:
    killed.clear()
    ledger = server.new_ledger()
    assert len(killed) == 1
    with Ledger.open(ledger) as opened:
        assert opened.streams() == []
    killed.clear()
    server.drop(ledger)
    assert len(killed) == 1
    with pytest.raises(psycopg.errors.UndefinedTable):
        reader.read(ledger)


def test_a_second_backend_is_looked_for_while_the_server_recovers(server: Server, killed: list[int]) -> None:
    ledger = server.new_ledger()
    killed.clear()
    assert server.end_backends(ledger, hard=True) == 0
    assert len(killed) == 1


def test_tables_are_read_while_the_server_recovers(server: Server, killed: list[int]) -> None:
    ledger = server.new_ledger()
    with Ledger.open(ledger):
        pass
    killed.clear()
    assert reader.read(ledger)["streams"] == []
    assert len(killed) == 1
