"""What a ledger must have before anything is read or made."""

from __future__ import annotations

from veilstream.errors import LedgerError
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.population import no_such_population
from veilstream.storage.location import locate


def require_population(ledger: str, name: str | None) -> None:
    """Refuse a population that the ledger does not have; a ledger that does not exist has none and is not made.

    ``None`` is what a release names that draws on no population.
    """
    if name is None:
        return
    file = locate(ledger).file
    try:
        there = file is None or file.exists()
    except OSError as error:
        raise LedgerError(name="ledger", value=file, limit=f"{error.strerror}", outcome="nothing was opened") from None
    if not there:
        raise no_such_population(name, repr(str(file)))
    with Ledger.open(ledger) as book:
        book.populations.get(name)
