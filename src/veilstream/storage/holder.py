"""Who opened a ledger closes it."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from veilstream.storage.ledger import Ledger


class LedgerHolder:
    """Works on a ledger, which it closes at its own end if it opened it itself."""

    def __init__(self, ledger: str | Path | Ledger | None) -> None:
        self._owns_ledger = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)

    def close(self) -> None:
        if self._owns_ledger:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
