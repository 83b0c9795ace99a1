"""Who was present in the steps of a job's stream: what the last run left behind, and what this one leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from veilstream.data.bounding import PresenceHistory, load_history, store_history
from veilstream.data.bounding.presence_journal import PresenceJournal, resumed_history
from veilstream.errors import LedgerError
from veilstream.storage.ledger.surroundings import refuse_readable_by_others
from veilstream.trusted.counts import Sealed


class KeptPresence:
    """The history of a stream in its file, and the journal beside it while steps are released."""

    def __init__(self, path: Path, empty: PresenceHistory, released: int, *, all_rows: bool) -> None:
        self._path, self._released = path, released
        self._journal_path = path.with_name(f"{path.name}.journal")
        for secret in (path, self._journal_path):
            if secret.exists():
                refuse_readable_by_others(secret, "presence history")
        stored = load_history(path, empty)
        self.history = resumed_history(self._journal_path, stored, released)
        self._grown = self.history is not stored
        self._journal: PresenceJournal | None = None
        self._refuse_forgotten(all_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the journal to the next run, unless ``store`` has made it needless."""
        if self._journal is not None:
            self._journal.close()

    def noted(self, snapshots: Iterator[Sealed]) -> Iterator[Sealed]:
        """The snapshots, each of which is handed out when everybody who was present is on the disk."""
        if self._grown:
            # What the former journal knows must be elsewhere before another one takes its place.
            store_history(self._path, self.history)
        self._journal = self.history.journal = PresenceJournal(self._journal_path, self.history)
        for snapshot in snapshots:
            if snapshot.span.last >= self._released:
                self._journal.complete(snapshot.span.last + 1)
            yield snapshot

    def store(self, history: PresenceHistory, through: int) -> None:
        """Keep the history of all steps before ``through``, which are released, for the next run."""
        history.advance(through)
        store_history(self._path, history)
        if self._journal is not None:
            self._journal.remove()

    def _refuse_forgotten(self, all_rows: bool) -> None:
        """Refuse a history that ends before the releases do, for people who were present since would count anew; and
        one that ends after them, for its steps would be published as steps of nobody."""
        known = self.history.through or 0
        if known > self._released:
            raise LedgerError(
                name="presence history",
                value=str(self._path),
                limit=f"it ends with step {known}, and the ledger knows {self._released} released steps: an old copy "
                "of the ledger was put back",
                next_step="restore the ledger that belongs to it (veilstream restore)",
            )
        if known < self._released and not all_rows:
            raise LedgerError(
                name="presence history",
                value=str(self._path),
                limit=f"it ends with step {known}, and {self._released} steps were released: the file was lost, and "
                "people who were present since would count more often than promised",
                next_step=f"restore it from a backup, or give a file that has every row since step {known} and say so "
                "with --all-rows",
            )
