"""Who opened a ledger closes it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from veilstream.storage.ledger import Ledger


class LedgerHolder:
    """Works on a ledger, which it closes at its own end if it opened it itself."""

    def __init__(self, ledger: str | Path | Ledger | None) -> None:
        self._owns_ledger = not isinstance(ledger, Ledger)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)

    @contextmanager
    def _closing_on_error(self) -> Generator[None]:
        """While it is being made: what is refused leaves nothing open."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the ledger, unless somebody else opened it."""
        if self._owns_ledger:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
