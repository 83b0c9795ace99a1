"""Backends of PostgreSQL that end under a publisher, which feeds the step again and finds it recorded or not at all."""

from __future__ import annotations

import random
import time
from typing import Final

from storm.children import Notes, begin, end, poll
from storm.kills import examine, in_child
from storm.outcome import Outcome
from storm.servers import Server
from storm.subjects import Place, See, Subject
from veilstream.errors import LedgerError

LONGEST: Final = 0.08
PATIENCE: Final = 90.0


def end_backends(
    subject: Subject,
    place: Place,
    server: Server,
    most: int,
    chance: random.Random,
    reference: Notes | None = None,
    *,
    hard: bool = False,
) -> Outcome:
    """End up to ``most`` backends of a process that works and does not give up; ``hard`` by SIGKILL."""
    notes, errors = Notes(place.folder / "seen"), place.folder / "errors"
    outcome = Outcome()
    child = begin(lambda: _persistent(subject, place, notes.see), errors)
    status: int | None = None
    while outcome.tried < most and (status := poll(child)) is None:
        time.sleep(LONGEST * chance.random())
        outcome.tried += min(1, server.end_backends(place.ledger, hard=hard))
    if status is None:
        try:
            status = end(child)
        except TimeoutError as error:
            outcome.problems.append(str(error))
    if status != 0:
        outcome.problems.append(f"it could not be resumed ({status}): {Notes(errors).lines()[-1:]}")
    outcome.problems += in_child(lambda: examine(subject, place, notes, reference), place.folder)
    outcome.resumed = 0 if outcome.problems else outcome.tried
    return outcome


def _persistent(subject: Subject, place: Place, see: See) -> None:
    """Work until it is done; errors of the ledger, and no others, are answered by another try."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            subject.work(place, see)
            return
        except LedgerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
