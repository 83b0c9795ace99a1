"""Going on after a rollback: what is missing counts as spent, and the stream begins anew where no window holds both.

A ledger that was put back from a copy has forgotten steps that were published. What they cost is not known, only that
the accountant of that time let no window pass the guarantee. So every window that holds any of them counts as full, and
the stream goes on one period after the last of them: PROOF.md, "Rollbacks", has the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from veilstream.errors import LedgerError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence import BEGINNING
from veilstream.storage.copies import put_rows
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.backend import copy_database
from veilstream.storage.ledger.decisions import RESTORED, record_decision
from veilstream.storage.ledger.marks import Marks
from veilstream.storage.ledger.population_losses import record_gone
from veilstream.storage.ledger.records import LOSS, Mark
from veilstream.storage.ledger.schema import counter, losses, metadata, secret_keys
from veilstream.storage.ledger.servers import record_server
from veilstream.storage.ledger.surroundings import sync, unfinished
from veilstream.storage.ledger.transaction import Transaction
from veilstream.storage.ledger.verifying import verify

PURPOSE: Final = "lost"
SIDES: Final = ("", "-wal", "-shm")
"""The files of an SQLite database."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Steps of a stream that were published or tried and are not in the ledger; ``resume`` is where it goes on.

    ``seen`` is the number of the last commit that is known of, 0 if none is. ``resume`` None: there is no such step.
    """

    stream: str
    first: int
    last: int
    resume: int | None
    seen: int
    reason: str

    def __str__(self) -> str:
        steps = f"stream '{self.stream}': steps {self.first} to {self.last} are lost and count as spent"
        if self.resume is None:
            return f"{steps}; one budget lasts for the whole stream, so that it has ended"
        return f"{steps}; it goes on at step {self.resume}, its mechanism anew"


def find_loss(ledger: Ledger, stream: str, seen: Mark | None, last_step: int | None) -> Loss | None:
    """What a ledger has forgotten of a stream, by the mark that was ``seen`` of it or by what the operator states.

    ``last_step`` is the last step that was released or tried, -1 if none was. None if the ledger holds all of it.
    Without either, nobody knows what is missing: an error.
    """
    end = ledger.mark(stream)
    head = -1 if end.t is None else end.t
    if seen is None and last_step is None:
        raise LedgerError(
            name="stream",
            value=stream,
            limit=f"there is no mark of how far it had come that can be read; this ledger ends with step {head}",
            outcome="nothing was restored",
            next_step=f"state the last step that was published or tried: --last-step {stream}=T (-1 if none was)",
        )
    tried: list[int] = []
    if seen is not None and not _holds(ledger, stream, seen):
        # Each commit that is missing went one step further at most.
        tried.append(head + max(seen.number - end.number, 1) if seen.t is None else seen.t)
    if last_step is not None and last_step > head:
        tried.append(last_step)
    if not tried:
        return None
    last = max(head + 1, *tried)
    period = Guarantee.from_json(ledger.spec(stream).guarantee).period
    resume = None if period is None else last + period
    reason = "stated by the operator" if seen is None else "behind its mark"
    return Loss(stream, head + 1, last, resume, max(end.number, 0 if seen is None else seen.number), reason)


def _holds(ledger: Ledger, stream: str, seen: Mark) -> bool:
    try:
        ledger.check_seen(stream, seen)
    except LedgerError:
        return False
    return True


def record_loss(ledger: Ledger, loss: Loss) -> Mark:
    """Write down that steps are lost: their budget is spent, the mechanism's state is dropped, the mark is replaced."""
    if loss.resume is None:
        raise LedgerError(
            name="stream",
            value=loss.stream,
            limit="one budget lasts for the whole stream, and nobody knows how much of it the lost steps took; it has "
            "ended. Its releases can be read",
            outcome="nothing was recorded",
        )
    with ledger.transaction(loss.stream, rolled_back=True) as transaction:
        charges = _spent(ledger, transaction, loss)
        transaction.drop_state()
        row = {"first": loss.first, "last": loss.last, "resume": loss.resume, "seen": loss.seen, "reason": loss.reason}
        mark = transaction.commit_event(losses, "loss", LOSS, row, charges, loss.last)
    ledger.marks.replace(loss.stream, Mark(mark.number, mark.digest, t=loss.resume - 1))
    return mark


def _spent(ledger: Ledger, transaction: Transaction, loss: Loss) -> list[Charge]:
    """A charge that fills every window up to the last lost step, and the end of every block that was open."""
    spec = ledger.spec(loss.stream)
    guarantee = Guarantee.from_json(spec.guarantee)
    known = Accountant(guarantee, spec.bins, per_timestamp=spec.per_timestamp)
    found, after = transaction.resume(), 0
    if found is not None:
        known.restore(found.known)
        after = found.mark.charge
    transaction.verify(Mark() if found is None else found.mark)
    for row in transaction.charges(after):
        known.replay_at(row.t, row.charge)
    squared = guarantee.with_pure_share(0).mu_squared if guarantee.delta and not known.per_timestamp else Fraction(0)
    # A block may have compared old data with its secret, so that no window of the past is known to have anything left.
    full = Charge(guarantee.epsilon, Span(BEGINNING, loss.last), PURPOSE, mu_squared=squared)
    ends = [Charge(Fraction(0), Span(loss.last, loss.last), PURPOSE, block=block) for block in known.open_blocks]
    return [full, *ends]


