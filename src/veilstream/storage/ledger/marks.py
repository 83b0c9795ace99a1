"""High-water marks beside a ledger: how far each stream was seen, so that an old copy put back is noticed.

A ledger restored from yesterday's copy, or without its ``-wal`` file, is consistent in itself and has only forgotten:
its next steps would be charged and drawn a second time. After each commit a small file beside it notes the end of the
stream's chain; a ledger that ends before its mark, or has another entry there, is refused. So is a stream that has
commits and no mark, or one that cannot be read or written: nobody knows whether it is the latest copy.

A mark is made, and is on the disk, before the first commit of its stream. Afterwards it is written in place, behind the
commit and without an ``fsync`` of its own: it may be late, never early. A loss of power may leave garbage where it was
written last. So every so often it is written to a second place, and synced, which counts where the first is no mark.
"""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.errors import LedgerError
from veilstream.storage.ledger.chain import ENTRY, base_of, last_mark
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.schema import losses
from veilstream.storage.ledger.surroundings import sync

NOWHERE: Final = "-"
LENGTH: Final = 107
SYNCED_AT: Final = 4096
"""Where the second place begins: no disk writes both at once."""
SYNCED_COMMITS: Final = 512
SAFELY: Final = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Whoever may write to the folder could put a link in the place of a mark, or a pipe that never answers."""
RESTORE: Final = "put the latest ledger and its marks back, or say where each stream stands (veilstream restore)"


class Marks:
    """The marks of one ledger, in files beside it or in ``folder``; without either (in memory) there are none."""

    def __init__(self, file: Path | None, folder: Path | None = None) -> None:
        self._file = file
        self._folder = folder
        self._paths: dict[str, Path] = {}
        self.failed: dict[str, str] = {}
        """Streams whose mark could not be written after their last commit, and why: no further step is made."""

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

    def all(self) -> dict[str, Mark | None]:
        """Every mark that there is, by stream; None is one that cannot be read."""
        folder = self._folder if self._file is None else self._file.parent
        prefix = "" if self._file is None else f"{self._file.name}."
        paths = [] if folder is None else list(folder.glob(f"{glob.escape(prefix)}*.mark"))
        quoted = [path.name.removeprefix(prefix).removesuffix(".mark") for path in paths]
        return {unquote(name): self._legible(unquote(name)) for name in sorted(quoted) if not self._of_another(name)}

    def _legible(self, stream: str) -> Mark | None:
        try:
            return self.seen(stream)
        except LedgerError:
            return None

    def _of_another(self, name: str) -> bool:
        """Whether a mark is that of a ledger beside this one, whose name begins like its own."""
        parts = name.split(".")
        beside = [] if self._file is None else [".".join(parts[:count]) for count in range(1, len(parts))]
        return any(self._file.with_name(f"{self._file.name}.{one}").is_file() for one in beside if self._file)

    def seen(self, stream: str, *, writable: bool = False) -> Mark | None:
        """The furthest end of the stream that was seen, None without a mark; one that is damaged is an error.

        So is one that cannot be written, if ``writable``.
        """
        path = self.path(stream)
        if path is None:
            return None
        try:
            descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | SAFELY)
            try:
                usual = stat.S_ISREG(os.fstat(descriptor).st_mode)
                noted = [os.pread(descriptor, LENGTH, place) for place in (0, SYNCED_AT)] if usual else []
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(path, stream, f"{error.strerror}") from None
        found = next((mark for text in noted if (mark := _parsed(text)) is not None), None)
        if found is None:
            raise _unusable(path, stream, "it is damaged, or no mark", damaged=True)
        return found

    def check(self, connection: Connection, stream_id: int, stream: str, label: str, end: Mark) -> None:
        """Refuse a stream that is behind its mark, or has commits and no mark, before a step of it is made.

        A mark that could not be written after the last commit is written now.
        """
        if not self.known:
            return
        try:
            seen = self.seen(stream, writable=True)
        except DamagedMarkError:
            # What a loss of power leaves of a mark that was just being made.
            if end.number:
                raise
            seen = None
        if seen is None:
            if end.number:
                raise unmarked(stream, label, end)
            self._write_or_refuse(stream, Mark(), synced=True)
            return
        check_mark(connection, stream_id, stream, label, end, seen)
        if stream in self.failed:
            self._write_or_refuse(stream, end, synced=True)
            del self.failed[stream]

    def check_other(self, connection: Connection, stream_id: int, stream: str, label: str) -> None:
        """The same of a stream whose steps another process makes.

        That may be on another machine, where its mark is, if the ledger is on a server: what is seen here first is
        noted.
        """
        # The mark first: a step that repeats a release takes no lock of the population and may be committed between.
        seen = self.seen(stream)
        end = last_mark(connection, stream_id)
        if seen is not None:
            check_mark(connection, stream_id, stream, label, end, seen)
        elif end.number and self._file is not None:
            raise unmarked(stream, label, end)
        elif end.number and self.known:
            self._write_or_refuse(stream, end, synced=True)

    def note(self, stream: str, mark: Mark) -> None:
        """Note that a commit was made; it stays so if the mark cannot be written, and no further step is made."""
        try:
            self._write(stream, mark, synced=mark.number % SYNCED_COMMITS == 0)
        except OSError as error:
            self.failed[stream] = f"{error.strerror}"

    def replace(self, stream: str, mark: Mark) -> None:
        """Note an end that may be behind the mark that was there: the operator has said where the stream stands."""
        path = self.path(stream)
        if path is not None:
            path.unlink(missing_ok=True)
            self._write_or_refuse(stream, mark, synced=True)

    def remove(self, stream: str) -> None:
        """Forget how far a stream was seen."""
        path = self.path(stream)
        if path is not None:
            path.unlink(missing_ok=True)

    def _write_or_refuse(self, stream: str, mark: Mark, *, synced: bool) -> None:
        try:
            self._write(stream, mark, synced=synced)
        except OSError as error:
            path = self.path(stream)
            assert path is not None
            raise _unusable(path, stream, f"{error.strerror}") from None

    def _write(self, stream: str, mark: Mark, *, synced: bool) -> None:
        path = self.path(stream)
        if path is None:
            return
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | SAFELY, 0o600)
        try:
            digest, t = mark.digest or NOWHERE, NOWHERE if mark.t is None else mark.t
            text = f"{mark.number:020d} {digest:64} {t:>20}\n".encode()
            # Each is one call of one length: a reader sees the old mark or the new one.
            os.pwrite(descriptor, text, 0)
            if synced:
                os.pwrite(descriptor, text, SYNCED_AT)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if synced:
            sync(path.parent)


class DamagedMarkError(LedgerError):
    """A file in the place of a mark that is none."""


def _parsed(text: bytes) -> Mark | None:
    try:
        number, digest, t = text.decode("ascii").split() if len(text) == LENGTH else ("", "", "")
        return Mark(int(number), "" if digest == NOWHERE else digest, t=None if t == NOWHERE else int(t))
    except ValueError:
        return None


def server_folder(identity: str) -> Path:
    """Where the marks of a ledger on a server lie: with the user who publishes, on the machine that does."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "veilstream" / "marks" / identity


