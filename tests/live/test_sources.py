"""Sources: every row once, whatever crashes between reading and storing. No real Kafka broker is used: librdkafka's own
mock brokers speak the protocol; NATS and Redis are real servers."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.errors import BatchConflictError, InvalidInputError, UnreadableFileError
from veilstream.live import LiveStream, open_stream
from veilstream.live.clock import SettableClock, moment, tick_of
from veilstream.live.sources import Batch, Source, SourceState, drain, follow, open_source
from veilstream.live.sources import directory as directories
from veilstream.live.sources.base import LONG_AGO, batch_of_messages, rows_of_messages

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

    async def again() -> None:
        connection = await nats.connect(url)
        await connection.jetstream().delete_stream("CITY")
        await connection.close()
        await publish(rows(30, 40), create=True)

    try:
        source = open_source("nats", {"url": url, "jetstream": "CITY", "subject": "city.visits"})
        check_once(stream, source, put)
        # A stream that is made again under its name begins anew, and is read anew.
        asyncio.run(again())
        assert drain_some(stream, source) == 1
        assert stream.fates.rows == 40
        (batch,) = source.poll({}, stream.definition.columns)
        assert isinstance(batch.arrived, np.ndarray)
        assert (abs(batch.arrived - time.time_ns() // 1000) < HOUR).all()
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

    source = open_source("redis", {"url": url, "key": "visits"})
    try:
        check_once(stream, source, put)
        batch = next(source.poll({}, stream.definition.columns))
        assert isinstance(batch.arrived, np.ndarray)
        assert (abs(batch.arrived - time.time_ns() // 1000) < HOUR).all()
        with redis.Redis.from_url(url) as client:
            client.delete("visits")
            assert drain(stream, source) == 0
            client.xadd("visits", {"id": "p"}, id="5-1")
            with pytest.raises(UnreadableFileError, match="older ids"):
                drain(stream, source)
            client.delete("visits")
            client.set("visits", "text")
            with pytest.raises(UnreadableFileError, match="ResponseError"):
                drain(stream, source)
    finally:
        source.close()
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


# What arrives when, and what one part of a source does to the others.

HOUR = 3_600_000_000
START = tick_of("2024-01-01")
HOURLY: dict[str, Any] = {
    "user": "id",
    "time": "t",
    "domain": {"place": ["a", "b"]},
    "start": "2024-01-01",
    "every": "1h",
    "grace": "10m",
    "epsilon": "1000000",
    "mechanism": "uniform",
    "window": 1,
}
DEADLINE = START + HOUR + HOUR // 6


@dataclass
class Store:
    """A source whose messages carry the moment at which it stored them."""

    messages: list[tuple[bytes, int]]
    most: int = 1000
    name: str = "store:s"
    broken: bool = False

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        if self.broken:
            raise UnreadableFileError("it is away")
        at = int(known.get("0", 0))
        while at < len(self.messages):
            found = self.messages[at : at + self.most]
            at += len(found)
            yield batch_of_messages([m for m, _ in found], [when for _, when in found], columns, {"0": str(at)})

    def close(self) -> None:
        """Nothing is held open."""


def message(person: Any, at: int = START + 1) -> bytes:
    return json.dumps({"id": person, "t": moment(at), "place": "a"}).encode()


def wall(path: Path, clock: SettableClock, **changes: Any) -> LiveStream:
    return open_stream(path / "wall.db", "s", {**HOURLY, **changes}, clock=clock)


def test_rows_arrive_when_their_store_says_and_not_when_they_are_read(tmp_path: Path) -> None:
    clock = SettableClock(START)
    store = Store(
        [(message(1), START + 5), (message(2), DEADLINE - 1), (message(3), DEADLINE), (message(4), START - HOUR)]
    )
    with wall(tmp_path, clock) as stream:
        clock.tick = DEADLINE + 3_000_000
        state = SourceState()
        drain(stream, store, state)
        assert (state.read_until, state.up) == (clock.tick, True)
        clock.tick = START + 2 * HOUR
        # 1, 2 and 4: the third was stored too late, though all were read at once and long after the deadline.
        assert stream.close_due()[0].values.tolist() == [3, 0]
        assert stream.fates.late == 1


def test_one_persons_backlog_makes_nobody_late(tmp_path: Path) -> None:
    clock = SettableClock(START)
    others = [(message(n), START + 20) for n in range(50)]
    with wall(tmp_path, clock) as stream:
        store = Store([(message(99), START + 10)] * 500 + others, most=7)
        append = stream.spool.append

        def slow(*given: Any) -> Any:
            clock.tick += 60_000_000
            return append(*given)

        stream.spool.append = slow  # type: ignore[method-assign,assignment]
        drain(stream, store)
        assert clock.tick > DEADLINE
        assert stream.close_due()[0].values.tolist() == [51, 0]


def test_without_a_time_column_rows_belong_to_the_step_in_which_their_store_took_them(tmp_path: Path) -> None:
    clock = SettableClock(START)
    with wall(tmp_path, clock, time=None) as stream:
        moments = [START + 1, START + HOUR + 1, START + HOUR + 2, START - 1, 1 << 61]
        clock.tick = START + HOUR
        drain(stream, Store([(message(n), when) for n, when in enumerate(moments)]))
        clock.tick = START + 3 * HOUR
        assert [release.values.tolist() for release in stream.close_due()] == [[1, 0], [2, 0]]
        assert stream.fates.late == 2


def test_a_store_that_does_not_say_when_rows_arrived_is_refused_by_the_clock(tmp_path: Path) -> None:
    class Unknown(Store):
        def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
            yield batch_of_messages([message(1)], [None], columns, {"0": "1"})

    with wall(tmp_path, SettableClock(START)) as stream, pytest.raises(InvalidInputError, match="LogAppendTime"):
        drain(stream, Unknown([]))


def followed(stream: LiveStream, source: Source, state: SourceState, holds: Callable[[], bool]) -> None:
    """Follow the source until something holds."""
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(stream, source, stop, 0.01, state))
    thread.start()
    deadline = time.monotonic() + 30
    try:
        while not holds():
            assert thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        stop.set()
        thread.join()


def test_a_source_that_fails_is_seen_and_tried_again(stream: LiveStream, caplog: pytest.LogCaptureFixture) -> None:
    store, state = Store([(message(7), 0)], broken=True), SourceState()

    def recovers() -> bool:
        if state.error == "UnreadableFileError" and store.broken:
            assert (state.up, state.read_until) == (False, LONG_AGO)
            store.broken = False
        return state.up

    followed(stream, store, state, recovers)
    assert state.read_until > LONG_AGO
    assert "store:s: UnreadableFileError" in caplog.text


@pytest.mark.parametrize(
    "error", [BatchConflictError("x"), MemoryError(), RuntimeError("7"), pl.exceptions.PanicException("7")]
)
def test_no_error_ends_the_thread_of_a_source(stream: LiveStream, error: BaseException, monkeypatch: Any) -> None:
    errors = [error]
    positions = stream.spool.positions

    def fails(source: str) -> dict[str, str]:
        if errors:
            raise errors.pop()
        return positions(source)

    monkeypatch.setattr(stream.spool, "positions", fails)
    state = SourceState()
    followed(stream, Store([(b'{"id": 1, "t": 1, "place": "a"}', 0)]), state, lambda: state.up)
    assert (state.error, stream.close_until(10)[0].values.tolist()) == (type(error).__name__, [1, 0])


@pytest.mark.parametrize("hostile", [
    b'{"id": 99, "t": 1, "place": NaN}', b'{"id": 1e999, "t": 1, "place": "?"}', b'\xef\xbb\xbf{"id": 99, "t": 1}',
    b'{"id": "\\ud800", "t": 1, "place": "a"}', b"\xed\xa0\x80", b"", b"[]", b'{"id": {}, "t": 1, "place": "a"}', None,
    b'{"id": 99, "t": 99999999999999999999, "place": "a"}', b"[" * 100_000, b'{"id": 99, "t": "soon", "place": "a"}',
])  # fmt: skip
def test_one_message_is_its_own(stream: LiveStream, hostile: bytes | None) -> None:
    good: list[bytes | None] = [json.dumps({"id": n, "t": 1, "place": "a"}).encode() for n in range(50)]
    stream.add(rows_of_messages([*good[:20], hostile, *good[20:]], stream.definition.columns)[0])
    assert stream.close_until(10)[0].values.tolist() == [50, 0]


GOOD = b"id,t,place\n" + b"".join(b"p%d,1,a\n" % n for n in range(10))
PACKED = gzip.compress(GOOD)
BAD_FILES: dict[str, bytes] = {
    "damaged.csv.gz": PACKED[:20] + bytes([PACKED[20] ^ 0xFF]) + PACKED[21:],
    "cut.csv.gz": PACKED[: len(PACKED) // 2],
    "no.parquet": b"PAR1xxxx",
    "empty.csv": b"",
    "binary.csv": bytes(range(256)) * 20,
    "column.csv": b"id\n1\n",
    "twice.csv": b"id,t,place,place\n1,1,a,b\n",
    "quote.csv": GOOD + b'"p,1,a\np2,1,a\n',
}


def test_what_cannot_be_read_is_no_concern_of_other_files(
    stream: LiveStream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "incoming"
    folder.mkdir()
    for number, (name, content) in enumerate(BAD_FILES.items()):
        (folder / f"{number}-{name}").write_bytes(content)
    (folder / "folder.csv").mkdir()
    (folder / "link.csv").symlink_to("/nonexistent")
    os.mkfifo(folder / "pipe.csv")
    pl.DataFrame({"id": [[1]], "t": [1], "place": ["a"]}).write_parquet(folder / "list.parquet")
    (folder / "z.csv").write_bytes(GOOD)
    source, state = open_source("directory", {"path": str(folder)}), SourceState()
    drain(stream, source, state)
    assert (state.refused, state.up) == (len(BAD_FILES) + 1, True)
    for name in (*BAD_FILES, "list.parquet"):
        assert name in caplog.text
    assert drain(stream, source, state) == 0
    assert stream.close_until(10)[0].values.tolist() == [10, 0]


def test_a_folder_that_is_away_is_the_sources_failure(stream: LiveStream, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no such directory"):
        drain(stream, open_source("directory", {"path": str(tmp_path / "none")}))


def test_a_file_arrives_when_it_gets_its_name(tmp_path: Path) -> None:
    """Whoever copies a file may choose its time of modification, and nobody that of its change."""
    folder = tmp_path / "incoming"
    folder.mkdir()
    (folder / "_a.csv").write_bytes(GOOD)
    os.utime(folder / "_a.csv", (0, 0))
    (folder / "_a.csv").rename(folder / "a.csv")
    came = (folder / "a.csv").stat().st_ctime_ns // 1000
    (batch,) = open_source("directory", {"path": str(folder)}).poll({}, ["id"])
    assert batch.arrived == came
    assert abs(came - time.time_ns() // 1000) < HOUR


def test_bad_rows_of_a_source_are_dropped_whatever_the_stream_does_to_batches(tmp_path: Path) -> None:
    refusing = {**DEFINITION, "bad_rows": "refuse"}
    with open_stream(tmp_path / "r.db", "s", refusing) as stream:
        drain(stream, Store([(b'{"id": 1, "t": 1, "place": "a"}', 0), (b'{"id": 2, "t": 1, "place": "?"}', 0)]))
        assert stream.close_until(10)[0].values.tolist() == [1, 0]
