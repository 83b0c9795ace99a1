"""Events sorted by step, of which those are left out whose person counts no more at that step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.runs import Runs
from veilstream.data.encoding import Dropped


class PresentRuns(Runs):
    """Runs that leave by part what counts under a presence history; parts are read in order, as often as wanted.

    Steps that the history has passed were counted when they came: none of their rows counts again.
    ``first_step`` is the number that the calendar's first step has in the history.
    """

    def __init__(
        self,
        steps: int,
        bins: int,
        memory_bytes: int,
        directory: str | Path | None,
        *,
        history: PresenceHistory,
        first_step: int,
        dropped: Dropped,
    ) -> None:
        super().__init__(steps, bins, memory_bytes, directory)
        self.history = history
        self._before, self._first_step, self._dropped = history, first_step, dropped

    def rows_that_may_count(self, part: int) -> int:
        """None of a part whose steps the history has passed."""
        passed = self._before.through or 0
        return 0 if self._first_step + self.steps_of(part).stop <= passed else self.rows(part)

    def load(self, part: int, shard: int = 0, shards: int = 1) -> Rows:
        """The rows of a part, or of the people of one shard of it, that count."""
        if part == 0 and shard == 0:
            self.history = self._before.copy()
            self._dropped.presence = 0
        rows, steps = super().load(part, shard, shards), self.steps_of(part)
        passed = self._before.through or 0
        if shard == 0:
            self.history.advance(max(passed, self._first_step + steps.start))
        counted = np.zeros(len(rows), dtype=np.bool_)
        step_of = rows.cell // self.bins
        for step in steps:
            if self._first_step + step >= passed:
                here = np.flatnonzero(step_of == step)
                counted[here] = self.history.counted(rows.where(here), self._first_step + step)
                self._dropped.presence += len(here) - int(np.count_nonzero(counted[here]))
        return rows.where(counted)
