"""A source of a stream as the server runs and watches it."""

from __future__ import annotations

from veilstream.live.sources import Source, SourceState, follow
from veilstream.live.stream import Inlet
from veilstream.server.workers import Worker


class _Watched(SourceState):
    """How a source is, told to the worker that reads it: its metrics and logs are those of all workers."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker

    def well(self, read_until: int) -> None:
        super().well(read_until)
        self._worker.well()

    def fail(self, kind: str) -> None:
        super().fail(kind)
        self._worker.fail(kind)


class SourceWorker(Worker):
    """Reads a source for as long as this server leads."""

    def __init__(self, name: str, inlet: Inlet, source: Source) -> None:
        super().__init__(name, self._follow)
        self.stream, self.source = inlet.name, source.name
        self.state: SourceState = _Watched(self)
        self._inlet, self._source = inlet, source

    def _follow(self, worker: Worker) -> None:
        follow(self._inlet, self._source, worker.stopping, state=self.state)
