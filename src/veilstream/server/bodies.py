"""Bodies of batches: four formats, two compressions, and limits that hold before memory is spent."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.arrow_frames import frame_from_arrow
from veilstream.data.json_lines import Numbers, read_json_lines
from veilstream.errors import InvalidInputError
from veilstream.server.text_bodies import NOTHING, check_columns, header, lines, read_csv

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"
FORMATS: Final = (NDJSON, CSV, ARROW, PARQUET)
ALIASES: Final = {"application/ndjson": NDJSON, "application/jsonl": NDJSON, "application/parquet": PARQUET}
ENCODINGS: Final = ("identity", "gzip")
RECORD_BATCH, DICTIONARY_BATCH = 3, 2
MOST_MADE: Final = 256 << 20
"""Bytes of values that a body in columns may stand for, whatever it holds: dictionaries repeat theirs."""
Reader: TypeAlias = Callable[[bytes, Sequence[str], int], tuple[pl.DataFrame, int]]


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


def is_gzip(header: str | None) -> bool:
    """Whether a Content-Encoding names gzip."""
    name = (header or "identity").strip().lower()
    if name not in ENCODINGS:
        raise UnknownFormatError(
            name="Content-Encoding", value=name[:40], limit=f"one of {', '.join(ENCODINGS)} is needed"
        )
    return name == "gzip"


def read_body(
    body: bytes, kind: str, columns: Sequence[str], most_rows: int, numbers: Numbers | None = None
) -> tuple[pl.DataFrame, int]:
    """The named columns of a body, ids first, and how many rows of a text are none.

    ``numbers`` names columns of text formats that may be read as numbers where all values are; the rows stay the same.
    What readers say may quote rows: it is replaced, never chained.
    """
    readers: dict[str, Reader] = {
        NDJSON: partial(_ndjson, numbers=numbers or {}),
        CSV: partial(_csv, numbers=numbers or {}),
        ARROW: _arrow,
        PARQUET: _parquet,
    }
    try:
        frame, unreadable = readers[kind](body, columns, most_rows)
    except (InvalidInputError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException):
        raise _unreadable(kind) from None
    if unreadable and not len(frame):
        raise _unreadable(kind)
    _check_rows(len(frame), most_rows)
    return frame, unreadable


def _unreadable(kind: str) -> InvalidInputError:
    return InvalidInputError(f"body: it cannot be read as {kind} to its end; check the format", outcome=NOTHING)


def _check_rows(rows: int, most_rows: int) -> None:
    if rows > most_rows:
        raise BodyTooLargeError(name="batch", limit=f"at most {most_rows} rows; send smaller batches")


def _require(names: Sequence[str], columns: Sequence[str]) -> None:
    for column in columns:
        if names.count(column) != 1:
            found = "is missing" if column not in names else "occurs more than once"
            raise InvalidInputError(f"column '{column}' {found}; rename the columns", outcome=NOTHING)


def _ndjson(body: bytes, columns: Sequence[str], most_rows: int, numbers: Numbers) -> tuple[pl.DataFrame, int]:
    _check_rows(lines(body), most_rows)
    return read_json_lines(body, columns, columns[0], numbers)


def _csv(body: bytes, columns: Sequence[str], most_rows: int, numbers: Numbers) -> tuple[pl.DataFrame, int]:
    _check_rows(lines(body) - 1, most_rows)
    names = header(body)
    _require(names, columns)
    return read_csv(body, columns, names, numbers)


def _arrow(body: bytes, columns: Sequence[str], most_rows: int) -> tuple[pl.DataFrame, int]:
    arrow = import_module("pyarrow")
    source = arrow.BufferReader(body)
    if body.startswith(b"ARROW1"):
        raise InvalidInputError("body: an Arrow file; send an Arrow stream (IPC streaming format)", outcome=NOTHING)
    _refuse_compressed(arrow.BufferReader(body))
    batches: list[Any] = []
    with arrow.ipc.open_stream(source) as reader:
        _require_flat(arrow, reader.schema, columns)
        for batch in reader:
            _check_rows(sum(b.num_rows for b in batches) + batch.num_rows, most_rows)
            batches.append(batch.select(list(columns)))
        schema = arrow.schema([reader.schema.field(name) for name in columns])
    return _checked_frame(arrow, arrow.Table.from_batches(batches, schema)), 0


def _require_flat(arrow: Any, schema: Any, columns: Sequence[str]) -> None:
    """Refuse a table without the columns, or with lists and the like in them, before anything of it is made."""
    check_columns(len(schema.names))
    _require(schema.names, columns)
    for name in columns:
        kind = schema.field(name).type
        inner = kind.value_type if arrow.types.is_dictionary(kind) else kind
        if (
            arrow.types.is_nested(inner)
            or arrow.types.is_run_end_encoded(inner)
            or arrow.types.is_dictionary(inner)
            or isinstance(inner, arrow.BaseExtensionType)
        ):
            raise InvalidInputError(f"column '{name}': its values are no texts, numbers or times", outcome=NOTHING)


def _checked_frame(arrow: Any, table: Any) -> pl.DataFrame:
    """The table as a frame, once it is known how much its values take."""
    made = 0
    for column in table.columns:
        column.validate()
        made += sum(_made_bytes(arrow, chunk) for chunk in column.chunks)
        if made > MOST_MADE:
            raise BodyTooLargeError(
                name="body", limit=f"its values take more than {MOST_MADE} bytes; send smaller batches"
            )
    table.validate(full=True)
    return frame_from_arrow(table)


def _made_bytes(arrow: Any, values: Any) -> int:
    """How many bytes the values of a column take once each stands for itself."""
    kind = values.type
    if arrow.types.is_dictionary(kind):
        each = arrow.array(_lengths(arrow, values.dictionary))
        return int(each.take(values.indices).sum().as_py() or 0)
    return int(_lengths(arrow, values).sum())


def _lengths(arrow: Any, values: Any) -> NDArray[np.int64]:
    """How many bytes each value takes."""
    kind, types = values.type, arrow.types
    if types.is_string_view(kind) or types.is_binary_view(kind):
        # A view is its length and where the text is; several may share one text.
        views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
        return views[values.offset : values.offset + len(values), 0].astype(np.int64)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        lengths = import_module("pyarrow.compute").binary_length(values).fill_null(0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
    return np.full(len(values), 16, np.int64)


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


def _parquet(body: bytes, columns: Sequence[str], most_rows: int) -> tuple[pl.DataFrame, int]:
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    with parquet.ParquetFile(arrow.BufferReader(body)) as file:
        check_columns(file.metadata.num_columns)
        _require_flat(arrow, file.schema_arrow, columns)
        _check_rows(file.metadata.num_rows, most_rows)
        wanted = [index for index in range(file.metadata.num_columns) if file.schema.column(index).path in columns]
        groups = (file.metadata.row_group(group) for group in range(file.metadata.num_row_groups))
        if sum(group.column(index).total_uncompressed_size for group in groups for index in wanted) > MOST_MADE:
            raise BodyTooLargeError(name="body", limit="its pages unpack to far more than it holds; send it plain")
        table = file.read(columns=list(columns), use_threads=False)
    return _checked_frame(arrow, table), 0
