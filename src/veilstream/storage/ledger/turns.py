"""Threads of one process take turns."""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType

from veilstream.errors import LedgerBusyError


class Turn:
    """A lock over everything that a thread derives from a ledger and writes to it, its own memory included.

    A thread that has the turn cannot ask for it again: a mechanism that feeds its own publisher is refused at once.

    >>> turn = Turn("'budget.db'", timeout=1)
    >>> with turn:
    ...     pass
    """

    def __init__(self, label: str, timeout: float) -> None:
        self._label = label
        self._timeout = timeout
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._process = os.getpid()

    def __enter__(self) -> None:
        started = time.monotonic()
        # The ledger refuses to be used after a fork; a lock that another thread held then would never come free.
        waiting = 0 if os.getpid() != self._process or self._owner == threading.get_ident() else self._timeout
        if not self._lock.acquire(timeout=waiting):
            raise LedgerBusyError(
                name="ledger",
                value=self._label,
                limit=f"another thread of this process is at it; waited {time.monotonic() - started:.1f} s, limit "
                f"{waiting:g} s",
            )
        self._owner = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self._lock.release()
