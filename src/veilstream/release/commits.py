"""How many releases this process has committed, so that a command knows what a late failure can no longer undo."""

from __future__ import annotations

from threading import Lock

_LOCK = Lock()


class Commits:
    """A count that only grows."""

    made = 0

    @classmethod
    def note(cls) -> None:
        """Count one commit."""
        with _LOCK:
            cls.made += 1
