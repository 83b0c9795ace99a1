"""A directory in which finished files appear: CSV, CSV.gz and Parquet."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from veilstream.arguments import is_about_values
from veilstream.data.readers import CSV_SUFFIXES, PARQUET_SUFFIXES, open_batches
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
            for _ in _frames(file, columns):
                pass
        except BaseException as error:  # a panic of Polars is no Exception
            if not (isinstance(error, InvalidInputError | zlib.error) or is_about_values(error)):
                raise
            # What a library says may quote rows.
            why = str(error) if isinstance(error, InvalidInputError) else "it cannot be read"
            yield Batch(pl.DataFrame(), {part: REFUSED}, refused=f"{part}: {why}")
            return
    last = None
    for number, frame in enumerate(_frames(file, columns)):
        if number < taken:
            continue
        if last is not None:
            yield Batch(last, {part: str(number)}, arrived=came)
        last = frame
    yield Batch(
        pl.DataFrame(schema=dict.fromkeys(columns, pl.String)) if last is None else last, {part: DONE}, arrived=came
    )


def _require_readable(file: Path) -> None:
    """Refuse a file that may not be read; a disk or server that does not answer is the source's failure."""
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except PermissionError:
        raise InvalidInputError(f"{file}: it may not be read") from None


def _frames(file: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    return open_batches(file, columns)
