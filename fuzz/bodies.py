"""``python -m fuzz.bodies --bodies 1000000``: damaged bodies of every format, decoded as the server decodes them.

A body is taken or refused, in time and within the memory of a child; children may die of it, this process may not.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

from veilstream.confined.parent import GRACE, NURSERY
from veilstream.data.bounding.keyed import Key
from veilstream.errors import VeilstreamError
from veilstream.live.definition import StreamDefinition
from veilstream.live.spooled import SpooledStream
from veilstream.server.bodies import ARROW, CSV, NDJSON, PARQUET
from veilstream.server.decoding import ALLOWANCE, Body, Decoder
from veilstream.server.intake import Limits

pa: Any = import_module("pyarrow")
pq: Any = import_module("pyarrow.parquet")
ROWS: Final = 40
TOGETHER: Final = 48
BASE: Final = 512 << 20
"""What a child takes before it decodes anything, at most: libraries, most of them shared."""
NUMBERS: Final = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x7f\xff\xff\xff")
TEXTS: Final = (b'"', b"\n", b",", b"{", b"[" * 200, b"1e999", b"NaN", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"9" * 400)
STREAM: Final = StreamDefinition.from_json(
    {
        "name": "v",
        "user": "id",
        "time": "ts",
        "start": "2026-01-01",
        "every": "1h",
        "epsilon": "1",
        "window": 5,
        "domain": {"place": ["a", "b"], "lat": {"low": 0, "high": 90, "cells": 9}},
    }
)


@dataclass(slots=True)
class Found:
    """What became of many bodies."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    faults: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    memory: int = 0
    """The most that a child used, in bytes."""
    slowest: float = 0.0


