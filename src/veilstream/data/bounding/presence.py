"""In which steps a person counts, by the steps in which they were present before.

A person is present in a step if one of their rows is accepted there, and counts there or not with all of them:

* under a window of w steps, if they were present in fewer than c of the w−1 steps before;
* per block, if they were present in fewer than c earlier steps of the block;
* for ever, if they were present in fewer than c earlier steps.

The rule looks back at presence, counted or not, so that a row that goes changes few later steps. It depends on one
person's own rows alone. PROOF.md, "People in few steps", proves in how many steps neighbours differ.

What does not fit in memory goes to sorted runs in files (``presence_spill``): whoever was seen last is in memory, and
whoever comes again is looked for there, then in the runs from the newest to the oldest. The first record that is
found is the newest, and is in memory from then on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.presence_pairs import Words, distinct_pairs
from veilstream.data.bounding.presence_spill import Records, SortedRun, merged_blocks, record_type, spilled_run
from veilstream.data.bounding.presence_table import PeopleTable, PresentPeople, Steps
from veilstream.data.bounding.private import Private
from veilstream.errors import InvalidInputError, OutOfOrderError
from veilstream.privacy.guarantee import Guarantee

NEVER: Final = np.iinfo(np.int32).min
"""The step of a presence that there was not."""
MAX_PRESENCE: Final = 1000
MEMORY_BYTES: Final = 512 << 20
"""What a history may take in memory before it goes on in files."""
PEOPLE_AT_ONCE: Final = 1 << 20
"""How many people are looked up and inserted together."""


class Journal(Protocol):
    """Takes down who was present before that counts."""

    def note(self, step: int, first: Words, second: Words) -> None:
        """These people were present at ``step``."""
        ...


class PresenceHistory(Private):
    """The last c presences of everybody who may still be refused, by keyed hashes of 128 bits: a secret like the rows.

    Two of n people share a hash with probability below n²/2¹²⁸. A table holds 17 + 4c bytes for each person whose
    last presence a rule still looks back at: all people of the last w−1 steps, of the present block, or ever. It takes
    up to about ``memory_bytes`` while it grows; beyond that it goes to unnamed files of mode 0600 in ``directory``,
    with the same answers. The rows that are asked about come on top.

    >>> history = PresenceHistory(Guarantee(1, w=5, presence=1), key=bytes(16))
    >>> ann = Rows(np.array([7, 7]), None, np.array([0, 3]))
    >>> [history.counted(ann, step).tolist() for step in (0, 0, 3, 9)]  # the second call brings more rows of step 0
    [[True, True], [True, True], [False, False], [True, True]]
    """

    __slots__ = (
        "_directory",
        "_dtype",
        "_guarantee",
        "_key",
        "_memory_bytes",
        "_people",
        "_runs",
        "journal",
        "through",
    )

    def __init__(
        self,
        guarantee: Guarantee,
        key: Key | bytes,
        memory_bytes: int = MEMORY_BYTES,
        directory: str | Path | None = None,
    ) -> None:
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
        self.journal: Journal | None = None
        """Where people are noted as present before the answer is given."""
        self._memory_bytes, self._directory, self._dtype = memory_bytes, directory, record_type(guarantee.presence)
        self._runs: tuple[SortedRun, ...] = ()
        self._people = PresentPeople(guarantee.presence)

    @property
    def rule(self) -> str:
        """What the table depends on besides the rows: presence, window or blocks, and which key, by a digest."""
        return json.dumps([self.presence_rule, self._key.derive(b"digest").hex()])

    @property
    def presence_rule(self) -> str | None:
        """In which steps people count; see ``Guarantee.presence_rule``."""
        return self._guarantee.presence_rule

    def __len__(self) -> int:
        """How many records there are: people who are in memory and in files count several times. For the operator
        alone."""
        return len(self._people) + sum(len(run) for run in self._runs)

    @property
    def memory(self) -> int:
        """How many bytes the table takes in memory."""
        return len(self._people) * self._dtype.itemsize

    @property
    def size(self) -> int:
        """How many bytes all records take, in memory and in files."""
        return len(self) * self._dtype.itemsize

    def advance(self, step: int) -> None:
        """Let time pass up to ``step``: no earlier one comes any more."""
        if self.through is not None and step < self.through:
            raise OutOfOrderError(name="step", value=step, limit=f"presence was looked at up to {self.through} already")
        self.through = step
        since = self.since(step)
        self._runs = tuple(run for run in self._runs if run.latest >= since)
        self._people.advance(since)

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
        if self.journal is not None:
            self.journal.note(step, first, second)
        answer = np.empty(len(first), dtype=np.bool_)
        for start in range(0, len(first), PEOPLE_AT_ONCE):
            part = slice(start, start + PEOPLE_AT_ONCE)
            answer[part] = self._present(first[part], second[part], step)
            # While people are inserted there are two tables.
            if self.memory * 2 > self._memory_bytes:
                self._spill()
        return answer

    def _present(self, first: Words, second: Words, step: int) -> NDArray[np.bool_]:
        answer = np.empty(len(first), dtype=np.bool_)
        unknown = np.arange(len(first))
        for table in self._people.tables():
            place, here = self._people.find(table, first[unknown], second[unknown])
            seen, steps = place[here], table.steps[place[here]]
            answer[unknown[here]] = table.counted[seen] = self._answered(steps, table.counted[seen], step)
            table.steps[seen] = steps
            unknown = unknown[~here]
        self._people.seen(len(first))
        if len(unknown):
            steps, before = self._recalled(first[unknown], second[unknown])
            answer[unknown] = self._answered(steps, before, step)
            self._people.insert(PeopleTable(first[unknown], second[unknown], steps, answer[unknown]))
        return answer

    def _answered(self, steps: Steps, before: NDArray[np.bool_], step: int) -> NDArray[np.bool_]:
        """Whether people with these last presences count at ``step``, which becomes the last of them."""
        if (steps[:, -1] > step).any():
            raise OutOfOrderError(name="step", value=step, limit="a person was looked at in a later step already")
        again = steps[:, -1] == step
        answer = np.where(again, before, steps[:, 0] < self.since(step))
        steps[~again, :-1] = steps[~again, 1:]
        steps[~again, -1] = step
        return answer

    def _recalled(self, first: Words, second: Words) -> tuple[Steps, NDArray[np.bool_]]:
        """The last presences of people who are not in memory, and whether they counted in the last one."""
        steps = np.full((len(first), self._dtype["steps"].shape[0]), NEVER, dtype=np.int32)
        counted = np.zeros(len(first), dtype=np.bool_)
        unknown = np.arange(len(first))
        for run in reversed(self._runs):
            places, records = run.find(first[unknown], second[unknown])
            steps[unknown[places]], counted[unknown[places]] = records["steps"], records["counted"]
            unknown = np.delete(unknown, places)
        return steps, counted

    def since(self, step: int) -> int:
        """The first step that the rule looks back at."""
        guarantee = self._guarantee
        if guarantee.per is not None:
            return guarantee.per.first_of(step)
        return NEVER + 1 if guarantee.w is None else step - guarantee.w + 1

    def _spill(self) -> None:
        """Put what is in memory into a run, and merge runs until each is more than twice as long as the next."""
        runs = [*self._runs, spilled_run(self._people.blocks(self._dtype), self._dtype, self._directory)]
        self._people.clear()
        since = NEVER if self.through is None else self.since(self.through)
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            newer, older = runs.pop(), runs.pop()
            blocks = merged_blocks(newer.blocks(), older.blocks(), since)
            runs.append(spilled_run(blocks, self._dtype, self._directory))
        self._runs = tuple(runs)

    def blocks(self) -> Iterator[Records]:
        """The records of everybody whom the rule still looks back at, sorted, to be stored among secrets."""
        since = NEVER if self.through is None else self.since(self.through)
        found: Iterator[Records] = iter(())
        for newer in (*(run.blocks() for run in self._runs), self._people.blocks(self._dtype)):
            found = merged_blocks(newer, found, since)
        return found

    def copy(self) -> PresenceHistory:
        """A history that goes on by itself."""
        other = PresenceHistory.__new__(PresenceHistory)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, PresentPeople) else value)
        return other

    @property
    def records(self) -> np.dtype[np.void]:
        """How a record is laid out; see ``record_type``."""
        return self._dtype

    def restored(self, run: SortedRun, through: int | None) -> PresenceHistory:
        """A history of the same guarantee and key that goes on after ``through`` from a stored run."""
        other = self.copy()
        other._people.clear()
        other._runs, other.through = (run,), through
        return other
