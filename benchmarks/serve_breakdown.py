"""Where the processor time of a batch goes between the socket and the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.serve_floor import DECODE, Floor
from veilstream.data.bounding.keyed import Key
from veilstream.live.clock import WallClock
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import EncodedBatch, encode_batch, pack
from veilstream.live.spool import Spool
from veilstream.live.spool_writing import Arrival
from veilstream.server.bodies import read_body
from veilstream.server.intake import Limits

REPEATS: Final = 20
TOGETHER: Final = 4
COLUMNS: Final = [
    "format",
    "decode, bare",
    "decode, checked",
    "ids and bins",
    "bytes to a file, fsync",
    "SQLite beside that",
    "receiving over HTTP",
    "rights, limits, answer, threads",
    "whole",
]


class Contract:
    """The least that keeps the contract of a batch: columns checked, people identified, bins found, rows durable."""

    def __init__(self, definition: StreamDefinition, path: Path) -> None:
        self.definition, self.key = definition, Key(os.urandom(32))
        self._file = path.open("wb")

    def encode(self, body: bytes, kind: str) -> EncodedBatch:
        frame, _ = read_body(body, kind, self.definition.columns, Limits().most_rows, self.definition.number_columns)
        return encode_batch(frame, self.definition, self.key)

    def take(self, body: bytes, kind: str) -> None:
        for rows in self.encode(body, kind).parts.values():
            self._file.write(pack(rows))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def contract_rate(
    bodies: list[bytes], kind: str, definition: StreamDefinition, folder: Path, events: int
) -> tuple[float, float]:
    """Events a second of one body after another, and events in a second of the processor."""
    floor = Contract(definition, folder / "contract")
    began, used = time.perf_counter(), time.process_time()
    for body in bodies:
        floor.take(body, kind)
    rates = events / (time.perf_counter() - began), events / (time.process_time() - used)
    floor.close()
    return rates


def milliseconds(call: Callable[[], Any]) -> float:
    """Processor time of a call in milliseconds: the median of several."""
    spans: list[float] = []
    for _ in range(REPEATS):
        began = time.process_time()
        call()
        spans.append(time.process_time() - began)
    return 1e3 * float(np.median(spans))


def breakdown(
    kind: str, body: bytes, definition: StreamDefinition, folder: Path, stored: int, over_http: float, whole: float
) -> list[str]:
    """The parts of ``whole`` milliseconds a batch; ``over_http`` is what the bare server takes."""
    columns, numbers, most = definition.columns, definition.number_columns, Limits().most_rows
    contract, floor = Contract(definition, folder / "contract"), Floor(folder / "floor", stored)
    frame, _ = read_body(body, kind, columns, most, numbers)
    bare = milliseconds(lambda: DECODE[kind](body))
    durable = milliseconds(lambda: floor.take(body, kind)) - bare
    read = milliseconds(lambda: read_body(body, kind, columns, most, numbers))
    encode = milliseconds(lambda: encode_batch(frame, definition, contract.key))
    stored_ms = _stored(definition, folder, contract.encode(body, kind)) - durable
    received = over_http - bare - durable
    rest = whole - read - encode - durable - stored_ms - received
    contract.close()
    floor.close()
    return [kind, *(f"{part:.2f}" for part in (bare, read, encode, durable, stored_ms, received, rest, whole))]


def _stored(definition: StreamDefinition, folder: Path, encoded: EncodedBatch) -> float:
    """What storing a batch in the spool takes where several share a commit."""
    clock = WallClock()
    with Spool(folder / "breakdown.spool") as spool:
        stream = spool.define(definition, max(0, definition.timetable.step_at(clock.now())))
        return (
            milliseconds(
                lambda: spool.append([Arrival(stream, encoded, clock.now()) for _ in range(TOGETHER)], clock.now())
            )
            / TOGETHER
        )
