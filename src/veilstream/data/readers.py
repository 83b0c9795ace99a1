"""Every kind of input as an iterator of Polars frames of bounded size.

Errors of the underlying readers may quote rows, which are private: they are replaced, never chained.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, TypeGuard, cast

import polars as pl

from veilstream.arguments import is_about_values
from veilstream.data.arrow_frames import frame_from_arrow
from veilstream.data.columns import ROUNDED
from veilstream.data.csv_files import buffered, read_csv, replaced_errors, require_columns
from veilstream.data.encoding import Dropped
from veilstream.data.read_options import ReadOptions
from veilstream.errors import InvalidInputError, UnreadableFileError, VeilstreamError

BATCH_ROWS: Final = 1 << 20
SPARE_FILES: Final = 8
CSV_SUFFIXES: Final = tuple(name + packed for name in (".csv", ".tsv", ".txt") for packed in ("", ".gz"))
PARQUET_SUFFIXES: Final = (".parquet", ".pq")
FOLDER_SUFFIXES: Final = tuple(name for name in CSV_SUFFIXES + PARQUET_SUFFIXES if ".txt" not in name)
"""What is read of a folder, where a .txt file may be anything."""
PARQUET_MAGIC: Final = b"PAR1"
GLOB_MARKS: Final = frozenset("*?[")
STANDARD_INPUT: Final = "-"
AS_FOUND: Final = ReadOptions()
PLAIN: Final[dict[type, type[pl.DataType]]] = {
    str: pl.String,
    int: pl.Int64,
    float: pl.Float64,
    bool: pl.Boolean,
}
"""Types of Python of which a whole column is read at once, as each value would be by itself."""
SOURCES: Final = "give a file, a glob, '-' for standard input, a Polars, pandas or Arrow table, or a DuckDB relation"


def open_batches(
    source: Any,
    columns: Sequence[str],
    options: ReadOptions = AS_FOUND,
    *,
    time: str | None = None,
    user: str | None = None,
    dropped: Dropped | None = None,
) -> Iterator[pl.DataFrame]:
    """The named columns of ``source``, batch by batch, read as ``options`` say.

    What a row of a CSV file is depends on its own line alone. Lines that do not have the fields of the header are
    added to ``dropped``, and text that is not in the file's encoding is left as bytes; without it they are refused.

    ``time`` and ``user`` name the columns of times and ids, if there are any: the format of times concerns the one, and
    decimal commas concern neither.

    >>> [batch["a"].to_list() for batch in open_batches([{"a": [1], "b": [2]}, {"a": [3]}], ["a"])]
    [[1], [3]]
    """
    numbers = tuple(name for name in columns if name not in (time, user))
    _require_spare_files()
    try:
        for frame in _batches(source, columns, options, dropped):
            yield options.normal(frame, time=time, numbers=numbers)
    except VeilstreamError:
        raise
    except BaseException as error:
        if not is_about_values(error):
            raise
        raise UnreadableFileError("the rows: they hold values that no reader takes", name="file") from None


def _require_spare_files() -> None:
    """Refuse to begin where so few files can be opened that Polars would panic when it starts its threads."""
    opened: list[int] = []
    try:
        while len(opened) < SPARE_FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise UnreadableFileError(
            f"the rows: too few files may be opened ({error.strerror})",
            next_step="close what this process holds open, or raise its limit (ulimit -n)",
        ) from None
    finally:
        for file in opened:
            os.close(file)


def _batches(
    source: Any, columns: Sequence[str], options: ReadOptions, dropped: Dropped | None
) -> Iterator[pl.DataFrame]:
    if isinstance(source, str | Path) and str(source) == STANDARD_INPUT:
        yield from _read_pipe(sys.stdin.buffer, columns, options, dropped)
    elif isinstance(source, str | Path):
        for path in _files(source):
            yield from _read_file(path, columns, options, dropped)
    elif isinstance(source, pl.LazyFrame):
        yield from _read_lazy(source, columns)
    elif _is_table(source):
        yield from _read_table(source, columns)
    elif isinstance(source, Iterable):
        for part in cast("Any", source):
            if not (isinstance(part, str | Path | pl.LazyFrame) or _is_table(part)):
                raise InvalidInputError(f"a batch of type {type(part).__name__}: not a table", next_step=SOURCES)
            yield from _batches(part, columns, options, dropped)
    else:
        raise InvalidInputError(f"a source of type {type(source).__name__}: not a file or table", next_step=SOURCES)


def _module(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _is_table(source: object) -> TypeGuard[Any]:
    return (
        isinstance(source, pl.DataFrame | Mapping)
        or (_module(source) in ("pandas", "pyarrow") and (hasattr(source, "columns") or hasattr(source, "schema")))
        or hasattr(source, "__arrow_c_stream__")
    )


def _files(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.name.endswith(FOLDER_SUFFIXES))
    elif path.exists() or not GLOB_MARKS & set(str(source)):
        return [path]
    else:
        root = Path(path.anchor) if path.is_absolute() else Path()
        found = sorted(root.glob(str(path.relative_to(path.anchor))))
    if not found:
        raise InvalidInputError(f"{source}: 0 CSV or Parquet files found, at least 1 is needed")
    return found


def require_files(source: Any) -> None:
    """Refuse names of files that are not there; nothing is read, and other sources are left alone."""
    if isinstance(source, tuple | list):
        for part in cast("Sequence[Any]", source):
            require_files(part)
    elif isinstance(source, str | Path) and str(source) != STANDARD_INPUT:
        for path in _files(source):
            _require_file(path)


def _require_file(path: Path) -> None:
    if not path.exists() or path.is_dir():
        raise InvalidInputError(f"{path}: there is no such file", name="file", next_step="check its name and folder")


def _read_file(
    path: Path, columns: Sequence[str], options: ReadOptions, dropped: Dropped | None
) -> Iterator[pl.DataFrame]:
    _require_file(path)
    if path.is_file() and path.stat().st_size == 0:
        raise UnreadableFileError(f"{path}: 0 bytes, a header at least is needed")
    if path.name.endswith(PARQUET_SUFFIXES):
        yield from _read_parquet(path, str(path), columns)
    elif path.name.endswith(CSV_SUFFIXES):
        with replaced_errors(str(path)), path.open("rb") as file:
            yield from read_csv(file, str(path), columns, options, dropped)
    else:
        known = ", ".join(CSV_SUFFIXES + PARQUET_SUFFIXES)
        raise InvalidInputError(
            f"{path}: its name must end in one of {known}", next_step="rename it, or pipe it into '-'"
        )


def _read_pipe(
    pipe: IO[bytes], columns: Sequence[str], options: ReadOptions, dropped: Dropped | None
) -> Iterator[pl.DataFrame]:
    """CSV, packed or not, or Parquet, which is held in memory."""
    where = "standard input"
    with replaced_errors(where):
        file = buffered(pipe)
        opening = file.peek(len(PARQUET_MAGIC))[: len(PARQUET_MAGIC)]
        if not opening:
            raise UnreadableFileError(f"{where}: 0 bytes, a header at least is needed")
        if opening == PARQUET_MAGIC:
            yield from _read_parquet(import_module("pyarrow").BufferReader(file.read()), where, columns)
        else:
            yield from read_csv(file, where, columns, options, dropped)


def _read_parquet(source: Any, where: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    parquet = import_module("pyarrow.parquet")
    with replaced_errors(where), parquet.ParquetFile(source) as file:
        require_columns(file.schema_arrow.names, columns, where)
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=list(columns)):
            yield frame_from_arrow(batch)


def _read_lazy(frame: pl.LazyFrame, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    try:
        require_columns(frame.collect_schema().names(), columns, "the lazy frame")
        yield from frame.select(columns).collect_batches(chunk_size=BATCH_ROWS)
    except (pl.exceptions.PolarsError, OSError):
        raise UnreadableFileError("the lazy frame: it cannot be read to its end") from None


def _read_table(table: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    if isinstance(table, pl.DataFrame):
        require_columns(table.columns, columns, "the frame")
        chosen = table if table.columns == list(columns) else table.select(columns)
        yield from chosen.iter_slices(BATCH_ROWS)
    elif _module(table) == "pyarrow":
        yield from _read_arrow(table, columns)
    elif _module(table) != "pandas" and not isinstance(table, Mapping):
        # DuckDB's relations and whatever else hands over a stream of Arrow batches.
        with replaced_errors("the table"):
            yield from _read_arrow(import_module("pyarrow").RecordBatchReader.from_stream(table), columns)
    else:
        require_columns(list(cast("Any", table).keys()), columns, "the table")
        frame = pl.DataFrame([as_series(name, table[name]) for name in columns])
        yield from frame.iter_slices(BATCH_ROWS)


def _read_arrow(table: Any, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    require_columns(table.schema.names, columns, "the Arrow data")
    if hasattr(table, "read_next_batch"):
        for batch in table:
            yield frame_from_arrow(batch.select(list(columns)))
    else:
        yield from frame_from_arrow(table.select(list(columns))).iter_slices(BATCH_ROWS)


def as_series(name: str, values: Any) -> pl.Series:
    """Any column as a series. Values of Python's own types decide by themselves what they are, not by each other."""
    kind = str(getattr(values, "dtype", "object"))
    if isinstance(values, list | tuple) or kind in ("object", "category"):
        listed: list[Any] = list(cast("Any", values))
        return _of_objects(name, listed)
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
        # What Polars says may quote a value.
        return pl.Series(name, list(values), dtype=pl.Object)


def _of_objects(name: str, values: list[Any]) -> pl.Series:
    """A column of one plain type where every value is of that type and fits it, else of objects."""
    kinds = set(map(type, values)) - {type(None)}
    plain = PLAIN.get(next(iter(kinds)), None) if len(kinds) == 1 else None
    if plain is not None:
        try:
            column = pl.Series(name, values, dtype=plain)
        except (TypeError, OverflowError, UnicodeEncodeError, pl.exceptions.PolarsError):
            return pl.Series(name, values, dtype=pl.Object)
        if not (plain is pl.Float64 and (column.is_finite() & (column.abs() >= ROUNDED)).any()):
            return column
    return pl.Series(name, values, dtype=pl.Object)
