"""Who was present in the steps of a run that has not ended: written down before their release, read after a kill.

The stored history is replaced when a run has released all of its steps. Until then a journal beside it holds, step by
step, the hashes of whoever was present. What it holds of a step is on the disk before the step is released, so that
after a kill, wherever it comes, the history and the journal together know at least as much as was released; what they
know of steps that were not is left aside, for their rows come again.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import numpy as np

from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_pairs import Words
from veilstream.data.bounding.presence_spill import sync_folder
from veilstream.data.bounding.private import Private
from veilstream.documents import read_json
from veilstream.errors import InvalidInputError

FORMAT: Final = 1
ENTRY: Final = struct.Struct("<qqI")
"""Step, people, and a checksum of both and of the people's hashes, which follow."""
COMPLETE: Final = -1
"""In the place of the number of people: all people of the steps below are noted."""


class PresenceJournal(Private):
    """A journal of mode 0600 that is begun anew; what was in its place is gone."""

    __slots__ = ("_file", "_path")

    def __init__(self, path: Path, history: PresenceHistory) -> None:
        self._path = path
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")
        self._file.write(json.dumps({"format": FORMAT, "rule": history.rule}).encode() + b"\n")
        sync_folder(path.parent)

    def note(self, step: int, first: Words, second: Words) -> None:
        """These people were present at ``step``."""
        self._write(step, len(first), first.astype("<u8").tobytes() + second.astype("<u8").tobytes())

    def complete(self, through: int) -> None:
        """Everybody of the steps before ``through`` is noted; it is on the disk when this returns."""
        self._write(through, COMPLETE, b"")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Stop writing; what was written stays for whoever goes on."""
        self._file.close()

    def remove(self) -> None:
        """Forget the journal, now that the history holds all of it."""
        self.close()
        self._path.unlink(missing_ok=True)

    def _write(self, step: int, people: int, hashes: bytes) -> None:
        self._file.write(ENTRY.pack(step, people, _checksum(step, people, hashes)) + hashes)


def resumed_history(path: Path, history: PresenceHistory, released: int) -> PresenceHistory:
    """The history with what a journal knows of the steps before ``released``; the same one if it knows no more.

    Nothing is changed if the journal does not know all of the steps that it is read for.
    """
    known = history.through or 0
    try:
        with path.open("rb") as file:
            _check_head(file, history, path)
            through = min(released, max((step for step, people in _entries(file) if people is None), default=0))
            if through <= known:
                return history
            other = history.copy()
            file.seek(0)
            file.readline()
            for step, people in _entries(file):
                if people is not None and known <= step < through:
                    other.people_counted(*people, step)
    except FileNotFoundError:
        return history
    other.advance(through)
    return other


def _check_head(file: IO[bytes], history: PresenceHistory, path: Path) -> None:
    line = file.readline()
    try:
        head = read_json(line)
        known = head["format"] == FORMAT and head["rule"] == history.rule
    except (ValueError, KeyError, TypeError):
        # A kill may come before anything is on the disk, and then nothing was released.
        known = not line.endswith(b"\n")
    if not known:
        raise InvalidInputError(
            name="presence journal",
            value=str(path),
            limit="it belongs to another guarantee, calendar or key; give those that it was begun with, or begin a new "
            "stream",
            outcome="nothing was read",
        )


def _entries(file: IO[bytes]) -> Iterator[tuple[int, tuple[Words, Words] | None]]:
    """Steps with the people who were present, or None where everything before is complete; up to a torn end."""
    while len(head := file.read(ENTRY.size)) == ENTRY.size:
        step, people, checksum = ENTRY.unpack(head)
        size = 0 if people == COMPLETE else 16 * people
        left = os.fstat(file.fileno()).st_size - file.tell()
        if not 0 <= size <= left:
            return
        hashes = file.read(size)
        if _checksum(step, people, hashes) != checksum:
            return
        words = np.frombuffer(hashes, dtype="<u8")
        yield step, None if people == COMPLETE else (words[:people], words[people:])


def _checksum(step: int, people: int, hashes: bytes) -> int:
    return zlib.crc32(hashes, zlib.crc32(struct.pack("<qq", step, people)))
