"""CSV text of any delimiter and encoding, from a file or a pipe, in one pass.

Errors of the underlying readers may quote rows, which are private: they are replaced, never chained.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, Final, cast

import numpy as np
import polars as pl

from veilstream.data.encoding import Dropped
from veilstream.data.read_options import DELIMITERS, ReadOptions
from veilstream.errors import InvalidInputError, UnreadableFileError

BLOCK_BYTES: Final = 16 << 20
HEADER_BYTES: Final = 1 << 20
"""A header is looked for in so many bytes."""
QUOTE: Final = b'"'
GZIP_MAGIC: Final = b"\x1f\x8b"
MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def require_columns(
    present: Sequence[object], columns: Sequence[str], where: str, *, header_in_row: bool = False
) -> None:
    """Refuse a source in which a column is missing or not alone; a ``header_in_row`` may be a row of data."""
    names = [str(name) for name in present]
    for column in columns:
        if names.count(column) != 1:
            found = "is missing" if column not in names else f"occurs {names.count(column)} times"
            listed, next_step = f"the columns are {', '.join(names)}", "choose one of them, or give --delimiter"
            if header_in_row:
                # It may be a row of data, which is private.
                next_step = (
                    "give the name of a column of the file; if its first row holds no names write them there, and if "
                    "they are not separated give --delimiter"
                )
                raise InvalidInputError(
                    f"{where}: column '{column}' {found} in the first row",
                    name=column,
                    next_step=next_step,
                    operator_note=listed,
                )
            raise InvalidInputError(f"{where}: column '{column}' {found}, {listed}", name=column, next_step=next_step)


@contextmanager
def replaced_errors(where: str, rejected: Sequence[int | None] = ()) -> Generator[None]:
    """Replace whatever a reader says by where it stopped."""
    arrow_error: type[Exception] = import_module("pyarrow").ArrowException
    try:
        yield
    except UnicodeDecodeError:
        raise _wrong_encoding(where) from None
    except (arrow_error, OSError, EOFError, csv.Error, zlib.error):
        number = rejected[0] if rejected else None
        problem, note = f"{where}: it cannot be read", None
        if number is not None:
            problem, note = f"{where}: a row cannot be read", f"row {number} (the header is row 1)"
        raise UnreadableFileError(problem, name="file", operator_note=note) from None


def read_csv(
    file: IO[bytes], where: str, columns: Sequence[str], options: ReadOptions, dropped: Dropped | None = None
) -> Iterator[pl.DataFrame]:
    """The named columns as text, a block at a time; an empty field is a missing value.

    Every line is a row. Lines that do not have the fields of the header are added to ``dropped``, and columns with text
    that is not in the encoding are left as bytes; without ``dropped`` both are refused.
    """
    arrow, arrow_csv = import_module("pyarrow"), import_module("pyarrow.csv")
    rejected: list[int | None] = []
    before = 1

    def reject(row: Any) -> str:
        if dropped is None:
            rejected.append(before + row.number)
            return "error"
        dropped.unreadable += 1
        return "skip"

    with replaced_errors(where, rejected):
        text = _Text(_unpacked(file), options.encoding)
        delimiter, names = _dialect(text.header(), where, columns, options.delimiter)
        for block in _lines(text, where, dropped):
            _require_closed_quotes(block, delimiter, where)
            valid = _is_text(block)
            if not valid and dropped is None:
                raise _wrong_encoding(where)
            table = arrow_csv.read_csv(
                # Letters of Latin-1 are single bytes, so that the bytes of every field can be had again.
                arrow.BufferReader(block if valid else block.decode("latin-1").encode()),
                arrow_csv.ReadOptions(column_names=names, block_size=2 * len(block) + 1, use_threads=False),
                arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=reject),
                arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, arrow.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            before += table.num_rows
            frame = pl.DataFrame(getattr(pl, "from_arrow")(table))  # noqa: B009 (its type is known at run time only)
            yield frame if valid else pl.DataFrame([_bytes_again(column) for column in frame])


def _is_text(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_again(column: pl.Series) -> pl.Series:
    fields = [None if text is None else text.encode("latin-1") for text in column]
    return pl.Series(column.name, fields, dtype=pl.Binary)


def _lines(text: _Text, where: str, dropped: Dropped | None) -> Iterator[bytes]:
    """Blocks of whole lines. A line longer than a block is no row."""
    rest, skipping = b"", False
    while True:
        data = text.read(BLOCK_BYTES)
        block = rest + data
        cut = len(block) if not data else 1 + max(block.rfind(b"\n"), block.rfind(b"\r"))
        rest = block[cut:]
        if skipping and cut:
            ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
            block, cut, skipping = (block[min(ends) :], cut - min(ends), False) if ends else (b"", 0, False)
        if len(rest) > BLOCK_BYTES:
            if dropped is None:
                raise UnreadableFileError(f"{where}: a row is longer than {BLOCK_BYTES:,} bytes")
            dropped.unreadable += not skipping
            rest, skipping = b"", True
        if block[:cut].strip(b"\r\n"):
            yield block[:cut]
        if not data:
            return


def _require_closed_quotes(block: bytes, delimiter: str, where: str) -> None:
    """Refuse a file in which a quote could take the lines after it into its field, rows of other people."""
    if QUOTE not in block:
        return
    letters = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(letters == ord(QUOTE))
    opening, closing = quotes[::2], quotes[1::2]
    before = np.where(opening > 0, letters[opening - 1], ord("\n"))
    at_the_start = np.isin(before, [ord(delimiter), ord("\n"), ord("\r")])
    # The second of two quotes in a row opens the field again: they stand for one.
    again = np.zeros(len(opening), dtype=np.bool_)
    again[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    ends = np.flatnonzero((letters == ord("\n")) | (letters == ord("\r")))
    whole = len(quotes) % 2 == 0 and bool((np.searchsorted(ends, opening) == np.searchsorted(ends, closing)).all())
    if not whole or not (at_the_start | again).all():
        raise UnreadableFileError(
            f"{where}: a quote stands inside a field, or is not closed in its own line",
            name="file",
            next_step="write every row in a line of its own and quotes in a field twice, or give the table as Parquet",
        )


def buffered(file: IO[bytes]) -> io.BufferedReader[Any]:
    """The same file, which can be looked at before it is read."""
    return io.BufferedReader(cast("Any", file)) if not isinstance(file, io.BufferedReader) else cast("Any", file)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, without gzip if it is packed so."""
    packed = buffered(file)
    if packed.peek(2)[:2] == GZIP_MAGIC:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=packed))
    return packed


