"""Exact records of a domain too large to list, in an opaque set that knows how far one unit can move it.

A dense histogram of 1000⁸ cells cannot exist, so ``Sealed`` alone does not reach it. All that the methods for such
domains need of the data is a *function from records to public labels*: which node of a tree a record falls in, which
value of one attribute it has, which block of a coarser grid it lies in. Whatever the function, counting records by
label is a linear map whose columns have at most one entry 1, so a unit that moves the records by ``l1`` moves the
counts by at most ``l1``: this is the whole argument, and it needs no look at the labels. How many distinct cells are
filled is private; hence there is no length here, and the counts of a public number of labels come back as ``Sealed``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError, UnknownValueError
from veilstream.privacy.charge import Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque
from veilstream.values.boxes import cells_of, require_dense

Integers = NDArray[np.int64]


class SealedRecords(Opaque[tuple[Integers, Integers, Integers]]):
    """Exact counts of the filled cells of a public domain ``shape``, read from the timestamps in ``span``.

    At any single timestamp one unit contributes at most ``l1`` records. Every record carries one of ``groups`` labels
    (at first all are in group 0); ``split`` refines the labels by public cuts.

    >>> records = seal_records(np.array([[3, 999], [3, 998], [700, 2]]), (1000, 1000), t=0)
    >>> records
    SealedRecords(shape=1000x1000, span=0..0, l1=1, groups=1)
    >>> halves = records.split(axis=np.array([0]), cut=np.array([500]), below=np.array([0]), above=np.array([1]))
    >>> halves.groups, halves.counts()
    (2, Sealed(size=2, span=0..0, l1=1))
    >>> len(records)
    Traceback (most recent call last):
    ...
    veilstream.errors.SealedAccessError: exact records cannot be read; ask the Meter for a noisy answer
    """

    __slots__ = ("groups", "l1", "shape", "span")
    contents: ClassVar[str] = "records"

    def __init__(
        self,
        cells: Integers,
        counts: Integers,
        shape: tuple[int, ...],
        span: Span,
        l1: Fraction,
        *,
        labels: Integers | None = None,
        groups: int = 1,
    ) -> None:
        super().__init__((cells, counts, np.zeros(counts.size, dtype=np.int64) if labels is None else labels))
        self.shape = shape
        self.span = span
        self.l1 = l1
        self.groups = groups

    def split(self, axis: Integers, cut: Integers, below: Integers, above: Integers) -> SealedRecords:
        """New labels: a record of group g gets ``below[g]`` if its coordinate on ``axis[g]`` is under ``cut[g]``, else
        ``above[g]``."""
        for name, given in (("axis", axis), ("cut", cut), ("below", below), ("above", above)):
            self._one_per_group(name, given)
        cells, counts, labels = opened(self)
        right = cells[np.arange(counts.size), axis[labels]] >= cut[labels]
        split = np.where(right, above[labels], below[labels])
        groups = 1 + max(int(below.max()), int(above.max()))
        return SealedRecords(cells, counts, self.shape, self.span, self.l1, labels=split, groups=groups)

    def counts(self) -> Sealed:
        """Records per group."""
        _, counts, labels = opened(self)
        counted = labels >= 0
        summed = np.zeros(self.groups, dtype=np.int64)
        np.add.at(summed, labels[counted], counts[counted])
        return Sealed(summed, self.span, self.l1)

    def project(self, axes: Sequence[int]) -> SealedRecords:
        """The same records on some attributes only, all in one group."""
        chosen = list(axes)
        if not chosen or sorted(set(chosen)) != sorted(chosen) or not set(chosen) <= set(range(len(self.shape))):
            raise InvalidInputError(
                name="project on", value=chosen, limit=f"distinct attributes from 0 to {len(self.shape) - 1} are needed"
            )
        return self._gather(opened(self)[0][:, chosen], tuple(self.shape[axis] for axis in chosen))

    def coarser(self, shift: int) -> SealedRecords:
        """The same records on a grid whose cells are 2^shift wide on every attribute, all in one group."""
        if shift < 0:
            raise InvalidInputError(f"coarser by 2^{shift}: the power must be at least 0")
        return self._gather(opened(self)[0] >> shift, tuple(1 + (length - 1 >> shift) for length in self.shape))

    def dense(self) -> Sealed:
        """The histogram over all cells, for domains that can be listed."""
        require_dense(self.shape)
        cells, filled, _ = opened(self)
        flat = np.ravel_multi_index(tuple(cells.T), self.shape).astype(np.int64)
        counts = np.bincount(flat, weights=filled, minlength=cells_of(self.shape))
        return Sealed(np.rint(counts).astype(np.int64), self.span, self.l1, shape=self.shape)

    def _gather(self, cells: Integers, shape: tuple[int, ...]) -> SealedRecords:
        merged, counts = gathered(cells, opened(self)[1], shape)
        return SealedRecords(merged, counts, shape, self.span, self.l1)

    def _one_per_group(self, name: str, given: Integers) -> None:
        if given.shape != (self.groups,):
            raise InvalidInputError(f"{name} of shape {given.shape} for {self.groups} groups")

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return (
            f"SealedRecords(shape={shape}, span={self.span.first}..{self.span.last}, l1={self.l1}, "
            f"groups={self.groups})"
        )


@hide_frames
def seal_records(records: NDArray[Any], shape: Sequence[int], t: int, max_contribution: int = 1) -> SealedRecords:
    """Close the records of timestamp ``t``: one row of whole coordinates each, 0 ≤ coordinate < ``shape``.

    ``max_contribution`` is the holder's promise that no unit has more than that many rows.
    """
    lengths = tuple(int(length) for length in shape)
    if not lengths or min(lengths) < 1 or max(lengths) > 1 << 40:
        raise InvalidInputError(name="domain", value=lengths, limit="every attribute has from 1 to 2^40 values")
    if type(max_contribution) is not int or max_contribution < 1:
        raise InvalidInputError(name="max_contribution", value=max_contribution, limit="a whole number of at least 1")
    rows = np.asarray(records)
    if rows.ndim != 2 or rows.shape[1] != len(lengths) or (rows.size and rows.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"records of {rows.ndim} axes and type {rows.dtype}: rows of {len(lengths)} whole numbers are needed"
        )
    cells = rows.astype(np.int64)
    if bool((cells < 0).any() or (cells >= np.array(lengths)).any()):
        raise UnknownValueError(f"records: a coordinate lies outside the domain {lengths}")
    merged, counts = gathered(cells, np.ones(len(cells), dtype=np.int64), lengths)
    return SealedRecords(merged, counts, lengths, Span(t, t), Fraction(max_contribution))


def cell_keys(cells: Integers, shape: tuple[int, ...]) -> Integers:
    """Cells as rows of as few 64-bit numbers as can tell them apart, in the same order."""
    keys: list[Integers] = []
    room = 0
    for axis, length in enumerate(shape):
        if length > room:
            keys.append(np.zeros(len(cells), dtype=np.int64))
            room = (1 << 63) - 1
        keys[-1] = keys[-1] * length + cells[:, axis]
        room //= length
    return np.stack(keys, axis=1)


def sorted_runs(keys: Integers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """A stable order of the rows, and in that order whether each differs from the one before."""
    order = np.lexsort(keys.T[::-1])
    ranked = keys[order]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    return order, new


def gathered(cells: Integers, counts: Integers, shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Every cell once, in order, with the sum of its counts."""
    if len(cells) == 0:
        return cells.reshape(0, len(shape)), counts
    order, new = sorted_runs(cell_keys(cells, shape))
    return cells[order[new]], np.add.reduceat(counts[order], np.flatnonzero(new))
