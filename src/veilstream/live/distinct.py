"""Distinct people of a live stream: of a step, of its last steps, and so far.

Who was there in the last steps is a table of keyed hashes. The people of a step are noted in the commit of the spool
that forgets its rows; whoever is killed before that takes the step up again, notes the same people again, and comes to
the same counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Limit, Rows, prune
from veilstream.data.bounding.distinct import WindowPeople
from veilstream.data.bounding.private import Private
from veilstream.live.spool import Spool
from veilstream.live.spool_people import PeopleNotes
from veilstream.live.spooled import SpooledStream


class PeopleBook(Private):
    """The people of the last steps of one live stream, a secret like its rows."""

    __slots__ = ("_asked", "_people", "_spool", "_steps", "_stored", "_stream")

    def __init__(self, spool: Spool, stream: SpooledStream) -> None:
        steps = stream.definition.distinct_steps
        assert steps is not None
        self._spool, self._stream, self._steps = spool, stream, steps
        self._load(stream.done)

    def _load(self, done: int) -> None:
        """Read who was there in the last steps before ``done``."""
        definition = self._stream.definition
        self._people = WindowPeople(self._steps, definition.bins, definition.bins_per_user, self._stream.key)
        for step, noted in self._spool.people(self._stream, done - self._steps + 1, done):
            self._people.recall(step, noted)
        self._asked = self._stored = done - 1

    def counts(self, rows: Rows, step: int) -> NDArray[np.int64]:
        """The people of the last steps; a step may be asked for again until the next one was."""
        if step <= self._stored or step not in (self._asked, self._asked + 1):
            # What was to be stored is not, or another process has closed steps meanwhile.
            self._load(step)
        self._asked = step
        return self._people.counts(rows, step)

    def stored(self, step: int) -> PeopleNotes:
        """What is to be remembered once all steps up to ``step`` are done."""
        notes = {number: self._people.noted(number) for number in range(self._stored + 1, step + 1)}
        self._stored = step
        return PeopleNotes(notes, step - self._steps + 2)


def people_of_step(rows: Rows, stream: SpooledStream, step: int) -> Rows:
    """Of every person of a step the bins that count, each once; cells are bins."""
    definition, bins = stream.definition, stream.definition.bins
    chosen = prune(rows, bins, Limit(definition.bins_per_user, 1), stream.key)
    return Rows(chosen.low, chosen.high, chosen.cell - step * bins)