@dataclass(frozen=True, slots=True)
class Restored:
    """What restoring a ledger means: steps that are lost, and streams that are not in it at all."""

    losses: list[Loss]
    gone: list[str]


def losses_of(ledger: Ledger, seen: Mapping[str, Mark | None], last_steps: Mapping[str, int]) -> Restored:
    """What a ledger has forgotten, by the marks that were ``seen`` and what the operator states of each stream."""
    names = [spec.name for spec in ledger.streams()]
    found = [find_loss(ledger, name, seen.get(name), last_steps.get(name)) for name in names]
    gone = sorted({*seen, *last_steps} - set(names))
    return Restored([loss for loss in found if loss is not None], gone)


def restore_in_place(ledger: Ledger, last_steps: Mapping[str, int], *, apply: bool) -> Restored:
    """Say what a ledger that was put back already has forgotten, and record it if ``apply``; a server's for one."""
    _refuse_damaged(ledger)
    restored = losses_of(ledger, ledger.all_marks(), last_steps)
    if apply:
        _record(ledger, restored, last_steps)
        with ledger.writing() as connection:
            record_server(connection, ledger.label)
            connection.commit()
        for stream, end in _ends(ledger, restored).items():
            ledger.marks.replace(stream, end)
    return restored


def _record(ledger: Ledger, restored: Restored, last_steps: Mapping[str, int]) -> None:
    """Write down what is lost, and where the operator says that each stream stands."""
    for loss in restored.losses:
        if loss.resume is not None:
            record_loss(ledger, loss)
    with ledger.writing() as connection:
        facts = {"stated": dict(last_steps), "lost": [[loss.stream, loss.first, loss.last] for loss in restored.losses]}
        record_decision(connection, ledger.label, RESTORED, None, facts)
        if restored.gone:
            record_gone(connection, ledger.label, restored.gone)
        connection.commit()


def _ends(ledger: Ledger, restored: Restored) -> dict[str, Mark]:
    """Where each stream goes on from; those that have ended keep their mark and are refused."""
    ended = {loss.stream for loss in restored.losses if loss.resume is None}
    return {spec.name: ledger.mark(spec.name) for spec in ledger.streams() if spec.name not in ended}


def restore_file(backup: Path, ledger: Path, last_steps: Mapping[str, int], *, apply: bool) -> Restored:
    """Say what going on from ``backup`` in place of ``ledger`` loses; if ``apply``, record it and put the backup there.

    What was there stays beside it, as ``.replaced``. Streams that have ended keep their mark and are refused.
    """
    aside = ledger.with_name(f"{ledger.name}.replaced")
    if apply and ledger.exists() and aside.exists():
        raise LedgerError(name="ledger", value=aside, limit="it is in the way; move it", outcome="nothing was restored")

    def put(made: Path, copy: Ledger) -> None:
        copy.close()
        for side in SIDES:
            with suppress(FileNotFoundError):
                ledger.with_name(f"{ledger.name}{side}").replace(aside.with_name(f"{aside.name}{side}"))
        put_in_place(made, ledger)

    return restore_copy(backup, unfinished(ledger), lambda _: Marks(ledger), put if apply else None, last_steps)


def restore_copy(
    backup: Path,
    partial: Path,
    marks_of: Callable[[Ledger], Marks],
    put: Callable[[Path, Ledger], None] | None,
    last_steps: Mapping[str, int],
) -> Restored:
    """Say what going on from a copy of a ledger loses; with a way to ``put`` it in place, record it and do so.

    ``partial`` is where it is made ready, ``marks_of`` gives the marks of the place where it goes.
    """
    try:
        copy_database(backup, partial)
        with Ledger.open(partial) as copy:
            _refuse_damaged(copy)
            marks = marks_of(copy)
            restored = losses_of(copy, marks.all(), last_steps)
            if put is not None:
                _record(copy, restored, last_steps)
                ends = _ends(copy, restored)
                put(partial, copy)
                for stream, end in ends.items():
                    marks.replace(stream, end)
    finally:
        for path in [partial.with_name(f"{partial.name}{side}") for side in SIDES]:
            path.unlink(missing_ok=True)
        noted = Marks(partial)
        for stream in noted.all():
            noted.remove(stream)
    return restored


def put_in_place(partial: Path, file: Path) -> None:
    """Give a database that is ready, and closed, its own name."""
    sync(partial)
    partial.replace(file)
    sync(file.parent)


def put_on_server(copy: Path, url: str) -> None:
    """Put a copy of a ledger that is ready into an empty database of PostgreSQL."""
    with Ledger.open(url) as ledger, ledger.writing() as connection:
        if ledger.streams():
            raise LedgerError(
                name="ledger",
                value=ledger.label,
                limit="it has streams; a backup goes into an empty place",
                outcome="nothing was restored",
            )
        for table in (counter, secret_keys):
            connection.execute(sa.delete(table))
        put_rows(copy, connection, metadata.sorted_tables)
        record_server(connection, ledger.label)
        connection.commit()


def _refuse_damaged(ledger: Ledger) -> None:
    found = verify(ledger, marks=False)
    if found:
        raise LedgerError(
            name="backup",
            value=ledger.label,
            limit=f"it does not verify: {found[0].problem}",
            outcome="nothing was restored",
        )
