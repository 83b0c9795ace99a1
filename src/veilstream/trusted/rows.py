"""Exact rows of a table in an opaque set, in an order that a keyed hash gives them.

``SealedRecords`` gathers equal records and so forgets that there are rows; rank statistics of a sample and estimates
on blocks need them. The order makes "the first k rows" and "the rows of block b" stable: every row carries a hash of
its content and of how many equal rows came before it, so that adding a person adds one entry to the sorted list and
moves no other between blocks, whatever the key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.privacy.charge import Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened
from veilstream.trusted.records import SealedRecords, gathered
from veilstream.trusted.sealed import Opaque
from veilstream.values.boxes import require_dense

Codes = NDArray[np.int32]
Hashes = NDArray[np.uint64]
MAX_BINS_OF_ATTRIBUTE = 10**7


class SealedRows(Opaque[tuple[tuple[Codes, ...], Hashes]]):
    """Rows of codes 0 ≤ code < ``shape`` (one column per attribute), read from the timestamps in ``span``.

    At any single timestamp one unit has at most ``l1`` rows. How many rows there are is private.

    ``partition`` is the one partition of a stream, by the values of these attributes, whose parts may be charged in
    parallel at event level; None as long as it is not chosen. ``bins`` names the part that the rows belong to. One
    row lies in one part of one partition, but in a part of every other partition too: names of two would not
    be disjoint, and so ``SealedTable`` chooses one for good.

    >>> hashes = np.array([5, 9], dtype=np.uint64)
    >>> rows = SealedRows([np.array([3, 1]), np.array([0, 1])], hashes, (4, 2), Span(0, 0), 1)
    >>> rows, rows.margin(0)
    (SealedRows(shape=4x2, span=0..0, l1=1), Sealed(size=4, span=0..0, l1=1))
    >>> len(rows)
    Traceback (most recent call last):
    ...
    veilstream.errors.SealedAccessError: exact rows cannot be read; ask the Meter for a noisy answer
    """

    __slots__ = ("bins", "l1", "partition", "shape", "span")
    contents: ClassVar[str] = "rows"

    def __init__(
        self,
        columns: Sequence[NDArray[Any]],
        hashes: Hashes,
        shape: tuple[int, ...],
        span: Span,
        l1: int | Fraction,
        *,
        bins: NDArray[np.int64] | None = None,
        partition: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__((tuple(np.asarray(column, dtype=np.int32) for column in columns), hashes))
        self.shape = shape
        self.span = span
        self.l1 = Fraction(l1)
        self.bins = bins
        self.partition = partition

    def margin(self, axis: int) -> Sealed:
        """Rows by their value of one attribute: each row is counted once, so ``l1`` carries over."""
        return self._sealed(np.bincount(opened(self)[0][axis], minlength=self.shape[axis]))

    def counts(self, axes: Sequence[int]) -> Sealed:
        """Rows by their values of several attributes, row-major; without attributes their number."""
        shape = tuple(self.shape[axis] for axis in axes)
        require_dense(shape)
        return self._sealed(np.bincount(self._cells(axes), minlength=math.prod(shape)))

    def partitioned(self, axes: Sequence[int]) -> SealedRows:
        """The same rows, with the partition chosen whose parts may be charged in parallel; it cannot be changed."""
        if self.partition is not None and self.partition != tuple(axes):
            raise InvalidInputError(
                name="partition of rows by attributes",
                value=tuple(axes),
                limit=f"they are partitioned by {self.partition}, and parts of two partitions are not disjoint",
            )
        columns, hashes = opened(self)
        return SealedRows(columns, hashes, self.shape, self.span, self.l1, bins=self.bins, partition=tuple(axes))

    def parts(self, axes: Sequence[int]) -> list[SealedRows]:
        """The rows of every cell of some attributes, row-major.

        Those of the stream's ``partition`` are named by their numbers, so that the accountant charges them in parallel
        at event level: they are disjoint, and a unit that has c_p rows in part p, Σ c_p ≤ l1, costs at most
        Σ ε·c_p/l1 ≤ ε if each part is asked with ε and noise for l1. Parts of any other kind, and parts of parts,
        are charged like the rows that they come from. See PROOF.md, "Parts of rows".
        """
        columns, hashes = opened(self)
        cells = self._cells(axes)
        count = math.prod(self.shape[axis] for axis in axes)
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(count + 1))
        named = self.bins is None and len(axes) > 0 and tuple(axes) == self.partition
        return [
            SealedRows(
                [column[order[first:last]] for column in columns],
                hashes[order[first:last]],
                self.shape,
                self.span,
                self.l1,
                bins=np.array([part], dtype=np.int64) if named else self.bins,
                partition=self.partition,
            )
            for part, (first, last) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        ]

    def project(self, axes: Sequence[int]) -> SealedRows:
        """The same rows, in the same order, with some attributes only."""
        columns, hashes = opened(self)
        shape = tuple(self.shape[axis] for axis in axes)
        # Attributes have other numbers here: whatever partition was chosen, its parts can no longer be told.
        partition = None if self.partition is None else ()
        chosen = [columns[axis] for axis in axes]
        return SealedRows(chosen, hashes, shape, self.span, self.l1, bins=self.bins, partition=partition)

    def records(self) -> SealedRecords:
        """The rows gathered by cell, for methods that never list the domain: a row is a count, ``l1`` carries over."""
        cells = np.stack(opened(self)[0], axis=1).astype(np.int64)
        filled, counts = gathered(cells, np.ones(len(cells), dtype=np.int64), self.shape)
        return SealedRecords(filled, counts, self.shape, self.span, self.l1)

    def _cells(self, axes: Sequence[int]) -> NDArray[np.int64]:
        columns, hashes = opened(self)
        cells = np.zeros(hashes.size, dtype=np.int64)
        for axis in axes:
            cells = cells * self.shape[axis] + columns[axis]
        return cells

    def _sealed(self, counts: NDArray[np.int64]) -> Sealed:
        return Sealed(counts.astype(np.int64), self.span, self.l1, bins=self.bins)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"SealedRows(shape={shape}, span={self.span.first}..{self.span.last}, l1={self.l1})"


class SealedTable(Sealed):
    """Rows as a stream takes them: a vector of counts that tells how far the table has moved, and the rows.

    The vector holds the counts of every cell of ``parts`` attributes, then for every such cell one histogram per
    remaining attribute, and ``spare`` zeros where a release keeps what is not a count. ``parts`` is also the partition
    of ``rows`` whose parts may be charged in parallel. A row is counted once
    among the cells and once in each histogram: ``l1`` is that of the rows times 1 + the number of remaining attributes.
    """

    __slots__ = ("rows",)

    def __init__(self, rows: SealedRows, parts: Sequence[int], spare: int) -> None:
        others = [axis for axis in range(len(rows.shape)) if axis not in parts]
        pieces = [opened(rows.counts(parts))]
        cells = [rows] if not parts else rows.parts(parts)
        for part in cells:
            pieces += [opened(part.margin(axis)) for axis in others]
        pieces.append(np.zeros(spare, dtype=np.int64))
        super().__init__(np.concatenate(pieces), rows.span, rows.l1 * (1 + len(others)))
        self.rows = rows.partitioned(parts)


@hide_frames
def ordered_rows(
    columns: Sequence[NDArray[Any]], hashes: Hashes, shape: Sequence[int], t: int, max_contribution: int = 1
) -> SealedRows:
    """Close the rows of timestamp ``t`` in the order of ``hashes``, ties by content.

    ``max_contribution`` is the holder's promise that no unit has more than that many rows.
    """
    lengths = tuple(int(length) for length in shape)
    if not lengths or min(lengths) < 1 or max(lengths) > MAX_BINS_OF_ATTRIBUTE:
        raise InvalidInputError(f"table of attributes with {lengths} values: each has 1 to {MAX_BINS_OF_ATTRIBUTE}")
    if type(max_contribution) is not int or max_contribution < 1:
        raise InvalidInputError(name="max_contribution", value=max_contribution, limit="a whole number of at least 1")
    if len(columns) != len(lengths) or any(column.shape != hashes.shape for column in columns):
        raise InvalidInputError(f"table of {len(columns)} columns for {len(lengths)} attributes")
    if any(c.size and (c.min() < 0 or c.max() >= size) for c, size in zip(columns, lengths, strict=True)):
        raise InvalidInputError("table: a code lies outside its attribute")
    order = np.argsort(hashes, kind="stable")
    ranked = hashes[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.lexsort((*reversed(list(columns)), hashes))
    return SealedRows([column[order] for column in columns], hashes[order], lengths, Span(t, t), max_contribution)
