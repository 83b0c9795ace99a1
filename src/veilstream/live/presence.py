"""Who was present in the steps of a live stream: decides who counts in the next one, and survives a kill.

Who was present in a step is noted in the commit of the spool that forgets its rows. Whoever is killed before that takes
the step up again with the history as it was, and comes to the same counts. What a step costs is what its people cost:
the whole history is written only where the notes since the last time have grown to more than it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_pairs import Words
from veilstream.data.bounding.private import Private
from veilstream.live.spool import Spool
from veilstream.live.spool_presence import People, Present
from veilstream.live.spooled import SpooledStream

MEMORY_BYTES: Final = 256 << 20
"""What the history of a stream may take in memory before it goes on in files."""
PENDING_BYTES: Final = 64 << 20
"""Notes of steps that are not done yet: beyond that they are stored before further steps are taken."""
FEWEST_BYTES: Final = 1 << 20
"""Notes of so many bytes are read at once: for less no image is written."""


class PresenceBook(Private):
    """The presence history of one live stream, a secret like its rows."""

    __slots__ = (
        "_asked",
        "_history",
        "_left_out",
        "_left_out_before",
        "_notes",
        "_sizes",
        "_spool",
        "_stored",
        "_stream",
        "_to_convert",
    )

    def __init__(self, spool: Spool, stream: SpooledStream) -> None:
        self._spool, self._stream = spool, stream
        self._load(stream.done)

    def _load(self, done: int) -> None:
        """Read what is stored of the steps before ``done``."""
        guarantee, key = self._stream.definition.guarantee, self._stream.key
        empty = PresenceHistory(guarantee, key, MEMORY_BYTES, self._spool.folder)
        known = self._spool.present(self._stream, done, empty)
        self._history, self._left_out_before = known.history, known.left_out
        self._sizes, self._to_convert = known.sizes, known.to_convert
        self._history.journal = self
        self._asked = self._stored = done - 1
        self._notes: dict[int, People] = {}
        self._left_out: dict[int, int] = {}

    def counting(self, rows: Rows, step: int) -> Rows:
        """The rows of a step whose people count in it; a step may be asked for again until the next one was."""
        if step <= self._stored or step not in (self._asked, self._asked + 1):
            # What was to be stored is not, or another process has closed steps meanwhile.
            self._load(step)
        self._asked = step
        self._history.advance(step)
        counted = self._history.counted(rows, step)
        self._left_out[step] = len(rows) - int(np.count_nonzero(counted))
        return rows.where(counted)

    def note(self, step: int, first: Words, second: Words) -> None:
        """These people were present at ``step``."""
        self._notes[step] = People(first, second)

    @property
    def full(self) -> bool:
        """Whether so many notes wait that they should be stored before further steps are taken."""
        return sum(people.size for people in self._notes.values()) > PENDING_BYTES

    def stored(self, step: int) -> Present:
        """What is to be remembered once all steps up to ``step`` are done."""
        self._stored = step
        done = [number for number in self._left_out if number <= step]
        self._left_out_before += sum(self._left_out.pop(number) for number in done)
        notes = {number: self._notes.pop(number) for number in sorted(self._notes) if number <= step}
        since = self._history.since(step + 1)
        sizes = {**self._sizes, **{number: people.size for number, people in notes.items()}}
        self._sizes = {number: size for number, size in sizes.items() if number >= since}
        image = None
        if self._to_convert or sum(self._sizes.values()) > FEWEST_BYTES + 2 * self._history.size:
            image = self._spool.write_image(self._stream, self._history.blocks())
            self._sizes, self._to_convert = {}, False
        return Present(self._history.rule, self._left_out_before, notes, since, step + 1, image)
