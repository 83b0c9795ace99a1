"""One release under a name, charged once and given again for nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from veilstream.mechanisms.session import MakeMeter, Session
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.release.transacting import Book
from veilstream.storage.holder import LedgerHolder
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.trusted.meter import Meter
from veilstream.values.release import Payload, Release


@dataclass(frozen=True, slots=True)
class Done:
    """The state of a stream whose only step is behind it."""


def release_once(
    ledger: str | Path | Ledger | None,
    spec: StreamSpec,
    measure: Callable[[Meter], Payload],
    *,
    recognises: Callable[[str], bool],
    fingerprint: str | None = None,
    population: str | Population | Membership | None = None,
    make_meter: MakeMeter = Meter,
) -> Release:
    """The release of step 0 of the stream ``spec``: from the ledger if it was made before, else ``measure``d.

    ``recognises`` and ``fingerprint`` are those of :meth:`Ledger.register`. Another stream of the same name is refused.
    With ``population`` it draws on one, see ``Publisher``. ``make_meter`` says by what its answers are charged.
    """
    with LedgerHolder(ledger) as holder:
        spec = replace(spec, membership=holder.ledger.populations.membership(population))
        holder.ledger.register(spec, recognises, fingerprint)
        guarantee = Guarantee.from_json(spec.guarantee)

        def session() -> Session:
            return Session(Accountant(guarantee, spec.bins), SecureNoise(), make_meter)

        book = Book(holder.ledger, spec.name, session)
        with book.transaction() as transaction:
            stored = transaction.release_at(0)
            if stored is not None:
                return stored
            book.catch_up(transaction)
            book.foresee(transaction, 0, guarantee)
            return book.transact(transaction, 0, lambda: (measure(book.session.at(0)), Done()))
