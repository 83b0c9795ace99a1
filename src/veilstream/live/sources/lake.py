"""Tables of a lake that only grow: Delta and Iceberg. Each appended version is taken once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import polars as pl

from veilstream.data.arrow_frames import frame_from_arrow
from veilstream.data.engines.lake import Commit, delta_commits, iceberg_commits, iceberg_table
from veilstream.errors import UnreadableFileError
from veilstream.live.sources.base import Batch

VERSION: Final = "version"
SNAPSHOT: Final = "snapshot"


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """The appended rows of a Delta table, which arrived when their version was committed. Compaction brings no rows; a
    version that rewrites them is refused."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        return f"delta:{self.path}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        for commit in delta_commits(self.path, self.options, int(known.get(VERSION, -1))):
            yield Batch(_rows(self.path, commit, columns), {VERSION: commit.version}, arrived=commit.committed)

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True)
class IcebergSource:
    """The appended rows of an Iceberg table of a catalogue that pyiceberg knows; they arrived with their snapshot."""

    catalog: str
    table: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        return f"iceberg:{self.catalog}.{self.table}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        table = iceberg_table(self.catalog, self.table, self.properties)
        for commit in iceberg_commits(table, self.table, known.get(SNAPSHOT)):
            rows = _rows(self.table, commit, columns, table.io)
            yield Batch(rows, {SNAPSHOT: commit.version}, arrived=commit.committed)

    def close(self) -> None:
        """Nothing is held open."""


def _rows(name: str, commit: Commit, columns: Sequence[str], files: Any = None) -> list[pl.DataFrame]:
    """The rows of a commit, file by file; ``files`` opens the files of an Iceberg table."""
    parquet: Any = import_module("pyarrow.parquet")
    try:
        return [_frame(parquet, path, columns, files) for path in commit.files]
    except Exception as error:
        raise UnreadableFileError(f"{name}: a file cannot be read ({type(error).__name__})") from None


def _frame(parquet: Any, path: str, columns: Sequence[str], files: Any) -> pl.DataFrame:
    if files is None:
        data = parquet.read_table(path, columns=list(columns))
    else:
        with files.new_input(path).open() as file:
            data = parquet.read_table(file, columns=list(columns))
    return frame_from_arrow(data)
