"""What taking batches over HTTP costs at least: bare decoding and fsync, alone and behind a bare HTTP server."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from veilstream.server.bodies import ARROW, CSV, NDJSON, PARQUET

DECODE: Final[dict[str, Callable[[bytes], object]]] = {
    NDJSON: lambda body: pl.read_ndjson(io.BytesIO(body)),
    CSV: lambda body: pyarrow.csv.read_csv(pa.BufferReader(body), pyarrow.csv.ReadOptions(use_threads=False)),
    ARROW: lambda body: pa.ipc.open_stream(pa.BufferReader(body)).read_all(),
    PARQUET: lambda body: pyarrow.parquet.read_table(pa.BufferReader(body), use_threads=False),
}
DECODERS: Final = 2


class Floor:
    """Decodes a body and makes as many bytes durable as the spool stores for it."""

    def __init__(self, path: Path, stored: int) -> None:
        self._file, self._stored = path.open("wb"), bytes(stored)

    def take(self, body: bytes, kind: str) -> None:
        DECODE[kind](body)
        self._file.write(self._stored)
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def bare_rate(bodies: list[bytes], kind: str, folder: Path, stored: int, events: int) -> tuple[float, float]:
    """Events a second of one body after another, and events in a second of the processor."""
    floor = Floor(folder / "floor", stored)
    began, used = time.perf_counter(), time.process_time()
    for body in bodies:
        floor.take(body, kind)
    rates = events / (time.perf_counter() - began), events / (time.process_time() - used)
    floor.close()
    return rates


def application(floor: Floor) -> Any:
    """A server that does nothing but take bodies."""
    pool = ThreadPoolExecutor(DECODERS)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if scope["method"] == "POST":
            kind = dict(scope["headers"])[b"content-type"].decode()
            await asyncio.get_running_loop().run_in_executor(pool, floor.take, bytes(body), kind)
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    return app


if __name__ == "__main__":
    import uvicorn

    port, path, stored = sys.argv[1:]
    app = application(Floor(Path(path), int(stored)))
    uvicorn.run(app, port=int(port), http="h11", loop="asyncio", log_level="error", access_log=False)
