"""The doors by which rows of live streams come in: bodies over HTTP, messages, entries, files of a folder, tables."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.isolation.doors import CELLS, csv_lines
from tests.isolation.harness import Case, Door, Seen
from tests.isolation.rows import (
    CALENDAR,
    DOMAIN,
    NAMES,
    ZONE,
    Row,
    columns,
    everybody,
    large,
    mixed,
    names,
    objects,
    small,
    tables,
)
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.errors import InvalidInputError, UnreadableFileError
from veilstream.live.closing import sealed_step
from veilstream.live.definition import StreamDefinition
from veilstream.live.rows import EncodedBatch, encode_batch, join
from veilstream.live.sources.base import Batch, batch_of_messages
from veilstream.live.sources.directory import DirectorySource
from veilstream.live.sources.redis import batch_of_entries
from veilstream.server.bodies import ARROW, CSV, NDJSON, PARQUET, read_body
from veilstream.trusted.opening import opened

STREAM: Final = StreamDefinition(
    "s", user="id", time="time", domain=DOMAIN.to_json(), start="2024-01-01", every="6h", zone=ZONE, epsilon="1",
    window=1, bins_per_user=2, counts_per_user=2, clock="manual",
)  # fmt: skip
KEY: Final = Key(bytes(32))


def _closed(batches: Sequence[EncodedBatch]) -> Seen:
    """The counts of all steps as closing makes them, of rows as the spool holds them."""
    spool: Any = SimpleNamespace(rows=lambda _, step: _rows(batches, step))
    stream: Any = SimpleNamespace(definition=STREAM, key=KEY)
    steps = [sealed_step(spool, stream, step) for step in range(CALENDAR.steps)]
    public = {"steps": [(str(step), step.origin) for step in steps]}
    return Seen(np.stack([np.asarray(opened(step)) for step in steps]), steps[0].l1, public)


def _rows(batches: Sequence[EncodedBatch], step: int) -> Rows:
    parts = [batch.parts[step] for batch in batches if step in batch.parts]
    return join([Rows(part.low, part.high, part.cell.copy(), part.values) for part in parts])


def _added(make: Callable[[Any], Any]) -> Callable[[Any, Path], Seen]:
    """What ``stream.add`` does of a table."""
    return lambda rows, _: _closed([encode_batch(make(rows), STREAM, KEY)])


def _sent(kind: str, make: Callable[[Any], bytes] = bytes, theirs: bytes | None = None) -> Callable[[Any, Path], Seen]:
    """What the server does of a body. One without a row may be refused: without ``theirs``, nobody else's is in it."""

    def run(given: Any, _: Path) -> Seen:
        body = make(given)
        try:
            frame, _unreadable = read_body(body, kind, STREAM.columns, 10_000, STREAM.number_columns)
        except InvalidInputError:
            if theirs is None or theirs in body:
                raise
            return _closed([])
        return _closed([encode_batch(frame, STREAM, KEY)])

    return run


def _batches(found: Sequence[Batch]) -> Seen:
    assert not any(batch.refused for batch in found), "a part that cannot be read"
    return _closed([encode_batch(batch.rows, STREAM, KEY) for batch in found])


