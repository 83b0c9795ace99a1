"""The people whom a presence history has in memory.

Whoever is new goes to a short table, which is joined with the long one when it has grown to a part of it: a person is
moved a few times and not with every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.presence_pairs import Words, find_pairs, insert_pairs
from veilstream.data.bounding.presence_spill import SECTION, SECTIONS_AT_ONCE, Records
from veilstream.data.bounding.private import Private

Steps = NDArray[np.int32]
SHORTEST: Final = 1 << 14
"""The short table holds so many people, or one for this part of the long one."""
PART: Final = 8


class PeopleTable(Private):
    """People by pairs of hashes, sorted by the first, with their last presences and whether they counted."""

    __slots__ = ("counted", "first", "second", "steps")

    def __init__(self, first: Words, second: Words, steps: Steps, counted: NDArray[np.bool_]) -> None:
        self.first, self.second, self.steps, self.counted = first, second, steps, counted

    @classmethod
    def empty(cls, presence: int) -> PeopleTable:
        words: Words = np.zeros(0, dtype=np.uint64)
        return cls(words, words, np.zeros((0, presence), dtype=np.int32), np.zeros(0, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.first)

    def with_people(self, other: PeopleTable) -> PeopleTable:
        """A table of the people of both; nobody is in both."""
        columns: list[tuple[NDArray[Any], NDArray[Any]]] = [
            (self.first, other.first),
            (self.second, other.second),
            (self.steps, other.steps),
            (self.counted, other.counted),
        ]
        return PeopleTable(*insert_pairs(columns))

    def since(self, step: int) -> PeopleTable:
        """Those whose last presence is not before ``step``; the same table unless most of them go."""
        current = self.steps[:, -1] >= step
        if np.count_nonzero(current) * 2 >= len(current):
            return self
        return PeopleTable(self.first[current], self.second[current], self.steps[current], self.counted[current])

    def copy(self) -> PeopleTable:
        """A table that goes on by itself."""
        return PeopleTable(self.first.copy(), self.second.copy(), self.steps.copy(), self.counted.copy())


class PresentPeople(Private):
    """Two tables, in one of which everybody is."""

    __slots__ = ("_long", "_presence", "_seen", "_short")

    def __init__(self, presence: int) -> None:
        self._presence, self._seen = presence, 0
        self._long = self._short = PeopleTable.empty(presence)

    def __len__(self) -> int:
        return len(self._long) + len(self._short)

    def clear(self) -> None:
        """Forget everybody."""
        self._long = self._short = PeopleTable.empty(self._presence)

    def advance(self, since: int) -> None:
        """Forget those who were last present before ``since``, once so many came since the last time that it pays."""
        if self._seen * 4 >= len(self):
            self._long, self._short, self._seen = self._long.since(since), self._short.since(since), 0

    def tables(self) -> tuple[PeopleTable, PeopleTable]:
        """The tables to look people up in."""
        return self._long, self._short

    def find(self, table: PeopleTable, first: Words, second: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The places of people in a table, and which of them are there."""
        return find_pairs(table.first, table.second, first, second)

    def insert(self, new: PeopleTable) -> None:
        """Take in people who are in neither table."""
        self._short = self._short.with_people(new)
        if len(self._short) > max(SHORTEST, len(self._long) // PART):
            self._join()

    def seen(self, people: int) -> None:
        """So many people were present."""
        self._seen += people

    def blocks(self, dtype: np.dtype[np.void]) -> Iterator[Records]:
        """Everybody as records, sorted; nobody's first hash is in two blocks."""
        self._join()
        table = self._long
        cuts = np.unique(np.searchsorted(table.first, table.first[:: SECTION * SECTIONS_AT_ONCE]))
        for begin, end in pairwise([*cuts.tolist(), len(table)]):
            block = np.empty(end - begin, dtype=dtype)
            block["first"], block["second"] = table.first[begin:end], table.second[begin:end]
            block["steps"], block["counted"] = table.steps[begin:end], table.counted[begin:end]
            yield block

    def copy(self) -> PresentPeople:
        """People who go on by themselves."""
        other = PresentPeople(self._presence)
        other._long, other._short, other._seen = self._long.copy(), self._short.copy(), self._seen
        return other

    def _join(self) -> None:
        if len(self._short):
            self._long, self._short = self._long.with_people(self._short), PeopleTable.empty(self._presence)
