"""Bodies of batches: four formats, two compressions, and limits that hold before memory is spent."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

import polars as pl

from veilstream.data.arrow_frames import frame_from_arrow
from veilstream.errors import InvalidInputError
from veilstream.server.text_bodies import Numbers, header, lines, read_csv, read_ndjson

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
FORMATS: Final = (NDJSON, CSV, ARROW, PARQUET)
ALIASES: Final = {"application/ndjson": NDJSON, "application/jsonl": NDJSON, "application/parquet": PARQUET}
ENCODINGS: Final = ("identity", "gzip")
NOTHING: Final = "nothing was stored"
RECORD_BATCH, DICTIONARY_BATCH = 3, 2
CHUNK: Final = 1 << 20
Reader: TypeAlias = Callable[[bytes, Sequence[str], int], pl.DataFrame]


class BodyTooLargeError(InvalidInputError):
    """A body, or what it unpacks to, beyond the limit."""

    outcome = NOTHING


class UnknownFormatError(InvalidInputError):
    """A media type or an encoding that is not taken."""

    outcome = NOTHING


def media_type(header: str | None) -> str:
    """The format that a Content-Type names.

    >>> media_type("text/csv; charset=utf-8")
    'text/csv'
    """
    name = (header or "").partition(";")[0].strip().lower()
    found = ALIASES.get(name, name)
    if found not in FORMATS:
        raise UnknownFormatError(name="Content-Type", value=name[:40], limit=f"one of {', '.join(FORMATS)} is needed")
    return found


class Unpacker:
    """Takes a body in pieces as they come, unpacks gzip, and stops at the limits."""

    def __init__(self, encoding: str | None, most_bytes: int, most_unpacked: int) -> None:
        name = (encoding or "identity").strip().lower()
        if name not in ENCODINGS:
            raise UnknownFormatError(
                name="Content-Encoding", value=name[:40], limit=f"one of {', '.join(ENCODINGS)} is needed"
            )
        self._gzip = zlib.decompressobj(31) if name == "gzip" else None
        self._most_bytes, self._most_unpacked = most_bytes, most_unpacked
        self._came = self._unpacked = 0
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        self._came += len(piece)
        if self._came > self._most_bytes:
            raise BodyTooLargeError(name="body", limit=f"at most {self._most_bytes} bytes; send smaller batches")
        if self._gzip is None:
            self._pieces.append(piece)
            return
        while piece:
            try:
                # One byte more than allowed, so that a bomb is seen and never unpacked.
                room = self._most_unpacked - self._unpacked + 1
                self._pieces.append(self._gzip.decompress(piece, min(room, CHUNK)))
            except zlib.error:
                raise InvalidInputError("body: not readable as gzip; send it again", outcome=NOTHING) from None
            self._unpacked += len(self._pieces[-1])
            if self._unpacked > self._most_unpacked:
                raise BodyTooLargeError(
                    name="body", limit=f"it unpacks to more than {self._most_unpacked} bytes; send smaller batches"
                )
            piece = self._gzip.unconsumed_tail

    def finish(self) -> bytes:
        if self._gzip is not None and not self._gzip.eof:
            raise InvalidInputError("body: its gzip data break off; send it again", outcome=NOTHING)
        return b"".join(self._pieces)


def read_body(
    body: bytes, kind: str, columns: Sequence[str], most_rows: int, numbers: Numbers | None = None
) -> pl.DataFrame:
    """The named columns of a body. What readers say may quote rows: it is replaced, never chained.

    ``numbers`` names columns of text formats that may be read as numbers where all values are; the rows stay the same.
    """
    arrow: Any = import_module("pyarrow")
    readers: dict[str, Reader] = {
        NDJSON: partial(_ndjson, numbers=numbers or {}),
        CSV: partial(_csv, numbers=numbers or {}),
        ARROW: _arrow,
        PARQUET: _parquet,
    }
    try:
        frame = readers[kind](body, columns, most_rows)
    except InvalidInputError:
        raise
    except (
        arrow.ArrowException,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        ValueError,
        TypeError,
        OSError,
        OverflowError,
        MemoryError,
        struct.error,
    ):
        raise InvalidInputError(
            f"body: it cannot be read as {kind} to its end; check the format", outcome=NOTHING
        ) from None
    _check_rows(len(frame), most_rows)
    return frame


def _check_rows(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        raise BodyTooLargeError(name="batch", limit=f"at most {most_rows} rows; send smaller batches")


def _require(names: Sequence[str], columns: Sequence[str]) -> None:
    for column in columns:
        if names.count(column) != 1:
            found = "is missing" if column not in names else "occurs more than once"
            raise InvalidInputError(f"column '{column}' {found}; rename the columns", outcome=NOTHING)


def _ndjson(body: bytes, columns: Sequence[str], most_rows: int, numbers: Numbers) -> pl.DataFrame:
    _check_rows(lines(body), most_rows)
    return read_ndjson(body, columns, numbers)


def _csv(body: bytes, columns: Sequence[str], most_rows: int, numbers: Numbers) -> pl.DataFrame:
    _check_rows(lines(body) - 1, most_rows)
    names = header(body)
    _require(names, columns)
    return read_csv(body, columns, names, numbers)


def _arrow(body: bytes, columns: Sequence[str], most_rows: int) -> pl.DataFrame:
    arrow = import_module("pyarrow")
    source = arrow.BufferReader(body)
    if body.startswith(b"ARROW1"):
        raise InvalidInputError("body: an Arrow file; send an Arrow stream (IPC streaming format)", outcome=NOTHING)
    _refuse_compressed(arrow.BufferReader(body))
    batches: list[Any] = []
    with arrow.ipc.open_stream(source) as reader:
        _require(reader.schema.names, columns)
        for batch in reader:
            _check_rows(sum(b.num_rows for b in batches) + batch.num_rows, most_rows)
            batch.validate(full=True)
            batches.append(batch)
        return frame_from_arrow(arrow.Table.from_batches(batches, reader.schema).select(list(columns)))


def _refuse_compressed(source: Any) -> None:
    """Buffers compressed inside the stream could unpack to any size before anybody can count."""
    ipc = import_module("pyarrow").ipc
    while True:
        try:
            message = ipc.read_message(source)
        except EOFError:
            return
        header = _Table.root(message.metadata.to_pybytes())
        kind = header.number(1)
        if kind in (RECORD_BATCH, DICTIONARY_BATCH):
            batch = header.table(2)
            batch = batch.table(1) if batch is not None and kind == DICTIONARY_BATCH else batch
            if batch is not None and batch.table(3) is not None:
                raise InvalidInputError(
                    "body: Arrow buffers are compressed; send them plain, or the body with Content-Encoding: gzip",
                    outcome=NOTHING,
                )


class _Table:
    """As much of the FlatBuffers encoding as it takes to see whether an Arrow message is compressed."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._place = data, place
        self._fields = place - struct.unpack_from("<i", data, place)[0]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _offset(self, slot: int) -> int:
        size = struct.unpack_from("<H", self._data, self._fields)[0]
        entry = 4 + 2 * slot
        return 0 if entry >= size else struct.unpack_from("<H", self._data, self._fields + entry)[0]

    def number(self, slot: int) -> int:
        offset = self._offset(slot)
        return self._data[self._place + offset] if offset else 0

    def table(self, slot: int) -> _Table | None:
        offset = self._offset(slot)
        if not offset:
            return None
        place = self._place + offset
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])


def _parquet(body: bytes, columns: Sequence[str], most_rows: int) -> pl.DataFrame:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    with parquet.ParquetFile(arrow.BufferReader(body)) as file:
        _require(file.schema_arrow.names, columns)
        _check_rows(file.metadata.num_rows, most_rows)
        unpacked = sum(
            file.metadata.row_group(group).column(index).total_uncompressed_size
            for group in range(file.metadata.num_row_groups)
            for index in range(file.metadata.num_columns)
        )
        if unpacked > max(CHUNK, 64 * len(body)) * 16:
            raise BodyTooLargeError(name="body", limit="its pages unpack to far more than it holds; send it plain")
        return frame_from_arrow(file.read(columns=list(columns), use_threads=False))
