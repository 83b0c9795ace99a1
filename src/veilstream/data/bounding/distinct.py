"""Distinct people: at each step, and over the last steps.

Of a person's rows at a step the k bins with the smallest keyed hash count, each once. Over the last m steps a person
counts in the bins of their latest step among these, once in each, however often they came.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Integers, Limit, Rows, dense_rank, prune
from veilstream.data.bounding.counted import Run, counted, merged
from veilstream.data.bounding.keyed import Key, KeyedHash
from veilstream.data.bounding.presence_pairs import Words, distinct_pairs, find_pairs, insert_pairs
from veilstream.data.bounding.private import Private
from veilstream.data.bounding.runs import MAX_ROWS_AT_ONCE, Runs, join
from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, LedgerError


def movement_of_people(bins: int, bins_per_user: int, steps: int) -> int:
    """How far one person moves the counts of distinct people over the last ``steps`` steps, in the L1 norm.

    A person who was not there at the latest of several steps may count in other bins instead: that moves twice as many.

    >>> movement_of_people(5, 2, 1), movement_of_people(5, 2, 7), movement_of_people(1, 1, 7)
    (2, 4, 1)
    """
    return 1 if bins == 1 else bins_per_user if steps == 1 else 2 * bins_per_user


def check_people(distinct: int | None, measures: ValueMeasures | None, *, limited: bool = False) -> None:
    """Refuse a number of steps that is none, and people where columns are measured; those of several last steps also
    where the steps in which people count are ``limited``."""
    if distinct is not None and (type(distinct) is not int or distinct < 1 or measures is not None):
        raise InvalidInputError(
            name="distinct",
            value=distinct,
            limit="a whole number of steps from 1, without columns that are measured",
            outcome="nothing was read",
        )
    if limited and distinct not in (None, 1):
        raise InvalidInputError(
            name="distinct",
            value=distinct,
            limit="people of the last steps are protected by a window, not by a presence",
            outcome="nothing was read",
        )


class WindowPeople(Private):
    """Who was there in the last ``steps`` steps and in which bins, by keyed hashes of 128 bits: a secret like the rows.

    The table holds 20 + 8k bytes for each person of the last steps, k being the bins that one person counts in.

    >>> people = WindowPeople(steps=2, bins=3, bins_per_user=1, key=Key(bytes(16)))
    >>> here = Rows(np.array([7, 8]), None, np.array([0, 2]))
    >>> people.counts(here, 0).tolist(), people.counts(here.where(np.array([1])), 1).tolist()
    ([1, 0, 1], [1, 0, 1])
    >>> people.counts(Rows(np.array([9]), None, np.array([1])), 2).tolist()
    [0, 1, 1]
    """

    __slots__ = ("_bins", "_first", "_key", "_last", "_second", "_shown", "_steps")

    def __init__(self, steps: int, bins: int, bins_per_user: int, key: Key) -> None:
        self._steps, self._bins = steps, bins
        self._key = Key(key.derive(b"distinct"))
        self._first: Words = np.zeros(0, dtype=np.uint64)
        self._second: Words = np.zeros(0, dtype=np.uint64)
        self._last: Integers = np.zeros(0, dtype=np.int64)
        self._shown: Integers = np.zeros((0, min(bins_per_user, bins)), dtype=np.int64)

    def counts(self, rows: Rows, step: int) -> Integers:
        """The people of the steps up to ``step`` in every bin; ``rows`` are those of ``step``, a bin of a person once.

        Steps come in order, and the cells of the rows are bins.
        """
        current = self._last > step - self._steps
        if np.count_nonzero(current) * 2 < len(current):
            self._first, self._second = self._first[current], self._second[current]
            self._last, self._shown = self._last[current], self._shown[current]
        if len(rows):
            self._note(rows, step)
        shown = self._shown[self._last > step - self._steps]
        return np.bincount(shown[shown >= 0], minlength=self._bins).astype(np.int64, copy=False)

    def noted(self, step: int) -> bytes:
        """The people whose latest step this is, with their bins, for whoever goes on later: as secret as the rows.

        >>> people = WindowPeople(steps=2, bins=3, bins_per_user=1, key=Key(bytes(16)))
        >>> _ = people.counts(Rows(np.array([7]), None, np.array([0])), 0)
        >>> again = WindowPeople(steps=2, bins=3, bins_per_user=1, key=Key(bytes(16)))
        >>> again.recall(0, people.noted(0))
        >>> again.counts(Rows(np.array([8]), None, np.array([2])), 1).tolist()
        [1, 0, 1]
        """
        mine = self._last == step
        words = np.column_stack([self._first[mine], self._second[mine], self._shown[mine].astype(np.uint64)])
        return words.astype("<u8").tobytes()

    def recall(self, step: int, noted: bytes) -> None:
        """Take the people that were ``noted`` of a step; steps come in order."""
        width = 2 + self._shown.shape[1]
        if len(noted) % (8 * width):
            raise LedgerError("people of the last steps: what is stored is damaged; restore the spool from a backup")
        words = np.frombuffer(noted, "<u8").astype(np.uint64).reshape(-1, width)
        self._insert(words[:, 0].copy(), words[:, 1].copy(), words[:, 2:].astype(np.int64), step)

    def _note(self, rows: Rows, step: int) -> None:
        high: NDArray[np.uint64] | int = 0 if rows.high is None else rows.high
        first, second, person = distinct_pairs(self._key.hash(rows.low, high), self._key.hash(rows.low, high, 1))
        order = np.argsort(person, kind="stable")
        ordered = person[order]
        place = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        shown = np.full((len(first), self._shown.shape[1]), -1, dtype=np.int64)
        shown[ordered, place] = rows.cell[order]
        self._insert(first, second, shown, step)

    def _insert(self, first: Words, second: Words, shown: Integers, step: int) -> None:
        at, known = find_pairs(self._first, self._second, first, second)
        self._last[at[known]], self._shown[at[known]] = step, shown[known]
        new = ~known
        columns: list[tuple[NDArray[Any], NDArray[Any]]] = [(self._first, first[new]), (self._second, second[new])]
        columns += [(self._last, np.full(int(new.sum()), step)), (self._shown, shown[new])]
        self._first, self._second, self._last, self._shown = insert_pairs(columns)


def changes_of_people(rows: Rows, bins: int, most: int, last: int, steps: range, key: KeyedHash) -> Run:
    """How the numbers of distinct people over the ``last`` steps change from each of ``steps`` to the next.

    ``rows`` are all that some people have, and a person counts in at most ``most`` bins. The result are cells in
    order and by how much they change; before the first of ``steps`` all numbers are zero.

    >>> rows = Rows(np.array([7, 7]), None, np.array([0, 5]))
    >>> changes_of_people(rows, 2, 1, 3, range(0, 8), KeyedHash(bytes(16)))
    (array([ 0,  4,  5, 11]), array([ 1, -1,  1, -1]))
    """
    once = prune(rows, bins, Limit(most, 1), key)
    person, _, _ = dense_rank(once)
    order = np.lexsort((once.cell, person))
    person, cell = person[order], once.cell[order]
    step = cell // bins
    visits = np.flatnonzero(np.diff(person, prepend=-1) | np.diff(step, prepend=-1))
    # A visit shows until the next one of the same person, and for ``last`` steps at most.
    following = step[visits] + last
    same = np.flatnonzero(np.diff(person[visits]) == 0)
    following[same] = np.minimum(following[same], step[visits[same + 1]])
    end = np.repeat(following, np.diff(visits, append=len(cell)))
    place = cell - step * bins
    shown = (end > steps.start) & (step < steps.stop)
    gone = shown & (end < steps.stop)
    begins, ends = counted((np.maximum(step, steps.start) * bins + place)[shown]), counted((end * bins + place)[gone])
    return merged([begins, (ends[0], -ends[1])])


def people_of_part(runs: Runs, part: int, bins_per_user: int, key: Key) -> Iterator[tuple[int, Rows, int]]:
    """For each step of a part its people and the bins that they count in, and how many rows of the part count."""
    shards = -(-runs.rows(part) // MAX_ROWS_AT_ONCE) or 1
    limit = Limit(bins_per_user, 1)
    rows = join([prune(runs.load(part, shard, shards), runs.bins, limit, key) for shard in range(shards)])
    steps = runs.steps_of(part)
    order = np.argsort(rows.cell // runs.bins, kind="stable")
    ends = np.searchsorted(rows.cell[order] // runs.bins, np.array([*steps, steps.stop]))
    for step, (first, after) in zip(steps, pairwise(ends.tolist()), strict=True):
        here = rows.where(order[first:after])
        yield step, Rows(here.low, here.high, here.cell - step * runs.bins), len(rows)
