"""Batches over HTTP into the durable spool, against bare decoding and fsync."""

from __future__ import annotations

import io
import os
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.report import Table, machine, progress
from benchmarks.serve_breakdown import COLUMNS as BREAKDOWN
from benchmarks.serve_breakdown import TOGETHER, breakdown, contract_rate
from benchmarks.serve_floor import bare_rate
from benchmarks.serve_process import Served, bare_server, served, stream_toml
from veilstream.data.bounding.choice import Rows
from veilstream.live import StreamDefinition
from veilstream.live.rows import pack
from veilstream.server.bodies import ARROW, CSV, NDJSON, PARQUET

ROWS, BATCHES, CLIENTS, BINS, ROUNDS = 50_000, 40, 4, 1_000, 5


def rows(seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)  # noqa: TID251
    return pl.DataFrame({"id": draw.integers(0, 1 << 40, ROWS), "bin": draw.integers(0, BINS, ROWS)})


def encode(frame: pl.DataFrame, kind: str) -> bytes:
    file = io.BytesIO()
    if kind == ARROW:
        table = frame.to_arrow()
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    elif kind == NDJSON:
        frame.write_ndjson(file)
    elif kind == CSV:
        frame.write_csv(file)
    else:
        frame.write_parquet(file)
    return file.getvalue()


def processor_seconds(process: int) -> float:
    """What a process has used so far, by the clock that the system keeps for it."""
    return time.clock_gettime((~process << 3) | 2)


def served_rate(bodies: list[bytes], kind: str, server: Served) -> tuple[float, float]:
    """Events a second from several clients at once until the last batch is durable; and a second of its processor."""
    headers = {"authorization": f"Bearer {server.token}", "content-type": kind}

    def client(mine: list[bytes]) -> None:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=120)
        for body in mine:
            connection.request("POST", "/v1/streams/visits/events", body, headers)
            answer = connection.getresponse()
            assert answer.status == 202, answer.read()
            answer.read()
        connection.close()

    began, used = time.perf_counter(), processor_seconds(server.process)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, [bodies[number::CLIENTS] for number in range(CLIENTS)]))
    events = ROWS * len(bodies)
    return events / (time.perf_counter() - began), events / (processor_seconds(server.process) - used)


def ingest_tables(folder: Path) -> list[Table]:
    """Each format, floors and server in turn: medians of several rounds; and the parts of a batch."""
    lines: list[list[str]] = []
    parts: list[list[str]] = []
    stored = len(pack(Rows(np.zeros(ROWS, np.int64), None, np.zeros(ROWS, np.int64))))
    stream = stream_toml("visits", "1h", "60s", BINS, public=False)
    definition = StreamDefinition.from_json({**tomllib.loads(stream)["streams"]["visits"], "name": "visits"})
    with served(folder, stream) as server, bare_server(folder / "bare", stored) as bare:
        for kind in (PARQUET, ARROW, CSV, NDJSON):
            progress(f"ingest of {kind}")
            bodies = [encode(rows(number), kind) for number in range(BATCHES)]
            for warmed in (server, bare):
                served_rate(bodies[:CLIENTS], kind, warmed)
            rounds = np.array(
                [
                    (
                        bare_rate(bodies, kind, folder, stored, ROWS * BATCHES),
                        contract_rate(bodies, kind, definition, folder, ROWS * BATCHES),
                        served_rate(bodies, kind, bare),
                        served_rate(bodies, kind, server),
                    )
                    for _ in range(ROUNDS)
                ]
            )
            floor, contract, http, ours = (rounds[:, place] for place in range(4))
            rates = [f"{np.median(each[:, 0]):,.0f}" for each in (ours, floor, contract, http)]
            ratios = [f"{np.median(ours / each, axis=0)[by]:.2f}" for each in (floor, contract, http) for by in (0, 1)]
            lines.append([kind, *rates, *ratios])
            over_http, whole = (1e3 * ROWS / np.median(each[:, 1]) for each in (http, ours))
            parts.append(breakdown(kind, bodies[0], definition, folder, stored, over_http, whole))
    return [_rates(lines, stored), _parts(parts)]


def _rates(lines: list[list[str]], stored: int) -> Table:
    title = f"Durable ingest over HTTP, batches of {ROWS:,} rows, {CLIENTS} clients at once"
    notes = (
        "Events a second from sending until 202, which means durable. *Bare* decodes the same bodies with the same "
        f"libraries, one after another, and after each appends as many bytes as the spool stores ({stored:,}) to a "
        "file and calls fsync; no network, no identities, no bins. Of an Arrow stream it decodes nothing: the rows "
        "are used where they lie. *Contract* does what a batch is promised besides: columns checked, people "
        "identified, values found among the public bins, rows encoded; no network and no database. *Bare HTTP* is "
        "bare behind a server of the same kind that does nothing else, with the same clients. Ratios are ours over "
        "theirs, by the clock and by what a second of the processor does, which hangs less on what else the machine "
        f"does. Medians of {ROUNDS} rounds, in turn. Load average {os.getloadavg()[1]:.1f} while it ran. {machine()}"
    )
    columns = ["format", "events/s", "bare", "contract", "bare HTTP"]
    for name in ("bare", "contract", "bare HTTP"):
        columns += [f"ratio to {name}", "by processor"]
    return Table(title, notes, columns, lines)


def _parts(lines: list[list[str]]) -> Table:
    notes = (
        f"Milliseconds of the processor for a batch of {ROWS:,} rows. *Whole* is the server's, the other parts are "
        f"measured alone: storing with {TOGETHER} batches to a commit, receiving as the bare HTTP server less bare. "
        f"What is left, threads that wait for each other among it, is the part before the last. {machine()}"
    )
    return Table("Where the processor time of a batch goes", notes, BREAKDOWN, lines)


def run() -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        return ingest_tables(Path(folder))