def _stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def _file(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


# JSON: a line is bytes, and a hostile line may be any.

TOKENS: Final = (
    b"null", b"true", b"NaN", b"Infinity", b"-0", b"1", b"1.0", b"7", b"7e0", b"1e999", b'"x"', b'"1"', b'" "', b'""',
    b"[]", b'{"a":1}', b'"\\ud800"', b'"\\u0000"', b'"\xff"', b"9" * 400, b'"' + b"y" * 3000 + b'"', b'"soon"', b"{",
    b"",
    b'"2024-01-01"', b'"2024-01-01T00:00:00Z"', b"1704067200", b"1704067200.5", b'"9999-12-31"', b"0x1", b"[" * 2000,
)  # fmt: skip
IDS: Final = (
    b"99", b'"99"', b"99.0", b"9.9e1", b'" 99"', b"null", b"true", b"1e400", b"9007199254740993.0", b"[99]", b'"\xff"',
)  # fmt: skip
BROKEN: Final = (b"", b"hello", b"[1]", b"{", b"}", b"\xef\xbb\xbf", b"\xff\xfe{\x00", b"{}{}", b"\x00", b"[" * 9000)


def _json(row: Row) -> bytes:
    return json.dumps({name: row[name].isoformat() if name == "time" else row[name] for name in NAMES}).encode()


@st.composite
def messages(draw: st.DrawFn) -> Case[list[bytes]]:
    """Lines of JSON."""
    others = [_json(row) for row in draw(everybody(draw(st.sampled_from([small, large, names]))))]
    sound = [b"99", b'"2024-01-01T00:00:00Z"', b'"1"', b"7", b"20", b"1", b"true", b"3"]
    cells = [st.sampled_from(IDS), *(st.just(value) | st.sampled_from(TOKENS) for value in sound[1:])]
    extra = st.sampled_from([b"", b',"more":[1]', b',"more":NaN', b',"id":99', b","])
    row = st.tuples(st.tuples(*cells), extra).map(lambda drawn: _object(drawn[0], drawn[1]))
    mine = draw(st.lists(row | st.sampled_from(BROKEN), min_size=1, max_size=4)) * draw(st.sampled_from([1, 1, 20]))
    return Case(others, mixed(draw, others, mine), mine)


def _object(values: Sequence[bytes], extra: bytes) -> bytes:
    pairs = (f'"{name}":'.encode() + value for name, value in zip(NAMES, values, strict=True))
    return b"{" + b",".join(pairs) + extra + b"}"


def _messages(given: list[bytes], _: Path) -> Seen:
    return _batches([batch_of_messages(given, [None] * len(given), STREAM.columns, {})])


@st.composite
def entries(draw: st.DrawFn) -> Case[list[dict[bytes, bytes]]]:
    """Entries of a Redis stream."""
    people = draw(everybody(draw(st.sampled_from([small, large, names]))))
    others = [
        {name.encode(): (row[name].isoformat() if name == "time" else str(row[name])).encode() for name in NAMES}
        for row in people
    ]
    sound = {"id": b"99", "time": b"2024-01-01T00:00:00Z", "place": b"1", "zone": b"7", "age": b"20", "size": b"1"}
    cells = {name.encode(): st.just(value) | st.sampled_from(CELLS) for name, value in sound.items() if name != "id"}
    ids = st.sampled_from([b"99", b" 99", b"99.0", b"", b"\xff"])
    row = st.fixed_dictionaries({b"flag": st.just(b"true")}, optional={b"id": ids, **cells})
    mine = draw(st.lists(row, min_size=1, max_size=4))
    return Case(others, mixed(draw, others, mine), mine)


def _entries(given: list[dict[bytes, bytes]], _: Path) -> Seen:
    return _batches([batch_of_entries([(b"%d-0" % n, one) for n, one in enumerate(given)], STREAM.columns)])


def _folder(text: bytes, folder: Path) -> Seen:
    place = folder / uuid.uuid4().hex
    place.mkdir()
    (place / "a.csv").write_bytes(text)
    found = list(DirectorySource(str(place)).poll({}, STREAM.columns))
    # A file that is refused counts not at all: the harness allows that where the format leaves no other way.
    if any(batch.refused for batch in found):
        raise UnreadableFileError("the file was refused")
    return _batches(found)


LIVE_DOORS: Final[tuple[Door[Any], ...]] = (
    Door("add mapping", objects(), _added(columns)),
    Door("add arrow", tables(), _added(lambda table: table)),
    Door("add polars", tables(), _added(pl.from_arrow), 20),
    Door("add pandas", tables(), _added(lambda table: table.to_pandas(date_as_object=False)), 20),
    Door("http csv", csv_lines(), _sent(CSV, theirs=b"+01:00,")),
    Door("http ndjson", messages(), _sent(NDJSON, b"\n".join, b'{"id": '), 60),
    Door("http arrow", tables(), _sent(ARROW, _stream)),
    Door("http parquet", tables(), _sent(PARQUET, _file), 20),
    Door("messages", messages(), _messages, 60),
    Door("entries", entries(), _entries),
    Door("folder", csv_lines(), _folder, 10),
)
