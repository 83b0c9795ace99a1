"""High-water marks beside a ledger: how far each stream was seen, so that an old copy put back is noticed.

A ledger restored from yesterday's copy, or without its ``-wal`` file, is consistent in itself and has only forgotten:
its next steps would be charged and drawn a second time. After each commit a small file beside it notes the end of the
stream's chain; a ledger that ends before its mark, or has another entry there, is refused. The mark is written after
the commit is on the disk and needs no ``fsync`` of its own: it may be late, never early.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.storage.ledger.chain import ENTRY, base_of
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.schema import losses

NOWHERE: Final = "-"


class Marks:
    """The marks of one ledger, in files beside it or in ``folder``; without either (in memory) there are none."""

    def __init__(self, file: Path | None, folder: Path | None = None) -> None:
        self._file = file
        self._folder = folder
        self._paths: dict[str, Path] = {}

    @property
    def known(self) -> bool:
        """Whether there is a place for marks."""
        return self._file is not None or self._folder is not None

    def path(self, stream: str) -> Path | None:
        """Where the mark of a stream lies."""
        if stream not in self._paths and self.known:
            self._paths[stream] = self._path(stream)
        return self._paths.get(stream)

    def _path(self, stream: str) -> Path:
        name = f"{quote(stream, safe='')}.mark"
        if self._file is not None:
            return self._file.with_name(f"{self._file.name}.{name}")
        assert self._folder is not None
        return self._folder / name

    def all(self) -> dict[str, Mark]:
        """Every mark that there is, by stream."""
        folder = self._folder if self._file is None else self._file.parent
        prefix = "" if self._file is None else f"{self._file.name}."
        paths = [] if folder is None else list(folder.glob(f"{glob.escape(prefix)}*.mark"))
        quoted = [path.name.removeprefix(prefix).removesuffix(".mark") for path in paths]
        found = {unquote(name): self.seen(unquote(name)) for name in sorted(quoted) if not self._of_another(name)}
        return {name: mark for name, mark in found.items() if mark is not None}

    def _of_another(self, name: str) -> bool:
        """Whether a mark is that of a ledger beside this one, whose name begins like its own."""
        parts = name.split(".")
        beside = [] if self._file is None else [".".join(parts[:count]) for count in range(1, len(parts))]
        return any(self._file.with_name(f"{self._file.name}.{one}").is_file() for one in beside if self._file)

    def seen(self, stream: str) -> Mark | None:
        """The furthest end of the stream that was seen; a file that is no mark counts as none."""
        path = self.path(stream)
        if path is None:
            return None
        try:
            with path.open("rb", buffering=0) as file:
                number, digest, *t = file.read().decode("ascii").split()
            return Mark(int(number), digest, t=int(t[0]) if t and t[0] != NOWHERE else None)
        except (OSError, ValueError):
            # A loss of power may have left less than a mark.
            return None

    def note(self, stream: str, mark: Mark) -> None:
        """Note that a commit was made."""
        path = self.path(stream)
        if path is None:
            return
        try:
            if self._folder is not None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                # One call of one length: a reader sees the old mark or the new one.
                t = NOWHERE if mark.t is None else mark.t
                os.pwrite(descriptor, f"{mark.number:020d} {mark.digest:64} {t:>20}\n".encode(), 0)
            finally:
                os.close(descriptor)
        except OSError:
            # The release is committed and stays so; an older mark is a weaker one.
            return

    def replace(self, stream: str, mark: Mark) -> None:
        """Note an end that is behind the mark that was there, after a rollback was recorded."""
        self.remove(stream)
        self.note(stream, mark)

    def remove(self, stream: str) -> None:
        """Forget how far a stream was seen."""
        path = self.path(stream)
        if path is not None:
            path.unlink(missing_ok=True)


def server_folder(identity: str) -> Path:
    """Where the marks of a ledger on a server lie: with the user who publishes, on the machine that does."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "veilstream" / "marks" / identity


def check_mark(connection: Connection, stream_id: int, stream: str, label: str, end: Mark, seen: Mark | None) -> None:
    """Refuse a ledger that is behind what was ``seen`` of it, or has parted from it."""
    if seen is None or seen.number == 0 or (seen.number, seen.digest) == (end.number, end.digest):
        return
    entry = connection.execute(ENTRY, {"stream": stream_id, "number": seen.number}).scalar_one_or_none()
    if seen.number <= end.number and entry == seen.digest:
        return
    if seen.number < base_of(connection, stream_id).number or _covered(connection, stream_id, seen):
        return
    lost = max(seen.number - end.number, 0)
    raise LedgerError(
        name="stream",
        value=stream,
        limit=f"ledger {label} was rolled back: {lost or 'other'} commits that were made are not in it, and would "
        "be charged and drawn a second time; put the latest ledger back, or record the lost steps as spent "
        "(`veilstream ledger restore`, docs/reliability.md)",
    )


def _covered(connection: Connection, stream_id: int, seen: Mark) -> bool:
    """Whether what was seen belongs to steps that were recorded as lost."""
    covering = sa.select(losses.c.entry).where(
        losses.c.stream_id == stream_id,
        losses.c.entry <= seen.number,
        (losses.c.seen >= seen.number) if seen.t is None else (losses.c.last >= seen.t),
    )
    return connection.execute(covering.limit(1)).first() is not None
