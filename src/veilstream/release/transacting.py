"""One transaction for one release, whatever is released: a step of a stream, a set of records, an answer to people.

Charges, the next state and the payload are committed together or not at all, and a Release exists only afterwards. If
a measurement raises after it was charged, *the charges stay*: trying again until it works would let private data
choose which attempt is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population_limit import ChargeLimit
from veilstream.privacy.snapshots import AccountantSnapshot
from veilstream.release.commits import Commits
from veilstream.storage.codec import Encoded, encode
from veilstream.storage.ledger import ChargeRow, Ledger, Transaction
from veilstream.storage.ledger.records import Mark
from veilstream.storage.ledger.snapshots import INTERVAL
from veilstream.values.release import Payload, Release
from veilstream.values.revision import Revision


class Attempt(Protocol):
    """What a process derives from the charges of a stream: ``Session``, or the accounts of a roster."""

    @property
    def charges(self) -> Sequence[Charge]:
        """What the present step was charged so far."""
        ...

    @property
    def opened(self) -> Sequence[int]:
        """The blocks of comparisons that the present step began."""
        ...

    @property
    def spent(self) -> Fraction:
        """What the present step adds to the window that ends with it."""
        ...

    @property
    def left(self) -> Fraction:
        """What is left of the budget afterwards."""
        ...

    def replay(self, t: int, charge: Charge) -> None:
        """Count what was charged at step ``t`` before."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """What need not replay all charges, because a ledger may keep a snapshot of it."""

    def snapshot(self) -> AccountantSnapshot:
        """What is known after the charges so far."""
        ...

    def restore(self, known: AccountantSnapshot) -> None:
        """Know that, and nothing else."""
        ...


@runtime_checkable
class Limited(Protocol):
    """What takes a limit beside that of its own guarantee, before anything is drawn."""

    def limit(self, other: ChargeLimit | None) -> None:
        """Let something else refuse charges too; None for nothing else."""
        ...


A = TypeVar("A", bound=Attempt)


class Book(Generic[A]):
    """One stream of a ledger as this process knows it; threads take turns.

    What is derived from the ledger (``session``) is dropped whenever it may have run ahead of it, and derived anew from
    the recorded charges. ``at`` is the step whose state the session has.
    """

    def __init__(self, ledger: Ledger, stream: str, derive: Callable[[], A]) -> None:
        self._ledger = ledger
        self._stream = stream
        self._derive = derive
        self.turn = ledger.turn()
        self.forget()

    def forget(self) -> None:
        """Drop what was derived from the ledger."""
        self.session = self._derive()
        session: object = self.session
        self._resumable = session if isinstance(session, Resumable) else None
        self.at: int | None = None
        self._seen = 0
        self._mark = Mark()
        self._replayed = 0
        self._next_snapshot: int = INTERVAL
        self._touched = False

    @contextmanager
    def transaction(self) -> Generator[Transaction]:
        """This process's turn and the stream's write lock."""
        with self.turn, self._ledger.transaction(self._stream) as transaction:
            self._touched = False
            self._ledger.on_failure(self.forget)
            try:
                yield transaction
            except BaseException:
                if self._touched:
                    self.forget()
                raise

    def refresh(self) -> A:
        """What is known of the stream after reading the charges that others made; nothing is locked for long."""
        with self.turn:
            self._replay(self._ledger.charges(self._stream, after=self._seen))
            return self.session

    def catch_up(self, transaction: Transaction, load: Callable[[Encoded], None] | None = None) -> None:
        """Count charges that others made, and ``load`` the state that they left."""
        self._touched = True
        self._resume(transaction)
        self._mark = transaction.verify(self._mark)
        self._replay(transaction.charges(after=self._seen))
        if load is not None and transaction.head != self.at:
            stored = transaction.state()
            # Where steps were lost the mechanism begins anew.
            if stored is not None:
                load(stored)
            self.at = transaction.head
        session: object = self.session
        if isinstance(session, Limited):
            session.limit(transaction.pool())

    def foresee(self, transaction: Transaction, t: int, guarantee: Guarantee) -> None:
        """Refuse a step that may spend all of its guarantee, if the pool that the stream shares has less.

        The mechanism's own charges are admitted one by one; without this, those before the one that is refused would be
        lost.
        """
        pool = transaction.pool()
        if pool is not None:
            pool.check([Charge(guarantee.pure, Span(t, t), "one step", guarantee.mu_squared)])

    def _resume(self, transaction: Transaction) -> None:
        """Begin with the last snapshot instead of the first charge, unless the first charge was counted already."""
        session = self._resumable
        if self._mark.number or self._seen or session is None:
            return
        found = transaction.resume()
        if found is not None:
            session.restore(found.known)
            self._mark, self._seen = found.mark, found.mark.charge
            self._next_snapshot = found.mark.number + INTERVAL + found.known.weight

    def _snapshot(self, transaction: Transaction) -> AccountantSnapshot | None:
        """What the accountant knows, if it is time to write it down."""
        number, session = transaction.mark.number + 1, self._resumable
        if session is None or (number < self._next_snapshot and self._replayed < INTERVAL):
            return None
        known = session.snapshot()
        self._next_snapshot, self._replayed = number + INTERVAL + known.weight, 0
        return known

    def _replay(self, rows: Iterable[ChargeRow]) -> None:
        for row in rows:
            self._seen = row.id
            self._replayed += 1
            self.session.replay(row.t, row.charge)

    def transact(
        self,
        transaction: Transaction,
        t: int,
        measure: Callable[[], tuple[Payload, Any]],
        revise: Callable[[Any], Sequence[Revision]] | None = None,
    ) -> Release:
        """Make the release of step ``t``: ``measure`` gives its payload and the next state.

        ``revise`` makes of that state new values for earlier steps, which are published with it.
        """
        try:
            payload, state = measure()
            revisions = () if revise is None else revise(state)
            encoded = encode(state)
        except BaseException as error:
            if self.session.charges:
                charged, opened = self.session.charges, self.session.opened
                transaction.commit_failure(t, charged, type(error).__name__, opened=opened)
            raise
        session = self.session
        release = transaction.commit_step(
            t,
            session.charges,
            encoded,
            payload,
            session.spent,
            session.left,
            opened=session.opened,
            snapshot=self._snapshot(transaction),
            revisions=revisions,
        )
        Commits.note()
        self.at = t
        # Nobody else could charge the stream since ``catch_up``: it need not read these charges again.
        self._mark = transaction.mark
        self._seen = max(self._seen, transaction.mark.charge)
        return release
