"""One server under load for a while: many streams that close every ten seconds, many events, many readers.

``VEILSTREAM_LOAD_SECONDS`` says for how long (600 by default, 3600 for the whole hour).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import polars as pl

from benchmarks.report import Table, machine, progress
from benchmarks.serve import encode
from benchmarks.serve_process import Served, served, stream_toml
from veilstream.server.bodies import ARROW
from veilstream.storage.ledger import Ledger

STREAMS, BINS, EVERY, DELAY = 100, 1_000, "10s", "8s"
EVENTS, READERS, ROWS = 50_000, 1_000, 2_500
SECONDS = float(os.environ.get("VEILSTREAM_LOAD_SECONDS", "600"))


@dataclass
class Seen:
    """What the clients saw."""

    batches: list[float] = field(default_factory=list)
    refused: int = 0
    events: list[int] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


def memory_mb(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


async def send(client: httpx.AsyncClient, seen: Seen, until: float) -> None:
    """Batches at a steady rate, stream after stream."""
    draw = np.random.default_rng(1)  # noqa: TID251
    bodies = [
        encode(pl.DataFrame({"id": draw.integers(0, 1 << 40, ROWS), "bin": draw.integers(0, BINS, ROWS)}), ARROW)
        for _ in range(20)
    ]
    gate = asyncio.Semaphore(8)

    async def one(number: int) -> None:
        async with gate:
            began = time.monotonic()
            path = f"/v1/streams/s{number % STREAMS}/events"
            answer = await client.post(path, content=bodies[number % 20], headers={"content-type": ARROW})
            if answer.status_code == 202:
                seen.batches.append(time.monotonic() - began)
            else:
                seen.refused += 1

    number, began = 0, time.monotonic()
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            group.create_task(one(number))
            number += 1
            await asyncio.sleep(max(0.0, began + number * ROWS / EVENTS - time.monotonic()))


async def follow(server: Served, stream: int, seen: Seen, until: float) -> None:
    """A reader that counts the releases it gets."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    writer.write(f"GET /v1/streams/s{stream}/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    got = 0
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - time.monotonic()):
            while line := await reader.readline():
                got += line.startswith(b"event: release")
    except TimeoutError:
        pass
    finally:
        seen.events.append(got)
        writer.close()


async def watch(server: Served, seen: Seen, until: float) -> None:
    while time.monotonic() < until:
        seen.memory.append(memory_mb(server.process))
        await asyncio.sleep(5)


async def load(server: Served, seen: Seen) -> str:
    until = time.monotonic() + SECONDS
    headers = {"authorization": f"Bearer {server.token}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client:
        async with asyncio.TaskGroup() as group:
            for number in range(READERS):
                group.create_task(follow(server, number % STREAMS, seen, until + 20))
            group.create_task(watch(server, seen, until))
            group.create_task(send(client, seen, until))
        return (await client.get("/metrics")).text


def delays(metrics: str) -> str:
    """The smallest limit of the histogram that holds 99 % of the delays of releases."""
    counts = {
        line.split('le="')[1].split('"')[0]: int(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("veilstream_release_delay_seconds_bucket")
    }
    whole = counts.get("+Inf", 0)
    return next((f"<= {limit} s" for limit, count in counts.items() if count >= 0.99 * whole), "none")


def run() -> list[Table]:
    streams = "".join(stream_toml(f"s{number}", EVERY, DELAY, BINS, public=True) for number in range(STREAMS))
    seen = Seen()
    with tempfile.TemporaryDirectory() as place:
        with served(Path(place), streams) as server:
            progress(f"{STREAMS} streams, {EVENTS:,} events/s, {READERS:,} readers for {SECONDS:g} s")
            metrics = asyncio.run(load(server, seen))
        with Ledger.open(Path(place) / "budget.db") as ledger:
            published = [release.t for spec in ledger.streams() for release in ledger.releases(spec.name)]
    late = np.sort(seen.batches)
    flat = (
        f"{np.median(seen.memory[len(seen.memory) // 3 : 2 * len(seen.memory) // 3]):.0f} to {seen.memory[-1]:.0f} MB"
    )
    lines = [
        ["batches accepted / refused", f"{len(late):,} / {seen.refused:,}"],
        ["events/s accepted", f"{len(late) * ROWS / SECONDS:,.0f}"],
        ["batch until durable, median / p99", f"{np.quantile(late, 0.5):.3f} s / {np.quantile(late, 0.99):.3f} s"],
        ["steps published", f"{len(published):,}"],
        ["release shown after its public moment, p99", delays(metrics)],
        ["releases that readers got, least / most of a reader", f"{min(seen.events)} / {max(seen.events)}"],
        ["memory of the server, middle third to end", flat],
    ]
    notes = (
        f"{STREAMS} streams of {BINS:,} bins closing every {EVERY}, {EVENTS:,} events/s in batches of {ROWS:,}, "
        f"{READERS:,} readers of server-sent events, {SECONDS:g} s, one process, the clients on the same machine. "
        f"{machine()}"
    )
    return [Table("A server under load", notes, ["what", "seen"], lines)]
