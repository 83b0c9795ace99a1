"""In which steps a person counts, by the steps in which they were present before.

A person is present in a step if one of their rows is accepted there, and counts there or not with all of them:

* under a window of w steps, if they were present in fewer than c of the w−1 steps before;
* per block, if they were present in fewer than c earlier steps of the block;
* for ever, if they were present in fewer than c earlier steps.

The rule looks back at presence, counted or not, so that a row that goes changes few later steps. It depends on one
person's own rows alone. PROOF.md, "People in few steps", proves in how many steps neighbours differ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError, OutOfOrderError
from veilstream.privacy.guarantee import Guarantee

NEVER: Final = np.iinfo(np.int32).min
"""The step of a presence that there was not."""
MAX_PRESENCE: Final = 1000
Words = NDArray[np.uint64]
Steps = NDArray[np.int32]


class PresenceHistory(Private):
    """The last c presences of everybody who may still be refused, by keyed hashes of 128 bits: a secret like the rows.

    Two of n people share a hash with probability below n²/2¹²⁸. One table holds 17 + 4c bytes for each person whose
    last presence a rule still looks back at: all people of the last w−1 steps, of the present block, or ever.

    >>> history = PresenceHistory(Guarantee(1, w=5, presence=1), key=bytes(16))
    >>> ann = Rows(np.array([7, 7]), None, np.array([0, 3]))
    >>> [history.counted(ann, step).tolist() for step in (0, 0, 3, 9)]  # the second call brings more rows of step 0
    [[True, True], [True, True], [False, False], [True, True]]
    """

    __slots__ = ("_counted", "_first", "_guarantee", "_key", "_second", "_steps", "through")

    def __init__(self, guarantee: Guarantee, key: Key | bytes) -> None:
        if guarantee.presence is None or (guarantee.per is not None and not guarantee.per.known):
            raise InvalidInputError(
                name="guarantee",
                value=str(guarantee),
                limit="it needs presence, in how many steps a person counts, and blocks placed on the calendar "
                "(see Guarantee.placed)",
                outcome="nothing was read",
            )
        if guarantee.presence > MAX_PRESENCE:
            raise InvalidInputError(
                name="presence", value=guarantee.presence, limit=f"at most {MAX_PRESENCE}", outcome="nothing was read"
            )
        self._guarantee = guarantee
        self._key = Key((key if isinstance(key, Key) else Key(key)).derive(b"presence"))
        self.through: int | None = None
        """The first step of which rows may still come."""
        self._first: Words = np.zeros(0, dtype=np.uint64)
        self._second: Words = np.zeros(0, dtype=np.uint64)
        self._steps: Steps = np.zeros((0, guarantee.presence), dtype=np.int32)
        self._counted: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    @property
    def rule(self) -> str:
        """What the table depends on besides the rows: presence, window or blocks, and which key, by a digest."""
        return json.dumps([self.presence_rule, self._key.derive(b"digest").hex()])

    @property
    def presence_rule(self) -> str | None:
        """In which steps people count; see ``Guarantee.presence_rule``."""
        return self._guarantee.presence_rule

    def __len__(self) -> int:
        """How many people are remembered. For the operator alone."""
        return len(self._first)

    def advance(self, step: int) -> None:
        """Let time pass up to ``step``: no earlier one comes any more."""
        if self.through is not None and step < self.through:
            raise OutOfOrderError(name="step", value=step, limit=f"presence was looked at up to {self.through} already")
        self.through = step
        current = self._steps[:, -1] >= self._since(step)
        if np.count_nonzero(current) * 2 < len(current):
            self._first, self._second = self._first[current], self._second[current]
            self._steps, self._counted = self._steps[current], self._counted[current]

    def counted(self, rows: Rows, step: int) -> NDArray[np.bool_]:
        """Which of ``rows``, all of ``step``, count; their people are remembered as present.

        Rows of one step may come in several calls, and the same person in each of them: the answer is the same. The
        steps of each person come in order.
        """
        if self.through is not None and step < self.through:
            raise OutOfOrderError(name="step", value=step, limit=f"presence was looked at up to {self.through} already")
        if not len(rows):
            return np.zeros(0, dtype=np.bool_)
        high: NDArray[np.uint64] | int = 0 if rows.high is None else rows.high
        first, second, person = distinct_pairs(self._key.hash(rows.low, high), self._key.hash(rows.low, high, 1))
        return self.people_counted(first, second, step)[person]

    def people_counted(self, first: Words, second: Words, step: int) -> NDArray[np.bool_]:
        """Whether each of these different people, pairs of hashes sorted by the first, counts at ``step``."""
        place, known = find_pairs(self._first, self._second, first, second)
        answer = np.ones(len(first), dtype=np.bool_)
        seen = place[known]
        last = self._steps[seen, -1]
        if (last > step).any():
            raise OutOfOrderError(name="step", value=step, limit="a person was looked at in a later step already")
        again = last == step
        decided = self._steps[seen, 0] < self._since(step)
        answer[known] = np.where(again, self._counted[seen], decided)
        fresh = seen[~again]
        self._steps[fresh, :-1] = self._steps[fresh, 1:]
        self._steps[fresh, -1] = step
        self._counted[seen] = answer[known]
        self._insert(first[~known], second[~known], step)
        return answer

    def _since(self, step: int) -> int:
        """The first step that the rule looks back at."""
        guarantee = self._guarantee
        if guarantee.per is not None:
            return guarantee.per.first_of(step)
        return NEVER + 1 if guarantee.w is None else step - guarantee.w + 1

    def _insert(self, first: Words, second: Words, step: int) -> None:
        if not len(first):
            return
        last = np.full((len(first), self._steps.shape[1]), NEVER, dtype=np.int32)
        last[:, -1] = step
        fresh = np.ones(len(first), dtype=np.bool_)
        columns: list[tuple[NDArray[Any], NDArray[Any]]] = [(self._first, first), (self._second, second)]
        columns += [(self._steps, last), (self._counted, fresh)]
        self._first, self._second, self._steps, self._counted = insert_pairs(columns)

    def copy(self) -> PresenceHistory:
        """A history that goes on by itself."""
        other = PresenceHistory.__new__(PresenceHistory)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, np.ndarray) else value)
        return other

    def table(self) -> dict[str, NDArray[np.generic]]:
        """The columns to be stored among secrets, to which ``restored`` goes back."""
        return {"first": self._first, "second": self._second, "steps": self._steps, "counted": self._counted}

    def restored(self, table: dict[str, NDArray[np.generic]], through: int | None) -> PresenceHistory:
        """A history of the same guarantee and key that goes on after ``through`` from a stored table."""
        other = self.copy()
        people = len(table["first"])
        shapes = {
            "first": (people,),
            "second": (people,),
            "steps": (people, self._steps.shape[1]),
            "counted": (people,),
        }
        for name, shape in shapes.items():
            column = table[name].astype(getattr(self, f"_{name}").dtype, casting="safe")
            if column.shape != shape:
                raise InvalidInputError(
                    name="presence history", value=name, limit=f"of shape {column.shape}, where {shape} is needed"
                )
            setattr(other, f"_{name}", column)
        other.through = through
        return other


def find_pairs(
    known_first: Words, known_second: Words, first: Words, second: Words
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of pairs in a table that is sorted by the first, and which of them are there."""
    place = np.searchsorted(known_first, first)
    known = np.zeros(len(first), dtype=np.bool_)
    if not len(known_first):
        return place, known
    open_ = np.arange(len(first))
    while len(open_):
        open_ = open_[place[open_] < len(known_first)]
        open_ = open_[known_first[place[open_]] == first[open_]]
        same = known_second[place[open_]] == second[open_]
        known[open_[same]] = True
        # Two people with one first hash: the next place may be the other's.
        open_ = open_[~same]
        place[open_] += 1
    return place, known


def insert_pairs(columns: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> list[NDArray[Any]]:
    """Columns of a table with new entries; the first column is sorted, and so are the new entries by it."""
    known, new = columns[0]
    # Both are sorted: the new ones go where they would be among the old ones, one after another.
    place = np.searchsorted(known, new) + np.arange(len(new))
    old = np.ones(len(known) + len(new), dtype=np.bool_)
    old[place] = False
    merged: list[NDArray[Any]] = []
    for before, added in columns:
        column = np.empty((len(old), *before.shape[1:]), dtype=before.dtype)
        column[old], column[~old] = before, added
        merged.append(column)
    return merged


def distinct_pairs(first: Words, second: Words) -> tuple[Words, Words, NDArray[np.int64]]:
    """The different pairs, sorted by the first, and which of them each row has."""
    order = np.argsort(first, kind="stable")
    a, b = first[order], second[order]
    if ((a[1:] == a[:-1]) & (b[1:] != b[:-1])).any():
        order = np.lexsort((second, first))
        a, b = first[order], second[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    person = np.empty(len(order), dtype=np.int64)
    person[order] = np.cumsum(fresh) - 1
    return a[fresh], b[fresh], person
