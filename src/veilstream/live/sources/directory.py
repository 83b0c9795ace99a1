"""A directory in which finished files appear: CSV, CSV.gz and Parquet."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from veilstream.data.confined_files import open_confined
from veilstream.data.readers import CSV_SUFFIXES, PARQUET_SUFFIXES
from veilstream.errors import InvalidInputError
from veilstream.live.sources.base import Batch

DONE: Final = "done"
REFUSED: Final = "refused"
UNFINISHED: Final = (".", "_")
MICROSECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """Files are taken once, in the order of their names, and must not change afterwards.

    Write a file under a name that begins with '.' or '_' and rename it when it is whole: the file system notes that
    moment, which nobody can choose, and the rows arrived then. A large file is taken batch by batch; after a crash the
    next batch follows.

    A file counts whole or not at all. One that cannot be read to its end is refused for good, and is no concern of the
    others; bring it again under another name. What is no file, such as a pipe, is never opened.
    """

    path: str

    @property
    def name(self) -> str:
        return f"directory:{self.path}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        folder = Path(self.path)
        try:
            # Unlike is_dir and rglob this fails where a folder cannot be read.
            _ = next(folder.iterdir(), None)
        except OSError:
            raise InvalidInputError(
                name="source", value=self.path, limit="no such directory, or not readable"
            ) from None
        for file in sorted(folder.rglob("*")):
            part = file.relative_to(folder).as_posix()
            if _is_finished(part) and known.get(part) not in (DONE, REFUSED) and (came := _came(file)) is not None:
                yield from _batches(file, part, known.get(part), columns, came)

    def close(self) -> None:
        """Nothing is held open."""


def _is_finished(part: str) -> bool:
    hidden = any(piece.startswith(UNFINISHED) for piece in part.split("/"))
    return not hidden and part.endswith(CSV_SUFFIXES + PARQUET_SUFFIXES)


def _came(file: Path) -> int | None:
    """When a file came to have its name and content, in microseconds since 1970; None for what is no file."""
    try:
        found = file.stat()
    except OSError:
        # It is gone again, or a link to nothing.
        return None
    return found.st_ctime_ns // MICROSECOND if stat.S_ISREG(found.st_mode) else None


def _batches(file: Path, part: str, position: str | None, columns: Sequence[str], came: int) -> Iterator[Batch]:
    taken = int(position or 0)
    if position is None:
        try:
            _require_readable(file)
            # Before any of its rows count: they may be spoilt by a row at the end.
            for _ in open_confined(file, columns):
                pass
        except InvalidInputError as error:
            yield Batch(pl.DataFrame(), {part: REFUSED}, refused=f"{part}: {error}")
            return
    last, unreadable = pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), 0
    for number, (frame, broken) in enumerate(open_confined(file, columns)):
        if number > taken:
            yield Batch(last, {part: str(number)}, unreadable, arrived=came)
        if number >= taken:
            last, unreadable = frame, broken
    yield Batch(last, {part: DONE}, unreadable, arrived=came)


def _require_readable(file: Path) -> None:
    """Refuse a file that may not be read; a disk or server that does not answer is the source's failure."""
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except PermissionError:
        raise InvalidInputError(f"{file}: it may not be read") from None
