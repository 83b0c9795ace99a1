"""Who was present in the steps of a live stream: decides who counts in the next one, and survives a kill.

The history as of the next step is stored in the commit of the spool that forgets the rows of the last one. Whoever is
killed before that takes the step up again with the history as it was, and comes to the same counts.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_store import read_history, write_history
from veilstream.live.spool import Present, Spool
from veilstream.live.spooled import SpooledStream


class PresenceBook:
    """The presence history of one live stream, a secret like its rows."""

    def __init__(self, spool: Spool, stream: SpooledStream) -> None:
        self._history = PresenceHistory(stream.definition.guarantee, stream.key)
        self._left_out: dict[int, int] = {}
        self._before = 0
        known = spool.present(stream)
        if known is not None:
            self._history = read_history(BytesIO(known.history), self._history, f"of stream {stream.definition.name}")
            self._before = known.left_out

    def counting(self, rows: Rows, step: int) -> Rows:
        """The rows of a step whose people count in it; a step may be asked for again until the next one was."""
        self._history.advance(step)
        counted = self._history.counted(rows, step)
        self._left_out[step] = len(rows) - int(np.count_nonzero(counted))
        return rows.where(counted)

    def stored(self, step: int) -> Present:
        """What is to be remembered once all steps up to ``step`` are done."""
        done = [number for number in self._left_out if number <= step]
        self._before += sum(self._left_out.pop(number) for number in done)
        content = BytesIO()
        write_history(content, self._history)
        return Present(self._before, content.getvalue())
