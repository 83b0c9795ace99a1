"""A source of a stream as the server runs and watches it."""

from __future__ import annotations

from veilstream.live.sources import Source, SourceState, follow
from veilstream.live.stream import Inlet
from veilstream.server.workers import Worker


class SourceWorker(Worker):
    """Reads a source for as long as this server leads."""

    def __init__(self, name: str, inlet: Inlet, source: Source) -> None:
        super().__init__(name, self._follow)
        self.stream, self.source = inlet.name, source.name
        self.state = SourceState()
        self._inlet, self._source = inlet, source

    def _follow(self, worker: Worker) -> None:
        worker.well()
        follow(self._inlet, self._source, worker.stopping, state=self.state)
