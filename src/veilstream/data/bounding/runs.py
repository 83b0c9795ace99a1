"""Encoded events sorted by step, in memory while they fit and otherwise in an unnamed temporary file.

Rows are exact private data: see ``veilstream.data.bounding.spill`` for what the file shows of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.private import Private
from veilstream.data.bounding.spill import Spill
from veilstream.errors import InvalidInputError
from veilstream.values.mixing import GOLDEN_GAMMA

RUN_ROWS = 1 << 20
MAX_PARTS = 1024
MAX_ROWS_AT_ONCE = 1 << 23
SPREAD = np.uint64(GOLDEN_GAMMA)


class _Run(Private):
    """Rows sorted by part: ``ends[p]:ends[p+1]`` are part p. Of a spilled column its section of the file is known."""

    __slots__ = ("columns", "ends")

    def __init__(self, ends: NDArray[np.int64], columns: list[NDArray[Any] | _Section | None]) -> None:
        self.ends, self.columns = ends, columns

    @property
    def bytes(self) -> int:
        return sum(column.nbytes for column in self.columns if isinstance(column, np.ndarray))


@dataclass(frozen=True, slots=True)
class _Section:
    """Where a column begins in the temporary file."""

    offset: int
    dtype: np.dtype[Any]


class Runs(Private):
    """Rows arrive in any order and leave by part, a part being one step or a few successive ones.

    With ``encrypted``, rows in the temporary file cannot be read by others, at the price of some processor time.
    """

    def __init__(
        self,
        steps: int,
        bins: int,
        memory_bytes: int,
        directory: str | Path | None = None,
        *,
        encrypted: bool = False,
    ) -> None:
        if type(memory_bytes) is not int or memory_bytes < 0:
            raise InvalidInputError(
                name="memory_bytes",
                value=memory_bytes,
                limit="a whole number of at least 0",
                outcome="nothing was read",
            )
        self.steps, self.bins = steps, bins
        self.parts = min(steps, MAX_PARTS)
        self._memory_bytes, self._directory, self._encrypted = memory_bytes, directory, encrypted
        self._cell_dtype = np.dtype(np.uint32 if steps * bins < 1 << 32 else np.int64)
        self._waiting: list[Rows] = []
        self._runs: list[_Run] = []
        self._file: Spill | None = None
        self._closed = False

    def add(self, rows: Rows) -> None:
        """Take rows in."""
        self._waiting.append(rows)
        if sum(len(part.cell) for part in self._waiting) >= RUN_ROWS:
            self.finish()

    def finish(self) -> None:
        """Sort the rows that wait into a run; spill all runs when they outgrow memory."""
        if not self._waiting:
            return
        rows, self._waiting = join(self._waiting), []
        part = self._part(rows.cell)
        order = np.argsort(part, kind="stable")
        ends = np.zeros(self.parts + 1, dtype=np.int64)
        np.cumsum(np.bincount(part, minlength=self.parts), out=ends[1:])
        high = None if rows.high is None else rows.high[order]
        values = [column[order] for column in rows.values]
        self._runs.append(_Run(ends, [rows.low[order], high, rows.cell.astype(self._cell_dtype)[order], *values]))
        if sum(run.bytes for run in self._runs) > self._memory_bytes:
            self._spill()

    def rows(self, part: int) -> int:
        """How many rows the part holds."""
        return sum(int(run.ends[part + 1] - run.ends[part]) for run in self._runs)

    def rows_that_may_count(self, part: int) -> int:
        """How many of them may count: all, unless their steps have passed."""
        return self.rows(part)

    def steps_of(self, part: int) -> range:
        """The steps of the part."""
        return range(-(-part * self.steps // self.parts), -(-(part + 1) * self.steps // self.parts))

    def load(self, part: int, shard: int = 0, shards: int = 1) -> Rows:
        """The rows of a part, or of the people of one shard of it."""
        pieces: list[Rows] = []
        for run in self._runs:
            low, high, cell, *values = self._slice(run, part)
            rows = Rows(low, high, cell.astype(np.int64), tuple(values))
            pieces.append(rows if shards == 1 else rows.where(shard_of(low, high, shards) == shard))
        return join(pieces) if pieces else Rows(np.zeros(0, np.int64), None, np.zeros(0, np.int64))

    def close(self) -> None:
        """Forget every row."""
        self._runs, self._waiting, self._closed = [], [], True
        if self._file is not None:
            self._file.close()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def spilled_bytes(self) -> int:
        """How much lies in the temporary file."""
        return 0 if self._file is None else self._file.size

    def _part(self, cell: NDArray[np.int64]) -> NDArray[np.uint16]:
        step = cell // self.bins
        return (step if self.parts == self.steps else step * self.parts // self.steps).astype(np.uint16)

    def _spill(self) -> None:
        if self._file is None:
            self._file = Spill(self._directory, encrypted=self._encrypted)
        for run in self._runs:
            for index, column in enumerate(run.columns):
                if isinstance(column, np.ndarray):
                    run.columns[index] = _Section(self._file.write(column), column.dtype)
        self._file.flush()

    def _slice(self, run: _Run, part: int) -> list[Any]:
        rows = slice(int(run.ends[part]), int(run.ends[part + 1]))
        return [self._read(column, rows) for column in run.columns]

    def _read(self, column: NDArray[Any] | _Section | None, rows: slice) -> NDArray[Any] | None:
        if column is None or isinstance(column, np.ndarray):
            return None if column is None else column[rows]
        if self._file is None:
            raise InvalidInputError("bounded events: their temporary file is gone")
        start = column.offset + rows.start * column.dtype.itemsize
        return self._file.read(start, rows.stop - rows.start, column.dtype)


def shard_of(low: NDArray[np.int64], high: NDArray[np.uint64] | None, shards: int) -> NDArray[np.uint64]:
    """The part of the people, of ``shards``, that each row belongs to: one identity is in one part."""
    mixed = (low.view(np.uint64) if high is None else low.view(np.uint64) ^ high) * SPREAD
    return (mixed >> np.uint64(33)) % np.uint64(shards)


def join(pieces: list[Rows]) -> Rows:
    """All rows of several pieces."""
    if len(pieces) == 1:
        return pieces[0]
    high = None
    if any(piece.high is not None for piece in pieces):
        high = np.concatenate([np.zeros(len(p.low), dtype=np.uint64) if p.high is None else p.high for p in pieces])
    values = tuple(np.concatenate(parts) for parts in zip(*(p.values for p in pieces), strict=True))
    return Rows(np.concatenate([p.low for p in pieces]), high, np.concatenate([p.cell for p in pieces]), values)
