"""The commits of tables of a lake that only grow, Delta and Iceberg: which files each brought, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from veilstream.errors import InvalidInputError, UnreadableFileError
from veilstream.extras import load

APPENDS: Final = ("WRITE", "CREATE TABLE", "ADD", "STREAMING UPDATE")
NO_ROWS: Final = ("OPTIMIZE", "VACUUM START", "VACUUM END", "FSCK", "RESTORE", "ADD CONSTRAINT", "SET TBLPROPERTIES")
LAKE: Final = "a table of a lake"
MILLISECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table, when it was committed (in microseconds since 1970), and the files of new rows in it.

    A version that only moves rows, such as compaction, has no files.
    """

    version: str
    committed: int
    files: tuple[str, ...]


def delta_table(path: str, options: Mapping[str, str]) -> Any:
    """A Delta table as it is now."""
    delta = load("deltalake", LAKE)
    try:
        return delta.DeltaTable(path, storage_options=dict(options) or None)
    except Exception as error:
        raise UnreadableFileError(f"{path}: not a readable Delta table ({type(error).__name__})") from None


def delta_commits(path: str, options: Mapping[str, str], after: int = -1, since: int = 0) -> Iterator[Commit]:
    """The commits of a Delta table after a version; those before the moment ``since`` are left out unread."""
    newest = delta_table(path, options)
    try:
        entries = {int(entry["version"]): entry for entry in newest.history()}
    except Exception as error:
        raise UnreadableFileError(f"{path}: not a readable Delta table ({type(error).__name__})") from None
    for version in range(after + 1, newest.version() + 1):
        entry = entries.get(version)
        if entry is None:
            if since and version < min(entries, default=0):
                continue
            raise UnreadableFileError(f"{path}: the log of version {version} is gone; keep the log longer")
        committed = int(entry.get("inCommitTimestamp", entry["timestamp"])) * MILLISECOND
        if committed >= since:
            yield Commit(str(version), committed, tuple(sorted(_added(path, options, version, entry))))


def _added(path: str, options: Mapping[str, str], version: int, entry: Mapping[str, Any]) -> set[str]:
    operation = str(entry.get("operation", "")).upper()
    if operation in NO_ROWS:
        return set()
    delta: Any = import_module("deltalake")
    overwrites = str(entry.get("operationParameters", {}).get("mode", "")).lower() == "overwrite"

    def files(number: int) -> set[str]:
        return set(delta.DeltaTable(path, version=number, storage_options=dict(options) or None).file_uris())

    before, now = set[str]() if version == 0 else files(version - 1), files(version)
    if operation not in APPENDS or (overwrites and before) or before - now:
        raise _rewritten(path, version)
    return now - before


def iceberg_table(catalog: str, table: str, properties: Mapping[str, str]) -> Any:
    """An Iceberg table of a catalogue that pyiceberg knows."""
    catalogues = load("pyiceberg.catalog", LAKE)
    try:
        return catalogues.load_catalog(catalog, **dict(properties)).load_table(table)
    except Exception as error:
        raise UnreadableFileError(f"{table}: not a readable Iceberg table ({type(error).__name__})") from None


def iceberg_commits(table: Any, name: str, after: str | None = None, since: int = 0) -> Iterator[Commit]:
    """The commits of an Iceberg table after a snapshot; those before the moment ``since`` are left out unread."""
    history = _line(table)
    numbers = [str(snapshot.snapshot_id) for snapshot in history]
    if after is not None and after not in numbers:
        raise UnreadableFileError(f"{name}: the snapshot that was read last has expired; keep them longer")
    for snapshot in history[numbers.index(after) + 1 if after is not None else 0 :]:
        committed = int(snapshot.timestamp_ms) * MILLISECOND
        if committed >= since:
            yield Commit(str(snapshot.snapshot_id), committed, tuple(_files(table, name, snapshot)))


def _files(table: Any, name: str, snapshot: Any) -> Iterator[str]:
    operation = str(snapshot.summary.operation.value)
    if operation not in ("append", "replace"):
        raise _rewritten(name, snapshot.snapshot_id)
    if operation == "replace":
        return
    try:
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                yield from (str(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io))
    except Exception as error:
        raise UnreadableFileError(f"{name}: a manifest cannot be read ({type(error).__name__})") from None


def _line(table: Any) -> list[Any]:
    """The snapshots that led to the present one, oldest first."""
    line: list[Any] = []
    current = table.current_snapshot()
    while current is not None:
        line.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else table.snapshot_by_id(parent)
    return line[::-1]


def _rewritten(what: str, version: object) -> InvalidInputError:
    return InvalidInputError(
        name="source",
        value=what,
        limit=f"version {version} changed or deleted rows; only tables that grow can be taken, as what was counted "
        "cannot be taken back",
    )
