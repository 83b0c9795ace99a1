"""The presence history of a stream as a secret file, for data that come day by day.

A file of format 2 is a line of JSON, the records of ``presence_spill`` sorted by their first hash, where their sections
begin and with which hash, and three numbers: records, sections and the latest step. It is used where it lies: what a
file of ten million people takes in memory is the hashes of its sections. Format 1, columns that are read whole, is
still read.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_spill import Records, RunIndex, SortedRun, spilled_run, sync_folder, write_run
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError

FORMAT: Final = 2
END: Final = struct.Struct("<qqq")
COLUMNS: Final = ("first", "second", "steps", "counted")
"""The arrays of format 1."""


def store_history(path: str | Path, history: PresenceHistory) -> None:
    """Write a history for the next day, whole or not at all, with mode 0600.

    The file holds keyed hashes of people and when they were present: keep it like the rows themselves.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_history(file, history)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        sync_folder(target.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load_history(path: str | Path, empty: PresenceHistory) -> PresenceHistory:
    """The stored history, or ``empty`` if there is no file yet; refused if it is of another rule or key.

    The history reads the file as long as it lives, also after another one was stored in its place.
    """
    try:
        file = Path(path).open("rb")  # noqa: SIM115
    except FileNotFoundError:
        return empty
    try:
        history = read_history(file, empty, str(path))
    except BaseException:
        file.close()
        raise
    return history


def write_history(file: IO[bytes], history: PresenceHistory) -> None:
    """Write a history to a file that is open."""
    head = {"format": FORMAT, "rule": history.rule, "through": history.through}
    file.write(json.dumps(head).encode() + b"\n")
    index = write_run(file, history.blocks())
    file.write(index.starts.astype("<i8").tobytes() + index.heads.astype("<u8").tobytes())
    file.write(END.pack(index.records, len(index.starts), index.latest))


def read_history(file: IO[bytes], empty: PresenceHistory, name: str) -> PresenceHistory:
    """The history that ``write_history`` wrote; refused if it is of another rule or key than ``empty``.

    The file then belongs to the history, which closes it in the end.
    """
    try:
        head = read_json(file.readline())
        if head["format"] not in (1, FORMAT) or head["rule"] != empty.rule:
            raise InvalidInputError(
                name="presence history",
                value=name,
                limit="it belongs to another guarantee, calendar or key; give those that it was begun with, or "
                "begin a new stream",
                outcome="nothing was read",
            )
        run = _columns(file, empty) if head["format"] == 1 else _stored_run(file, empty)
    except (ValueError, KeyError, TypeError, struct.error):
        raise InvalidInputError(
            name="presence history",
            value=name,
            limit="it is not a presence history; restore it from a backup",
            outcome="nothing was read",
        ) from None
    return empty.restored(run, head["through"])


def _stored_run(file: IO[bytes], empty: PresenceHistory) -> SortedRun:
    offset = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(size - END.size)
    records, sections, latest = END.unpack(file.read(END.size))
    ends = offset + records * empty.records.itemsize
    if records < 0 or sections < 0 or ends + 16 * sections + END.size != size:
        raise ValueError("size")
    file.seek(ends)
    starts = np.frombuffer(file.read(8 * sections), dtype="<i8")
    heads = np.frombuffer(file.read(8 * sections), dtype="<u8")
    return SortedRun(file, offset, RunIndex(starts, heads, records, latest), empty.records)


def _columns(file: IO[bytes], empty: PresenceHistory) -> SortedRun:
    columns: dict[str, Any] = {name: np.lib.format.read_array(file, allow_pickle=False) for name in COLUMNS}
    file.close()
    table: Records = np.zeros(len(columns["first"]), dtype=empty.records)
    for name in COLUMNS:
        table[name] = columns[name]
    return spilled_run([table] if len(table) else [], empty.records, None)
