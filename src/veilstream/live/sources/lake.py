"""Tables of a lake that only grow: Delta and Iceberg. Each appended version is taken once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

import polars as pl

from veilstream.errors import InvalidInputError, MissingExtraError, UnreadableFileError
from veilstream.live.sources.base import Batch

VERSION: Final = "version"
SNAPSHOT: Final = "snapshot"
APPENDS: Final = ("WRITE", "CREATE TABLE", "ADD", "STREAMING UPDATE")
NO_ROWS: Final = ("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "RESTORE", "ADD CONSTRAINT", "SET TBLPROPERTIES")
EXTRA: Final = "tables of a lake need: pip install 'veilstream[lake]'"


def _rewritten(what: str, version: object) -> InvalidInputError:
    return InvalidInputError(
        name="source",
        value=what,
        limit=f"version {version} changed or deleted rows; only tables that grow can be taken, as what was counted "
        "cannot be taken back",
    )


def _frame(data: Any) -> pl.DataFrame:
    frame: pl.DataFrame = getattr(pl, "from_arrow")(data)  # noqa: B009
    return frame


@dataclass(frozen=True, slots=True)
class DeltaSource:
    """The appended rows of a Delta table. Compaction brings no rows; a version that rewrites them is refused."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        return f"delta:{self.path}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        try:
            delta: Any = import_module("deltalake")
        except ImportError:
            raise MissingExtraError(EXTRA) from None
        try:
            newest = delta.DeltaTable(self.path, storage_options=dict(self.options) or None)
            operations = {entry["version"]: entry for entry in newest.history()}
        except Exception as error:
            raise UnreadableFileError(f"{self.path}: not a readable Delta table ({type(error).__name__})") from None
        for version in range(int(known.get(VERSION, -1)) + 1, newest.version() + 1):
            entry = operations.get(version)
            if entry is None:
                raise UnreadableFileError(f"{self.path}: the log of version {version} is gone; keep the log longer")
            files = self._added(delta, version, entry)
            table = _delta_rows(delta, self.path, version, files, columns)
            yield Batch(table, {VERSION: str(version)})

    def _added(self, delta: Any, version: int, entry: Mapping[str, Any]) -> set[str]:
        operation = str(entry.get("operation", "")).upper()
        if operation in NO_ROWS:
            return set()
        overwrites = str(entry.get("operationParameters", {}).get("mode", "")).lower() == "overwrite"
        before = set[str]() if version == 0 else set(delta.DeltaTable(self.path, version=version - 1).file_uris())
        now = set(delta.DeltaTable(self.path, version=version).file_uris())
        if operation not in APPENDS or (overwrites and before) or before - now:
            raise _rewritten(self.path, version)
        return now - before

    def close(self) -> None:
        """Nothing is held open."""


def _delta_rows(delta: Any, path: str, version: int, files: set[str], columns: Sequence[str]) -> pl.DataFrame:
    if not files:
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    parquet: Any = import_module("pyarrow.parquet")
    del delta, version
    try:
        pieces = [_frame(parquet.read_table(file, columns=list(columns))) for file in sorted(files)]
        return pl.concat(pieces)
    except Exception as error:
        raise UnreadableFileError(f"{path}: a file cannot be read ({type(error).__name__})") from None


@dataclass(frozen=True, slots=True)
class IcebergSource:
    """The appended rows of an Iceberg table of a catalogue that pyiceberg knows."""

    catalog: str
    table: str
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        return f"iceberg:{self.catalog}.{self.table}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        try:
            catalogues: Any = import_module("pyiceberg.catalog")
        except ImportError:
            raise MissingExtraError(EXTRA) from None
        try:
            table = catalogues.load_catalog(self.catalog, **dict(self.properties)).load_table(self.table)
            history = _line(table)
        except Exception as error:
            raise UnreadableFileError(f"{self.table}: not a readable Iceberg table ({type(error).__name__})") from None
        seen = known.get(SNAPSHOT)
        numbers = [str(snapshot.snapshot_id) for snapshot in history]
        if seen is not None and seen not in numbers:
            raise UnreadableFileError(f"{self.table}: the snapshot that was read last has expired; keep them longer")
        for snapshot in history[numbers.index(seen) + 1 if seen is not None else 0 :]:
            yield Batch(self._rows(table, snapshot, columns), {SNAPSHOT: str(snapshot.snapshot_id)})

    def _rows(self, table: Any, snapshot: Any, columns: Sequence[str]) -> pl.DataFrame:
        operation = str(snapshot.summary.operation.value)
        if operation not in ("append", "replace"):
            raise _rewritten(self.table, snapshot.snapshot_id)
        if operation == "replace":
            return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
        parquet: Any = import_module("pyarrow.parquet")
        pieces: list[pl.DataFrame] = []
        try:
            for manifest in snapshot.manifests(table.io):
                if manifest.added_snapshot_id != snapshot.snapshot_id:
                    continue
                for entry in manifest.fetch_manifest_entry(table.io):
                    with table.io.new_input(entry.data_file.file_path).open() as file:
                        pieces.append(_frame(parquet.read_table(file, columns=list(columns))))
        except Exception as error:
            raise UnreadableFileError(f"{self.table}: a file cannot be read ({type(error).__name__})") from None
        return pl.concat(pieces) if pieces else pl.DataFrame(schema=dict.fromkeys(columns, pl.String))

    def close(self) -> None:
        """Nothing is held open."""


def _line(table: Any) -> list[Any]:
    """The snapshots that led to the present one, oldest first."""
    line: list[Any] = []
    current = table.current_snapshot()
    while current is not None:
        line.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else table.snapshot_by_id(parent)
    return line[::-1]
