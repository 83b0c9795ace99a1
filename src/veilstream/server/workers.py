"""Threads of the server that go on: what fails in one is begun again, visibly, and its end would not go unnoticed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from veilstream.server.logs import LOG, log

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 5.0
LASTING_SECONDS: Final = 60.0
"""Work that went on for so long before it failed is begun again without much waiting."""


class Worker:
    """A thread that does ``work`` until it is stopped.

    ``work`` is given this worker: ``stopping`` is set when it should end, and by ``well`` it says that all is well.
    Whatever it raises is the ``error`` until then.
    """

    def __init__(self, name: str, work: Callable[[Worker], None]) -> None:
        self.name = name
        self.stopping = threading.Event()
        self.error: str | None = None
        self.since = time.time()
        self.failures = 0
        self._beat = time.monotonic()
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.well()
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread goes on, or has ended as it should."""
        return self._thread.is_alive() or self.stopping.is_set() or self._thread.ident is None

    @property
    def silent_for(self) -> float:
        """For how many seconds it has not said that it goes on."""
        return time.monotonic() - self._beat

    def well(self) -> None:
        """Called by the work: what it set out to do is done."""
        self.beat()
        self._tell(None)

    def beat(self) -> None:
        """Called by the work: it goes on."""
        self._beat = time.monotonic()

    def fail(self, kind: str) -> None:
        """Called by the work as well, which then goes on by itself."""
        self.failures += 1
        self._tell(kind)

    def _tell(self, kind: str | None) -> None:
        if kind != self.error:
            self.error, self.since = kind, time.time()
            if kind is None:
                log("worker recovered", worker=self.name)
            else:
                # The kind of error alone: what it says may quote rows.
                log("worker failed", level="error", worker=self.name, error=kind)

    def stop(self) -> None:
        self.stopping.set()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self._work(self)
                return
            except Exception as error:
                self.fail(type(error).__name__)
                LOG.debug("worker %s", self.name, exc_info=True)
            if time.monotonic() - began > LASTING_SECONDS:
                pause = FIRST_PAUSE
            self.stopping.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
