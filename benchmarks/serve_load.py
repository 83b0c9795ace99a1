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
from benchmarks.serve import encode, processor_seconds
from benchmarks.serve_process import Served, served, stream_toml
from veilstream.live.clock import Timetable, duration
from veilstream.live.spool import Spool
from veilstream.server.bodies import ARROW
from veilstream.storage.ledger import Ledger

STREAMS, BINS, EVERY, DELAY = 100, 1_000, "10s", "8s"
EVENTS, READERS, ROWS = 50_000, 1_000, 2_500
TIMETABLE = Timetable("2026-01-01", EVERY, delay=duration(DELAY))
SECONDS = float(os.environ.get("VEILSTREAM_LOAD_SECONDS", "600"))


@dataclass
class Seen:
    """What the clients saw."""

    batches: list[float] = field(default_factory=list)
    refused: int = 0
    events: list[int] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    """Seconds from the public moment of a release until a reader had it."""
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
            headers = {"content-type": ARROW, "batch-id": str(number)}
            answer = await client.post(path, content=bodies[number % 20], headers=headers)
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
    """A reader that counts the releases it gets, and how long after their public moment they come."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    writer.write(f"GET /v1/streams/s{stream}/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    got = 0
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - time.monotonic()):
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    got += 1
                    seen.delays.append(time.time() - shown(int(line[4:])))
    except TimeoutError:
        pass
    finally:
        seen.events.append(got)
        writer.close()


def shown(step: int) -> float:
    """When readers may see a step."""
    return TIMETABLE.shown(step) / 1e6


async def watch(server: Served, seen: Seen, until: float) -> None:
    while time.monotonic() < until:
        seen.memory.append(memory_mb(server.process))
        await asyncio.sleep(5)


async def load(server: Served, seen: Seen) -> None:
    until = time.monotonic() + SECONDS
    headers = {"authorization": f"Bearer {server.token}"}
    http = httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60)
    async with http as client, asyncio.TaskGroup() as group:
        for number in range(READERS):
            group.create_task(follow(server, number % STREAMS, seen, until + 20))
        group.create_task(watch(server, seen, until))
        group.create_task(send(client, seen, until))


def stored_rows(spool: Path) -> int:
    """How many rows the spool has taken of all streams."""
    with Spool(spool) as opened:
        return sum(fates.rows for name in opened.names() for fates in opened.fates(name).values())


def _quantiles(seconds: list[float]) -> str:
    middle, late = np.quantile(seconds, [0.5, 0.99])
    return f"{middle:.3f} s / {late:.3f} s"


def run() -> list[Table]:
    streams = "".join(stream_toml(f"s{number}", EVERY, DELAY, BINS, public=True) for number in range(STREAMS))
    seen = Seen()
    with tempfile.TemporaryDirectory() as place:
        with served(Path(place), streams) as server:
            progress(f"{STREAMS} streams, {EVENTS:,} events/s, {READERS:,} readers for {SECONDS:g} s")
            used = processor_seconds(server.process)
            asyncio.run(load(server, seen))
            used = processor_seconds(server.process) - used
        lost = len(seen.batches) - stored_rows(Path(place) / "budget.db.spool") // ROWS
        with Ledger.open(Path(place) / "budget.db") as ledger:
            steps = {spec.name: [release.t for release in ledger.releases(spec.name)] for spec in ledger.streams()}
    gaps = sum(mine != list(range(mine[0], mine[0] + len(mine))) for mine in steps.values() if mine)
    accepted = len(seen.batches)
    flat = (
        f"{np.median(seen.memory[len(seen.memory) // 3 : 2 * len(seen.memory) // 3]):.0f} to {seen.memory[-1]:.0f} MB"
    )
    lines = [
        ["batches accepted / refused", f"{accepted:,} / {seen.refused:,}"],
        ["events/s accepted", f"{accepted * ROWS / SECONDS:,.0f}"],
        ["batch until durable, median / p99", _quantiles(seen.batches)],
        ["accepted batches that were lost", f"{lost:,}"],
        ["steps published / streams with a gap", f"{sum(map(len, steps.values())):,} / {gaps}"],
        ["release at a reader after its public moment, median / p99", _quantiles(seen.delays)],
        ["releases that readers got, least / most of a reader", f"{min(seen.events)} / {max(seen.events)}"],
        ["memory of the server, middle third to end", flat],
        ["processor of the server, share of one core", f"{used / SECONDS:.2f}"],
    ]
    notes = (
        f"{STREAMS} streams of {BINS:,} bins closing every {EVERY}, {EVENTS:,} events/s in batches of {ROWS:,}, "
        f"{READERS:,} readers of server-sent events, {SECONDS:g} s, one process. The clients ran on "
        "the same machine, which also did other work "
        f"(load average {os.getloadavg()[2]:.1f} at the end). {machine()}"
    )
    return [Table("A server under load", notes, ["what", "seen"], lines)]
