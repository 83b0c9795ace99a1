"""Distinct people of a live stream: of a step, of its last steps, and so far.

Who was there in the last steps is a table of keyed hashes. It is stored in the commit of the spool that forgets the
rows of a step; whoever is killed before that takes the step up again, notes the same people again, and comes to the
same counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Limit, Rows, prune
from veilstream.data.bounding.distinct import WindowPeople
from veilstream.live.spool import Present, Spool
from veilstream.live.spooled import SpooledStream


class PeopleBook:
    """The people of the last steps of one live stream, a secret like its rows."""

    def __init__(self, spool: Spool, stream: SpooledStream) -> None:
        definition = stream.definition
        steps = definition.distinct_steps
        assert steps is not None
        self._people = WindowPeople(steps, definition.bins, definition.bins_per_user, stream.key)
        known = spool.present(stream)
        if known is not None:
            self._people.take(known.history)

    def counts(self, rows: Rows, step: int) -> NDArray[np.int64]:
        """The people of the last steps; a step may be asked for again until the next one was."""
        return self._people.counts(rows, step)

    def stored(self, _step: int) -> Present:
        """What is to be remembered once all steps up to this one are done."""
        return Present(0, self._people.to_bytes())


def people_of_step(rows: Rows, stream: SpooledStream, step: int) -> Rows:
    """Of every person of a step the bins that count, each once; cells are bins."""
    definition, bins = stream.definition, stream.definition.bins
    chosen = prune(rows, bins, Limit(definition.bins_per_user, 1), stream.key)
    return Rows(chosen.low, chosen.high, chosen.cell - step * bins)
