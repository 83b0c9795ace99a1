"""Starting a stream over whose ledger is lost: an explicit decision, recorded in the new ledger and with the key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veilstream.errors import LedgerError
from veilstream.storage.keys import StreamKey, key_id, key_path, load, store
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.decisions import RESET, last_decision, record_decision
from veilstream.storage.ledger.marks import Marks
from veilstream.storage.ledger.records import moment
from veilstream.storage.location import locate


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream that is to begin anew, and the last step that is known to have been published before."""

    ledger: str
    stream: str
    key_file: Path
    former_key: str | None
    last_seen: int | None

    def __str__(self) -> str:
        known = "nobody knows how far it came" if self.last_seen is None else f"it came as far as step {self.last_seen}"
        return (
            f"stream '{self.stream}' begins anew in {self.ledger}: {known}, and what it published is forgotten. "
            "Whoever was in it may be charged a second whole budget, so that its promise holds for each run by itself "
            "and twice as much for both. If a backup exists, `veilstream restore` loses less."
        )


def plan_reset(ledger: str, stream: str, key_file: str | None) -> Reset:
    """What starting over means; refused as long as the ledger knows the stream."""
    place = locate(ledger)
    if place.file is None or place.file.is_file():
        with Ledger.open(ledger) as opened:
            if stream in [spec.name for spec in opened.streams()]:
                raise LedgerError(
                    name="stream",
                    value=stream,
                    limit="the ledger knows it, so that nothing is lost; go on, or use another stream name",
                    outcome="nothing was changed",
                )
    path = key_path(place.file, stream, key_file)
    key, seen = load(path, stream), Marks(place.file).all().get(stream)
    return Reset(ledger, stream, path, None if key is None else key_id(key.secret), None if seen is None else seen.t)


def reset(plan: Reset, reason: str) -> None:
    """Record the decision in the ledger, put the old key aside, and write a new one that says so too."""
    fresh, recorded = StreamKey.fresh(plan.stream), moment()
    facts: dict[str, Any] = {
        "reason": reason,
        "key": key_id(fresh.secret),
        "former_key": plan.former_key,
        "last_seen": plan.last_seen,
    }
    with Ledger.open(plan.ledger) as opened:
        with opened.writing() as connection:
            record_decision(connection, opened.label, RESET, plan.stream, facts)
            connection.commit()
        marks = Marks(locate(plan.ledger).file)
    histories = [plan.key_file.with_name(f"{plan.key_file.name}{end}") for end in (".presence", ".presence.journal")]
    for path in (plan.key_file, marks.path(plan.stream), *histories):
        if path is not None and path.exists():
            path.replace(_aside(path))
    store(plan.key_file, fresh, reset={"recorded": recorded, "reason": reason, "former_key": plan.former_key})


def _aside(path: Path) -> Path:
    """A name beside ``path`` that nothing has yet."""
    number = 1
    while (found := path.with_name(f"{path.name}.before-reset-{number}")).exists():
        number += 1
    return found


def was_reset(ledger: Ledger, stream: str, key: StreamKey) -> bool:
    """Whether the stream was started over with this key."""
    with ledger.reading() as connection:
        decided = last_decision(connection, ledger.label, RESET, stream)
    return decided is not None and decided["key"] == key_id(key.secret)
