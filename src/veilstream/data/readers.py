"""Every kind of input as an iterator of Polars frames of bounded size.

Errors of the underlying readers may quote rows, which are private: they are replaced, never chained.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeGuard, cast

import polars as pl

from veilstream.errors import InvalidInputError, UnreadableFileError

BATCH_ROWS = 1 << 20
CSV_BLOCK_BYTES = 16 << 20
CSV_SUFFIXES = (".csv", ".csv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
GLOB_MARKS = frozenset("*?[")


def open_batches(source: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The named columns of ``source``, batch by batch.

    >>> [batch["a"].to_list() for batch in open_batches([{"a": [1], "b": [2]}, {"a": [3]}], ["a"])]
    [[1], [3]]
    """
    if isinstance(source, str | Path):
        for path in _files(source):
            yield from _read_file(path, columns)
    elif isinstance(source, pl.LazyFrame):
        yield from _read_lazy(source, columns)
    elif _is_table(source):
        yield from _read_table(source, columns)
    elif isinstance(source, Iterable):
        for part in cast("Any", source):
            if not (isinstance(part, str | Path | pl.LazyFrame) or _is_table(part)):
                raise InvalidInputError(f"a batch of type {type(part).__name__}: not a table")
            yield from open_batches(part, columns)
    else:
        raise InvalidInputError(f"a source of type {type(source).__name__}: not a file or table")


def _module(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _is_table(source: object) -> TypeGuard[Any]:
    return isinstance(source, pl.DataFrame | Mapping) or (
        _module(source) in ("pandas", "pyarrow") and (hasattr(source, "columns") or hasattr(source, "schema"))
    )


def _require(present: Iterable[object], columns: Sequence[str], where: str) -> None:
    names = [str(name) for name in present]
    for column in columns:
        if names.count(column) != 1:
            found = "is missing" if column not in names else f"occurs {names.count(column)} times"
            raise InvalidInputError(f"{where}: column '{column}' {found}, the columns are {', '.join(names)}")


def _files(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.name.endswith(CSV_SUFFIXES + PARQUET_SUFFIXES))
    elif path.exists() or not GLOB_MARKS & set(str(source)):
        return [path]
    else:
        root = Path(path.anchor) if path.is_absolute() else Path()
        found = sorted(root.glob(str(path.relative_to(path.anchor))))
    if not found:
        raise InvalidInputError(f"{source}: 0 CSV or Parquet files found, at least 1 is needed")
    return found


def _read_file(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    if not path.is_file():
        raise InvalidInputError(f"{path}: there is no such file")
    if path.stat().st_size == 0:
        raise UnreadableFileError(f"{path}: 0 bytes, a header at least is needed")
    if path.name.endswith(PARQUET_SUFFIXES):
        return _read_parquet(path, columns)
    if path.name.endswith(CSV_SUFFIXES):
        return _read_csv(path, columns)
    known = ", ".join(CSV_SUFFIXES + PARQUET_SUFFIXES)
    raise InvalidInputError(f"{path}: its name must end in one of {known}")


@contextmanager
def _broken(path: Path, rejected: list[int | None]) -> Generator[None]:
    """Replace whatever a reader says by where it stopped."""
    arrow_error: type[Exception] = import_module("pyarrow").ArrowException
    try:
        yield
    except (arrow_error, OSError, EOFError, UnicodeDecodeError, csv.Error):
        number = rejected[0] if rejected else None
        where = "it" if number is None else f"row {number} (the header is row 1)"
        raise UnreadableFileError(f"{path}: {where} cannot be read") from None


def _read_parquet(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    parquet = import_module("pyarrow.parquet")
    with _broken(path, []), parquet.ParquetFile(path) as file:
        _require(file.schema_arrow.names, columns, str(path))
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
            yield _from_arrow(batch)


def _read_csv(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    arrow, arrow_csv = import_module("pyarrow"), import_module("pyarrow.csv")
    rejected: list[int | None] = []

    def reject(row: Any) -> str:
        rejected.append(row.number)
        return "error"

    with _broken(path, rejected):
        header, rows = _csv_opening(path)
        _require(header, columns, str(path))
        if not rows:
            return
        with _opened(path) as file:
            stream = _QuoteCount(file)
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
                arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=reject),
                arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict.fromkeys(columns, arrow.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            for batch in reader:
                yield _from_arrow(batch)
            if stream.quotes % 2:
                raise UnreadableFileError(f"{path}: a quote is opened and never closed")


class _QuoteCount(io.RawIOBase):
    """Count quotes on the way: an odd number means that one swallowed the rows after it, which readers accept."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.quotes += data.count(b'"')
        return data


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _csv_opening(path: Path) -> tuple[list[str], bool]:
    """The header, and whether anything follows it."""
    with _opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(text)
        header = next(lines, None)
        if not header:
            raise UnreadableFileError(f"{path}: no header in its first row")
        return header, any(row for row in lines)


def _read_lazy(frame: pl.LazyFrame, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    try:
        _require(frame.collect_schema().names(), columns, "the lazy frame")
        yield from frame.select(columns).collect_batches(chunk_size=BATCH_ROWS)
    except (pl.exceptions.PolarsError, OSError):
        raise UnreadableFileError("the lazy frame: it cannot be read to its end") from None


def _read_table(table: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    if isinstance(table, pl.DataFrame):
        _require(table.columns, columns, "the frame")
        yield from table.select(columns).iter_slices(BATCH_ROWS)
    elif _module(table) == "pyarrow":
        yield from _read_arrow(table, columns)
    else:
        _require(table.keys(), columns, "the table")
        frame = pl.DataFrame([as_series(name, table[name]) for name in columns])
        yield from frame.iter_slices(BATCH_ROWS)


def _read_arrow(table: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    _require(table.schema.names, columns, "the Arrow data")
    if hasattr(table, "read_next_batch"):
        for batch in table:
            yield _from_arrow(batch.select(list(columns)))
    else:
        yield from _from_arrow(table.select(list(columns))).iter_slices(BATCH_ROWS)


def _from_arrow(data: Any) -> pl.DataFrame:
    frame: pl.DataFrame = getattr(pl, "from_arrow")(data)  # noqa: B009
    return frame


def as_series(name: str, values: Any) -> pl.Series:
    """Any column as a series; of Python objects where their types are mixed."""
    arrow_error: type[Exception] = import_module("pyarrow").ArrowException
    try:
        return pl.Series(name, values)
    except (
        TypeError,
        ValueError,
        OverflowError,
        RuntimeError,
        arrow_error,
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
    ):
        # Mixed types, huge integers, half characters: left as they are, so that ids can be read one by one and
        # attributes refused. What Polars says may quote a value.
        return pl.Series(name, list(values), dtype=pl.Object)
