"""A second stream of the same rows: whoever is in both pays both promises, which no accountant of one stream sees.

Where the rows of a stream come from is recorded in its ledger when it begins, as a keyed digest. It is known of files
alone: a copy under another name, a table in memory and another ledger are not told from other people's rows.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from veilstream.arguments import is_a
from veilstream.errors import InvalidInputError
from veilstream.jobs.prepare import PreparedJob
from veilstream.jobs.wording import number
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.chain import find_key
from veilstream.storage.ledger.decisions import last_decision, record_decision

SOURCE: Final = "source"


def refuse_second(prepared: PreparedJob, ledger: Ledger, say: Callable[[str], None]) -> list[str]:
    """Say what a new stream costs whoever is in streams of the same rows as well; those streams.

    One that counts the same columns over the same time is refused unless the job says ``again``, or belongs to a
    population, which adds both up.
    """
    job, facts = prepared.job, _facts(prepared, ledger)
    if facts is None or job.population is not None:
        return []
    found: list[str] = []
    for spec in ledger.streams():
        known = _recorded(ledger, spec.name)
        if known is None or known["source"] != facts["source"] or not _overlap(known, facts):
            continue
        found.append(spec.name)
        both = Guarantee.from_json(spec.guarantee).epsilon + prepared.guarantee.epsilon
        price = (
            f"it reads the same rows over the same time as stream {spec.name!r}: whoever is in both pays both "
            f"promises, epsilon {number(both)} together"
        )
        if known["columns"] == facts["columns"] and not job.again:
            raise InvalidInputError(
                name="stream",
                value=job.stream,
                limit=price,
                next_step=f"go on with that stream (--stream {spec.name}), let a population add both up "
                "(--population), or say that you mean it (--again), which is recorded",
            )
        say(f"stream {job.stream!r}: {price}")
    return found


def record_source(prepared: PreparedJob, ledger: Ledger, others: Sequence[str]) -> None:
    """Record where the rows of a new stream come from, and which streams the operator chose to repeat."""
    facts = _facts(prepared, ledger)
    if facts is not None and _recorded(ledger, prepared.job.stream) is None:
        with ledger.writing() as connection:
            record_decision(connection, ledger.label, SOURCE, prepared.job.stream, {**facts, "besides": list(others)})
            connection.commit()


def _recorded(ledger: Ledger, stream: str) -> dict[str, Any] | None:
    with ledger.reading() as connection:
        return last_decision(connection, ledger.label, SOURCE, stream)


def _facts(prepared: PreparedJob, ledger: Ledger) -> dict[str, Any] | None:
    source, calendar = prepared.source, prepared.calendar
    given: Sequence[Any] = [source] if isinstance(source, str | Path) else source if is_a(source, list, tuple) else []
    paths = [str(path) for path in given if isinstance(path, str | Path)]
    if not paths or len(paths) < len(given) or "-" in paths:
        return None
    text = "\0".join(sorted(str(Path(path).resolve()) for path in paths))
    with ledger.reading() as connection:
        digest = hmac.digest(find_key(connection, ledger.label), f"source {text}".encode(), "sha256").hex()
    job = prepared.job
    measured = {name: str(value) for name in ("sum", "mean", "variance", "median", "quantiles", "distinct", "value")
                if (value := getattr(job, name)) is not None}  # fmt: skip
    columns = {"by": sorted(prepared.domain.to_json()), "measured": measured}
    return {
        "source": digest,
        "columns": columns,
        "first": str(calendar.begins(0)),
        "last": str(calendar.ends(calendar.steps - 1)),
    }


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    numbers = [facts["first"].lstrip("-").isdecimal() for facts in (one, other)]
    if numbers[0] != numbers[1]:
        # A calendar of numbers and one of dates: nobody knows, so the price is said.
        return True
    moment: Callable[[str], Any] = int if numbers[0] else datetime.fromisoformat
    return bool(moment(one["first"]) < moment(other["last"]) and moment(other["first"]) < moment(one["last"]))
