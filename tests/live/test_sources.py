"""Sources: every row once, whatever crashes between reading and storing. No real Kafka broker is used: librdkafka's own
mock brokers speak the protocol; NATS and Redis are real servers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from veilstream.errors import BatchConflictError, InvalidInputError
from veilstream.live import LiveStream, open_stream
from veilstream.live.sources import Source, drain, open_source
from veilstream.live.sources import directory as directories

DEFINITION: dict[str, Any] = {
    "user": "id",
    "time": "t",
    "domain": {"place": ["a", "b"]},
    "start": 0,
    "every": 10,
    "epsilon": "1000000",
    "mechanism": "uniform",
    "window": 1,
    "clock": "manual",
}


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[LiveStream]:
    with open_stream(tmp_path / "b.db", "s", DEFINITION) as opened:
        yield opened


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": f"p{n}", "t": n % 10, "place": "ab"[n % 2]} for n in range(first, last)]


def check_once(stream: LiveStream, source: Source, put: Callable[[list[dict[str, Any]]], None]) -> None:
    """Rows come in three portions; a crash before the commit of the second one repeats it."""
    put(rows(0, 10))
    assert drain_some(stream, source) >= 1
    assert drain(stream, source) == 0
    put(rows(10, 20))
    refused = stream.spool.append
    stream.spool.append = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        drain_some(stream, source)
    stream.spool.append = refused  # type: ignore[method-assign]
    source.close()
    assert drain_some(stream, source) >= 1
    put(rows(20, 30))
    assert drain_some(stream, source) >= 1
    source.close()
    (release,) = stream.close_until(10)
    assert release.values.tolist() == [15, 15]


def drain_some(stream: LiveStream, source: Source) -> int:
    """What came, as soon as anything does: a broker may be slow to say what it has."""
    for _ in range(20):
        if (taken := drain(stream, source)) > 0:
            return taken
    return 0


def available(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        message = f"no {program} here: apt-get install {program}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def running(command: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_directory_that_grows(
    stream: LiveStream, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "incoming"
    folder.mkdir()
    source = open_source("directory", {"path": str(folder)})
    monkeypatch.setattr("veilstream.data.readers.BATCH_ROWS", 4)

    def put(content: list[dict[str, Any]]) -> None:
        frame, name = pl.DataFrame(content), f"{len(list(folder.iterdir())):03}.{suffix}"
        getattr(frame, f"write_{suffix}")(folder / f"_{name}")
        assert drain(stream, source) == 0
        (folder / f"_{name}").rename(folder / name)

    check_once(stream, source, put)
    assert set(stream.spool.positions(source.name).values()) == {directories.DONE}


def test_a_delta_table(stream: LiveStream, tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    place = str(tmp_path / "table")
    source = open_source("delta", {"path": place})

    def put(content: list[dict[str, Any]]) -> None:
        write_deltalake(place, pl.DataFrame(content).to_arrow(), mode="append")

    check_once(stream, source, put)
    DeltaTable(place).optimize.compact()
    drain(stream, source)
    assert stream.fates.rows == 30
    DeltaTable(place).delete("t = 3")
    with pytest.raises(InvalidInputError, match="deleted rows"):
        drain(stream, source)


def test_an_iceberg_table(stream: LiveStream, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = load_catalog("local", **properties)
    catalog.create_namespace("city")
    schema = pl.DataFrame(rows(0, 1)).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    table = catalog.create_table("city.visits", schema=schema)
    source = open_source("iceberg", {"catalog": "local", "table": "city.visits", "properties": properties})

    def put(content: list[dict[str, Any]]) -> None:
        table.append(pl.DataFrame(content).to_arrow(compat_level=pl.CompatLevel.oldest()))

    check_once(stream, source, put)
    table.delete("t = 3")
    with pytest.raises(InvalidInputError, match="deleted rows"):
        drain(stream, source)


def test_the_kafka_protocol(stream: LiveStream) -> None:
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "unused"})
    brokers = mock_brokers(producer)
    source = open_source("kafka", {"topic": "visits", "settings": {"bootstrap.servers": brokers}})

    def put(content: list[dict[str, Any]]) -> None:
        for row in content:
            producer.produce("visits", json.dumps(row))
        producer.produce("visits", b"not json")
        assert producer.flush(20) == 0

    check_once(stream, source, put)
    assert stream.fates.unreadable == 3


def mock_brokers(producer: Any) -> str:
    found = {f"{broker.host}:{broker.port}" for broker in producer.list_topics("visits", timeout=20).brokers.values()}
    return ",".join(sorted(found))


def test_nats_jetstream(stream: LiveStream, tmp_path: Path) -> None:
    import nats

    port = free_port()
    command = [available("nats-server"), "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(tmp_path / "js")]
    server = running(command, port)
    url = f"nats://127.0.0.1:{port}"

    async def publish(content: list[dict[str, Any]], create: bool) -> None:
        connection = await nats.connect(url)
        jetstream = connection.jetstream()
        if create:
            await jetstream.add_stream(name="CITY", subjects=["city.>"])
        for row in content:
            await jetstream.publish("city.visits", json.dumps(row).encode())
        await jetstream.publish("city.other", b"{}")
        await connection.close()

    first = [True]

    def put(content: list[dict[str, Any]]) -> None:
        asyncio.run(publish(content, first.pop() if first else False))

    try:
        check_once(stream, open_source("nats", {"url": url, "jetstream": "CITY", "subject": "city.visits"}), put)
    finally:
        server.terminate()
        server.wait()


def test_redis_streams(stream: LiveStream, tmp_path: Path) -> None:
    import redis

    port = free_port()
    command = [available("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    server = running(command, port)
    url = f"redis://127.0.0.1:{port}"

    def put(content: list[dict[str, Any]]) -> None:
        with redis.Redis.from_url(url) as client:
            for row in content:
                client.xadd("visits", row)

    try:
        check_once(stream, open_source("redis", {"url": url, "key": "visits"}), put)
    finally:
        server.terminate()
        server.wait()


def test_two_readers_of_one_source_are_noticed(stream: LiveStream, tmp_path: Path) -> None:
    folder = tmp_path / "incoming"
    folder.mkdir()
    pl.DataFrame(rows(0, 10)).write_csv(folder / "a.csv")
    source = open_source("directory", {"path": str(folder)})
    others = stream.spool.positions
    stream.spool.positions = lambda source: {}  # type: ignore[method-assign]
    drain(stream, source)
    with pytest.raises(BatchConflictError, match="another process"):
        drain(stream, source)
    stream.spool.positions = others  # type: ignore[method-assign]
    assert stream.close_until(10)[0].values.tolist() == [5, 5]


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(InvalidInputError, match="directory"):
        open_source("pigeon", {})
    with pytest.raises(InvalidInputError, match="topic"):
        open_source("kafka", {"tpoic": "x"})
