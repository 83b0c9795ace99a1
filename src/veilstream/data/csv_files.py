"""CSV text of any delimiter and encoding, from a file or a pipe, in one pass.

Errors of the underlying readers may quote rows, which are private: they are replaced, never chained.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, Final, cast
from weakref import ref

import polars as pl

from veilstream.data.read_options import DELIMITERS, ReadOptions
from veilstream.errors import InvalidInputError, UnreadableFileError

BLOCK_BYTES: Final = 16 << 20
HEADER_BYTES: Final = 1 << 20
"""A header is looked for in so many bytes."""
LONGEST_WAIT: Final = 1.0
"""Seconds to wait for Arrow's thread, which may hang in a pipe to which nobody writes."""
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
        raise UnreadableFileError(
            f"{where}: its text is not in the encoding that was expected",
            next_step="say in which it is, e.g. --encoding latin-1",
        ) from None
    except (arrow_error, OSError, EOFError, csv.Error):
        number = rejected[0] if rejected else None
        problem, note = f"{where}: it cannot be read", None
        if number is not None:
            problem, note = f"{where}: a row cannot be read", f"row {number} (the header is row 1)"
        raise UnreadableFileError(problem, name="file", operator_note=note) from None


def read_csv(file: IO[bytes], where: str, columns: Sequence[str], options: ReadOptions) -> Iterator[pl.DataFrame]:
    """The named columns as text, a block at a time; an empty field is a missing value."""
    arrow, arrow_csv = import_module("pyarrow"), import_module("pyarrow.csv")
    rejected: list[int | None] = []
    with replaced_errors(where, rejected), _lending() as lend:
        text = _Text(_unpacked(file), options.encoding)
        opening = text.peek(HEADER_BYTES)
        delimiter, rows = _dialect(opening, where, columns, options.delimiter)
        if not rows:
            return
        try:
            for batch in arrow_csv.open_csv(
                lend(_Lent(text, lend)),
                arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=lend(_Reject(rejected))
                ),
                arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, arrow.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ):
                frame: pl.DataFrame = getattr(pl, "from_arrow")(batch)  # noqa: B009 (its type is known at run time only)
                yield frame
        finally:
            text.ended = True
        if text.quotes % 2:
            raise UnreadableFileError(f"{where}: a quote is opened and never closed")


class _Reject:
    """Remembers the row at which Arrow stops."""

    def __init__(self, rejected: list[int | None]) -> None:
        self._rejected = rejected

    def __call__(self, row: Any) -> str:
        self._rejected.append(row.number)
        return "error"


@contextmanager
def _lending() -> Generator[Callable[[Any], Any]]:
    """Lend Python objects to Arrow, and leave when none of its threads can call them any more.

    Arrow reads ahead in a thread of its own, also after an error. A thread that waits for the interpreter's lock while
    the interpreter ends is ended in the middle of C++, which aborts the process. When such a thread is done it drops
    what it was lent, with the lock held, and asks for the lock no more when the last of it is gone.
    """
    lent: list[ref[Any]] = []

    def lend(thing: Any) -> Any:
        lent.append(ref(thing))
        return thing

    try:
        yield lend
    finally:
        latest = time.monotonic() + LONGEST_WAIT
        while any(one() is not None for one in lent) and time.monotonic() < latest:
            time.sleep(0.0005)


def buffered(file: IO[bytes]) -> io.BufferedReader[Any]:
    """The same file, which can be looked at before it is read."""
    return io.BufferedReader(cast("Any", file)) if not isinstance(file, io.BufferedReader) else cast("Any", file)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, without gzip if it is packed so."""
    packed = buffered(file)
    if packed.peek(2)[:2] == GZIP_MAGIC:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=packed))
    return packed


def _dialect(opening: bytes, where: str, columns: Sequence[str], given: str | None) -> tuple[str, bool]:
    """The delimiter under which the header has the columns, and whether anything follows the header."""
    text = opening.decode("utf-8", errors="ignore" if len(opening) == HEADER_BYTES else "strict")
    headers: dict[str, list[str]] = {}
    for delimiter in (given,) if given is not None else DELIMITERS:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        header = next(lines, None)
        if not header:
            raise UnreadableFileError(
                f"{where}: no header in its first row", next_step="write the names of the columns there"
            )
        headers[delimiter] = header
        if all(header.count(column) == 1 for column in columns):
            return delimiter, len(opening) == HEADER_BYTES or any(row for row in lines)
    fullest = max(headers, key=lambda delimiter: len(headers[delimiter]))
    require_columns(headers[fullest], columns, where, header_in_row=True)
    return fullest, True


class _Lent(io.RawIOBase):
    """A text as Arrow reads it, in blocks that are lent too: Arrow keeps them without a copy."""

    def __init__(self, text: _Text, lend: Callable[[Any], Any]) -> None:
        self._text, self._lend = text, lend

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> Any:
        return self._lend(memoryview(b"" if self._text.ended else self._text.read(size)))


class _Text(io.RawIOBase):
    """Bytes of UTF-8 from bytes of any encoding, which can be looked at before they are read, with quotes counted.

    An odd number of quotes means that one swallowed the rows after it, which readers accept.
    """

    def __init__(self, file: IO[bytes], encoding: str | None) -> None:
        self._file = file
        self._ahead = b""
        self.quotes = 0
        self.ended = False
        first = file.read(4)
        mark, found = next(((mark, name) for mark, name in MARKS if first.startswith(mark)), (b"", None))
        name = found or encoding or "utf-8"
        self._decode: Callable[[bytes, bool], str] | None = None
        if codecs.lookup(name).name != "utf-8":
            self._decode = codecs.getincrementaldecoder(name)().decode
        self._started = first[len(mark) :]

    def readable(self) -> bool:
        return True

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, or all that are left."""
        while len(self._ahead) < size:
            more = self._next(size)
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def read(self, size: int = -1, /) -> bytes:
        if self._ahead:
            data, self._ahead = (self._ahead, b"") if size < 0 else (self._ahead[:size], self._ahead[size:])
        else:
            data = self._next(size)
            if 0 <= size < len(data):
                data, self._ahead = data[:size], data[size:]
        self.quotes += data.count(b'"')
        return data

    def _next(self, size: int) -> bytes:
        while True:
            data, self._started = self._started + self._file.read(size), b""
            if self._decode is None:
                return data
            text = self._decode(data, not data)
            # A piece may hold no whole character; only the end of the file is empty.
            if text or not data:
                return text.encode("utf-8")