def _dialect(line: bytes, where: str, columns: Sequence[str], given: str | None) -> tuple[str, list[str]]:
    """The delimiter under which the header has the columns, and its names."""
    headers: dict[str, list[str]] = {}
    for delimiter in (given,) if given is not None else DELIMITERS:
        header = next(csv.reader([line.decode()], delimiter=delimiter), None)
        if not header:
            raise UnreadableFileError(
                f"{where}: no header in its first row", next_step="write the names of the columns there"
            )
        headers[delimiter] = header
        if all(header.count(column) == 1 for column in columns):
            return delimiter, header
    fullest = max(headers, key=lambda delimiter: len(headers[delimiter]))
    require_columns(headers[fullest], columns, where, header_in_row=True)
    return fullest, headers[fullest]


def _wrong_encoding(where: str) -> UnreadableFileError:
    return UnreadableFileError(
        f"{where}: its text is not in the encoding that was expected",
        next_step="say in which it is, e.g. --encoding latin-1",
    )


def _bases(kind: Any) -> set[str]:
    return {base.__name__ for base in kind.__mro__}


class _Text(io.RawIOBase):
    """Bytes of UTF-8 from bytes of any encoding. What is no text in an encoding of single bytes, or half a character of
    UTF-16, becomes bytes that are no text; other encodings may lose their place there and are refused."""

    def __init__(self, file: IO[bytes], encoding: str | None) -> None:
        self._file = file
        self._ahead = b""
        first = file.read(4)
        mark, found = next(((mark, name) for mark, name in MARKS if first.startswith(mark)), (b"", None))
        name = codecs.lookup(found or encoding or "utf-8").name
        self._errors = "strict"
        self._decode: Callable[[bytes, bool], str] | None = None
        if name != "utf-8":
            decoder = codecs.getincrementaldecoder(name)
            if name.startswith(("utf-16", "utf-32")):
                self._errors = "surrogatepass"
            elif not {"BufferedIncrementalDecoder", "MultibyteIncrementalDecoder"} & _bases(decoder):
                self._errors = "surrogateescape"
            self._decode = decoder(self._errors).decode
        self._started = first[len(mark) :]

    def readable(self) -> bool:
        return True

    def header(self) -> bytes:
        """The first line that is not empty, without its end."""
        while True:
            self._ahead = self._ahead.lstrip(b"\r\n")
            line = self._ahead.replace(b"\r", b"\n").partition(b"\n")[0]
            ended = len(line) < len(self._ahead) or len(line) >= HEADER_BYTES
            more = b"" if ended else self._next(HEADER_BYTES)
            if not more:
                break
            self._ahead += more
        self._ahead = self._ahead[len(line) :]
        return line

    def read(self, size: int = -1, /) -> bytes:
        data, self._ahead = self._ahead, b""
        return data or self._next(size)

    def _next(self, size: int) -> bytes:
        while True:
            data, self._started = self._started + self._file.read(size), b""
            if self._decode is None:
                return data
            text = self._decode(data, not data)
            # A piece may hold no whole character; only the end of the file is empty.
            if text or not data:
                return text.encode("utf-8", self._errors)
