"""Sorted runs of fixed-width records in files: where a presence history keeps what does not fit in memory.

A run is written once and never changed. Of its records, sorted by their first hash, the first one of every section is
known in memory, so that few people are found by reading few sections, and many by reading the run once from its
beginning to its end. Two runs are merged section by section; of a person who is in both the newer record counts.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.presence_pairs import Words, find_pairs, order_of_pairs
from veilstream.data.bounding.private import Private

SECTION: Final = 1 << 9
"""Records of a section, more only where people share their first hash: what is read to find one person."""
SECTIONS_AT_ONCE: Final = 128
Records: TypeAlias = NDArray[np.void]
"""Records of people; see ``record_type``."""


def record_type(presence: int) -> np.dtype[np.void]:
    """A person's hashes, the last steps in which they were present, and whether they counted in the last of them.

    >>> record_type(3).itemsize
    29
    """
    return np.dtype([("first", "<u8"), ("second", "<u8"), ("steps", "<i4", (presence,)), ("counted", "?")])


class RunIndex(NamedTuple):
    """Where the sections of a run begin, their first hashes, how many records there are, and their latest step."""

    starts: NDArray[np.int64]
    heads: Words
    records: int
    latest: int


class SortedRun(Private):
    """Records of different people, sorted by their first hash, in a file that belongs to this run alone."""

    __slots__ = ("__weakref__", "_dtype", "_ends", "_file", "_index", "_offset")

    def __init__(self, file: IO[bytes], offset: int, index: RunIndex, dtype: np.dtype[np.void]) -> None:
        self._file, self._offset, self._index, self._dtype = file, offset, index, dtype
        self._ends = np.append(index.starts, index.records)
        # The file is closed with the last history that knows the run.
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return self._index.records

    @property
    def latest(self) -> int:
        """The last step of anybody's presence."""
        return self._index.latest

    def find(self, first: Words, second: Words) -> tuple[NDArray[np.int64], Records]:
        """Which of these people, sorted by their first hash, are in the run, and their records."""
        section = np.searchsorted(self._index.heads, first, side="right") - 1
        people: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        found: list[Records] = [np.zeros(0, dtype=self._dtype)]
        for begin, end in _stretches(np.unique(section[section >= 0])):
            low, high = np.searchsorted(section, [begin, end]).tolist()
            here = np.arange(low, high, dtype=np.int64)
            records = self._read(begin, end)
            place, known = find_pairs(
                np.ascontiguousarray(records["first"]), records["second"], first[here], second[here]
            )
            people.append(here[known])
            found.append(records[place[known]])
        return np.concatenate(people), np.concatenate(found)

    def blocks(self) -> Iterator[Records]:
        """All records in order; nobody's first hash is in two blocks."""
        sections = len(self._index.starts)
        for begin in range(0, sections, SECTIONS_AT_ONCE):
            yield self._read(begin, min(sections, begin + SECTIONS_AT_ONCE))

    def _read(self, begin: int, end: int) -> Records:
        size = self._dtype.itemsize
        first, last = int(self._ends[begin]), int(self._ends[end])
        self._file.seek(self._offset + first * size)
        return np.frombuffer(self._file.read((last - first) * size), dtype=self._dtype)


def write_run(file: IO[bytes], blocks: Iterable[Records]) -> RunIndex:
    """Write sorted records to a file that is open, from where it is."""
    starts: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    heads: list[Words] = [np.zeros(0, dtype=np.uint64)]
    records, latest, last = 0, np.iinfo(np.int32).min, None
    for block in blocks:
        first = np.ascontiguousarray(block["first"])
        # A section begins where a first hash does, so that whoever looks for it finds all that have it in one.
        cuts = np.unique(np.searchsorted(first, first[::SECTION]))
        cuts = cuts[first[cuts] != last] if last is not None else cuts
        starts.append(records + cuts)
        heads.append(first[cuts])
        records, latest, last = records + len(block), max(latest, int(block["steps"][:, -1].max())), first[-1]
        file.write(block.tobytes())
    return RunIndex(np.concatenate(starts), np.concatenate(heads), records, latest)


def spilled_run(blocks: Iterable[Records], dtype: np.dtype[np.void], directory: str | Path | None) -> SortedRun:
    """A run in a file without a name, of mode 0600, which is gone with the process however that ends."""
    file: Any = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    try:
        index = write_run(file, blocks)
        file.flush()
    except BaseException:
        file.close()
        raise
    return SortedRun(file, 0, index, dtype)


def merged_blocks(newer: Iterator[Records], older: Iterator[Records], since: int) -> Iterator[Records]:
    """The records of two runs without those whose last presence is before ``since``; the newer one of a person."""
    ahead, behind = next(newer, None), next(older, None)
    while ahead is not None or behind is not None:
        last = min(block["first"][-1] for block in (ahead, behind) if block is not None)
        new, ahead = _split(ahead, last, newer)
        old, behind = _split(behind, last, older)
        both = np.concatenate([part for part in (new, old) if part is not None])
        order, fresh = order_of_pairs(both["first"], both["second"])
        kept = both[order[fresh]]
        kept = kept[kept["steps"][:, -1] >= since]
        if len(kept):
            yield kept


def _split(block: Records | None, last: np.uint64, rest: Iterator[Records]) -> tuple[Records | None, Records | None]:
    """The records up to the hash ``last``, and those that come next."""
    if block is None:
        return None, None
    place = int(np.searchsorted(block["first"], last, side="right"))
    return block[:place], block[place:] if place < len(block) else next(rest, None)


def _stretches(sections: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Sections one after another that are read at once, as the first and the one after the last."""
    for near in np.split(sections, np.flatnonzero(np.diff(sections) > 1) + 1):
        for start in range(0, len(near), SECTIONS_AT_ONCE):
            yield int(near[start]), int(near[start : start + SECTIONS_AT_ONCE][-1]) + 1


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
