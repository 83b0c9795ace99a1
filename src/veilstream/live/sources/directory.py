"""A directory in which finished files appear: CSV, CSV.gz and Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from veilstream.data.readers import CSV_SUFFIXES, PARQUET_SUFFIXES, open_batches
from veilstream.errors import InvalidInputError
from veilstream.live.sources.base import Batch

DONE: Final = "done"
UNFINISHED: Final = (".", "_")


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """Files are taken once, in the order of their names, and must not change afterwards.

    Write a file under a name that begins with '.' or '_' and rename it when it is whole. A large file is taken batch by
    batch; after a crash the next batch follows.
    """

    path: str

    @property
    def name(self) -> str:
        return f"directory:{self.path}"

    def poll(self, known: Mapping[str, str], columns: Sequence[str]) -> Iterator[Batch]:
        folder = Path(self.path)
        if not folder.is_dir():
            raise InvalidInputError(name="source", value=self.path, limit="there is no such directory")
        for file in sorted(folder.rglob("*")):
            part = file.relative_to(folder).as_posix()
            if not _is_finished(part) or known.get(part) == DONE:
                continue
            yield from _batches(file, part, int(known.get(part, 0)), columns)

    def close(self) -> None:
        """Nothing is held open."""


def _is_finished(part: str) -> bool:
    hidden = any(piece.startswith(UNFINISHED) for piece in part.split("/"))
    return not hidden and part.endswith(CSV_SUFFIXES + PARQUET_SUFFIXES)


def _batches(file: Path, part: str, taken: int, columns: Sequence[str]) -> Iterator[Batch]:
    frames = open_batches(file, columns)
    last = None
    for number, frame in enumerate(frames):
        if number < taken:
            continue
        if last is not None:
            yield Batch(last, {part: str(number)})
        last = frame
    if last is not None:
        yield Batch(last, {part: DONE})
