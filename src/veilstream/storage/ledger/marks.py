"""High-water marks beside a ledger: how far each stream was seen, so that an old copy put back is noticed.

A ledger restored from yesterday's copy, or without its ``-wal`` file, is consistent in itself and has only forgotten:
its next steps would be charged and drawn a second time. After each commit a small file beside it notes the end of the
stream's chain; a ledger that ends before its mark, or has another entry there, is refused. The mark is written after
the commit is on the disk and needs no ``fsync`` of its own: it may be late, never early.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.storage.ledger.chain import ENTRY
from veilstream.storage.ledger.records import Mark


class Marks:
    """The marks of one ledger, in files beside it; without a file (in memory, on a server) there are none."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def path(self, stream: str) -> Path | None:
        """Where the mark of a stream lies."""
        return None if self._file is None else self._file.with_name(f"{self._file.name}.{quote(stream, safe='')}.mark")

    def seen(self, stream: str) -> Mark | None:
        """The furthest end of the stream that was seen; a file that is no mark counts as none."""
        path = self.path(stream)
        if path is None:
            return None
        try:
            number, digest = path.read_text(encoding="ascii").split()
            return Mark(int(number), digest)
        except (OSError, ValueError):
            # A loss of power may have left less than a mark.
            return None

    def note(self, stream: str, mark: Mark) -> None:
        """Note that a commit was made."""
        path = self.path(stream)
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                # One call of one length: a reader sees the old mark or the new one.
                os.pwrite(descriptor, f"{mark.number:020d} {mark.digest}\n".encode(), 0)
            finally:
                os.close(descriptor)
        except OSError:
            # The release is committed and stays so; an older mark is a weaker one.
            return


def check_mark(connection: Connection, stream_id: int, stream: str, label: str, end: Mark, seen: Mark | None) -> None:
    """Refuse a ledger that is behind what was ``seen`` of it, or has parted from it."""
    if seen is None or seen.number == 0 or (seen.number, seen.digest) == (end.number, end.digest):
        return
    entry = connection.execute(ENTRY, {"stream": stream_id, "number": seen.number}).scalar_one_or_none()
    if seen.number > end.number or entry != seen.digest:
        lost = max(seen.number - end.number, 0)
        raise LedgerError(
            name="stream",
            value=stream,
            limit=f"ledger {label} was rolled back: {lost or 'other'} commits that were made are not in it, and would "
            "be charged and drawn a second time; put the latest ledger back (docs/reliability.md)",
        )