def _tables() -> list[Any]:
    base: dict[str, Any] = {
        "id": pa.array(range(ROWS)),
        "ts": pa.array(["2026-11-18T10:00:00"] * ROWS),
        "place": pa.array(["a", "b"] * (ROWS // 2)),
        "lat": pa.array([10.0] * ROWS),
    }
    changed: list[dict[str, Any]] = [
        {},
        {"ts": pa.array([1795000000] * ROWS, pa.timestamp("s"))},
        {"ts": pa.array([1795000000] * ROWS, pa.timestamp("us", "Europe/Paris"))},
        {"place": base["place"].dictionary_encode()},
        {"place": base["place"].cast(pa.string_view())},
        {"place": pa.array(["a", None] * (ROWS // 2), pa.large_string())},
        {"place": pa.array([["a"], None] * (ROWS // 2))},
        {"place": pa.array([{"a": 1}] * ROWS)},
        {"place": pa.RunEndEncodedArray.from_arrays(pa.array([ROWS], pa.int32()), pa.array(["a"]))},
        {"id": pa.array([b"x"] * ROWS, pa.binary())},
        {"id": pa.array([1] * ROWS, pa.decimal128(38, 10))},
        {"lat": pa.array([1] * ROWS, pa.decimal256(76, 0)), "x": pa.array([[1, 2], None] * (ROWS // 2))},
        {"lat": pa.nulls(ROWS)},
        {"lat": pa.array([True] * ROWS), "ts": pa.array([5] * ROWS, pa.date32())},
        {"lat": pa.array([1] * ROWS, pa.duration("us")), "ts": pa.array([5] * ROWS, pa.time32("s"))},
        {"ts": pa.array([1 << 62, -1 << 62] * (ROWS // 2), pa.timestamp("us"))},
    ]
    return [pa.table({**base, **one}) for one in changed]


def _text(table: Any, kind: str) -> bytes:
    rows = table.select(["id", "ts", "place", "lat"]).to_pylist()
    if kind == CSV:
        return b"id,ts,place,lat\n" + b"".join(b"%d,%s,%s,%s\n" % _fields(row) for row in rows)
    return b"".join(b'{"id":%d,"ts":"%s","place":"%s","lat":%s}\n' % _fields(row) for row in rows)


def _fields(row: dict[str, Any]) -> tuple[int, bytes, bytes, bytes]:
    return row["id"], str(row["ts"]).encode(), row["place"].encode(), str(row["lat"]).encode()


@cache
def samples() -> list[tuple[str, bytes]]:
    """Real bodies of every format, in many spellings."""
    found = [(kind, _text(_tables()[0], kind)) for kind in (CSV, NDJSON) for _ in range(20)]
    spellings: list[dict[str, Any]] = [
        {"compression": "none"},
        {"compression": "zstd"},
        {"compression": "snappy", "use_dictionary": False},
        {"compression": "brotli", "data_page_size": 64},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"use_byte_stream_split": ["lat"], "use_dictionary": False},
        {"write_page_index": True, "write_page_checksum": True},
    ]
    for table in _tables():
        file = io.BytesIO()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, 17)
        found += [(ARROW, file.getvalue())] * 3
        for spelling in spellings:
            file = io.BytesIO()
            try:
                pq.write_table(table, file, **spelling)
            except (pa.ArrowException, OSError):
                # Not every type has every spelling.
                continue
            found.append((PARQUET, file.getvalue()))
    return found


def damaged(content: bytes, rng: Random) -> bytes:
    """A body with a few bits, bytes or pieces changed."""
    body = bytearray(content)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4, 12])):
        if not body:
            break
        place = rng.randrange(len(body))
        match rng.randrange(8):
            case 0 | 1 | 2:
                body[place] ^= 1 << rng.randrange(8)
            case 3:
                body[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 4:
                body[place : place + 4] = rng.choice(NUMBERS)
            case 5:
                body[place:place] = rng.choice(TEXTS)
            case 6:
                del body[place : place + rng.randint(1, 16)]
            case _:
                other = rng.randrange(len(body))
                body[place:place] = body[other : other + rng.randint(1, 60)]
    return bytes(body)


def body_of(seed: int, number: int) -> Body:
    """The same body for the same numbers."""
    rng = Random(f"{seed}-{number}")
    kind, content = rng.choice(samples())
    packed = rng.random() < 0.25
    if packed:
        parts = [content] if rng.random() < 0.5 else [content[: len(content) // 2], content[len(content) // 2 :]]
        whole = rng.random() < 0.5
        content = b"".join(gzip.compress(part if whole else damaged(part, rng), 1, mtime=0) for part in parts)
        content = damaged(content, rng) if whole else content
    else:
        content = damaged(content, rng)
    return Body(content, kind, packed, rng.random() < 0.2)


def try_bodies(seed: int, first: int, last: int) -> Found:
    """Decode the bodies ``first`` to ``last - 1``."""
    found = Found()
    limits = Limits()
    decoder = Decoder(limits.most_unpacked, limits.most_rows)
    stream = SpooledStream(
        1, STREAM, Key(bytes(32)), **dict.fromkeys(("first", "frozen", "done", "frozen_at", "manual_now"), 0)
    )
    under_way: list[tuple[int, str, float, Future[Any]]] = []

    def collect() -> None:
        number, kind, began, future = under_way.pop(0)
        try:
            future.result(ALLOWANCE.seconds + 2 * GRACE)
            outcome = "taken"
        except VeilstreamError as error:
            outcome = type(error).__name__
        except BaseException as error:
            outcome = f"FAULT {type(error).__name__}"
            found.faults.append((number, outcome))
        found.outcomes[f"{kind.rpartition('.')[2]} {outcome}"] += 1
        found.slowest = max(found.slowest, time.monotonic() - began)

    with _watched(found):
        for number in range(first, last):
            body = body_of(seed, number)
            under_way.append((number, body.kind, time.monotonic(), decoder.submit(str(number % 3), stream, body)))
            if len(under_way) >= TOGETHER:
                collect()
        while under_way:
            collect()
    if found.memory > ALLOWANCE.memory + BASE:
        found.faults.append((first, f"a child used {found.memory >> 20} MiB"))
    return found


@contextmanager
def _watched(found: Found) -> Generator[None]:
    """Note the most memory that a child uses, where the system tells."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for child in _children():
                try:
                    lines = Path(f"/proc/{child}/status").read_text(encoding="ascii").splitlines()
                except OSError:
                    continue
                peak = next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)
                found.memory = max(found.memory, peak)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _children() -> list[str]:
    number = NURSERY.number
    try:
        return Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
    except OSError:
        return []


def main() -> int:
    """The exit code is 1 if any body did harm."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.bodies", description=__doc__)
    parser.add_argument("--bodies", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="another seed, other bodies")
    given = parser.parse_args()
    began = time.monotonic()
    found = try_bodies(given.seed, 0, given.bodies)
    total = found.outcomes.total()
    sys.stdout.write(f"{total:,} bodies, {len(found.faults)} faults, {time.monotonic() - began:,.0f} s\n")
    sys.stdout.write(f"a child used at most {found.memory >> 20} MiB, the slowest took {found.slowest:.1f} s\n")
    for outcome, count in sorted(found.outcomes.items()):
        sys.stdout.write(f"  {outcome:<40}{count:>10,}\n")
    for number, fault in found.faults[:20]:
        sys.stdout.write(f"body {number}: {fault}\n")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