def unmarked(stream: str, label: str, end: Mark) -> LedgerError:
    """What is said of a stream that has commits and no mark."""
    return LedgerError(
        name="stream",
        value=stream,
        limit=f"ledger {label} has {end.number} commits of it, and there is no mark of how far it was seen: if this is "
        "an old copy, steps would be charged and drawn a second time",
        next_step=RESTORE,
    )


def _unusable(path: Path, stream: str, why: str, *, damaged: bool = False) -> LedgerError:
    return (DamagedMarkError if damaged else LedgerError)(
        name="mark",
        value=str(path),
        of=f"stream {stream!r}",
        limit=f"{why}; without it an old copy of the ledger would not be noticed",
        next_step="make the file and its folder readable and writable for this user, or, if it is damaged, say where "
        "the stream stands (veilstream restore)",
    )


def check_mark(connection: Connection, stream_id: int, stream: str, label: str, end: Mark, seen: Mark) -> None:
    """Refuse a ledger that is behind what was ``seen`` of it, or has parted from it."""
    if seen.number == 0 or (seen.number, seen.digest) == (end.number, end.digest):
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
        "be charged and drawn a second time",
        next_step=RESTORE,
    )


def _covered(connection: Connection, stream_id: int, seen: Mark) -> bool:
    """Whether what was seen belongs to steps that were recorded as lost."""
    covering = sa.select(losses.c.entry).where(
        losses.c.stream_id == stream_id,
        losses.c.entry <= seen.number,
        (losses.c.seen >= seen.number) if seen.t is None else (losses.c.last >= seen.t),
    )
    return connection.execute(covering.limit(1)).first() is not None
