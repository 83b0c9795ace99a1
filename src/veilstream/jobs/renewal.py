"""A presence that is chosen anew every few blocks, from a small budget that is charged and recorded.

Time is cut into epochs of so many blocks. Each epoch is a stream of its own in the ledger, ``NAME.0``, ``NAME.1``, …,
whose guarantee records its c. After an epoch the histogram of visits per person and block is published once
(``NAME.choice.0``, …), and the c of the next epoch is arithmetic on it. What one person does in one block lies in one
epoch and in one of these histograms: ε and the budget of a choice, whatever the choices are (PROOF_presence.md,
"Renewing c").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from veilstream.data import Calendar, ReadOptions, read_events
from veilstream.data.bounding.presence_visits import visit_histogram
from veilstream.errors import InvalidInputError
from veilstream.jobs.call import publish
from veilstream.jobs.published import PublishedJob
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.durations import parse_duration
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_choice import Promise
from veilstream.privacy.presence_renewal import Renewal
from veilstream.privacy.rationals import Exact, rational
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger


def publish_renewed(
    source: Any,
    renewal: Renewal,
    calendar: Calendar,
    *,
    user: str,
    time: str,
    epsilon: Exact,
    ledger: str | Path,
    stream: str,
    **settings: Any,
) -> list[PublishedJob]:
    """Publish all whole epochs of a calendar, each with the c that was chosen after the one before.

    What the ledger holds is not published again, so that the call may be repeated with more data and a later end.
    ``settings`` are those of :func:`publish`; rows of other epochs, and those with values outside the domain, are left
    out. ``source`` is read several times: a table, a file or files.

    >>> import os, tempfile
    >>> rows = {"id": [1, 1, 2, 3, 1, 2, 2, 2], "day": [0, 1, 1, 2, 4, 4, 5, 7]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     jobs = publish_renewed(rows, Renewal(2, 2, first=1), Calendar(0, 8, 1), user="id", time="day", epsilon=1,
    ...                            ledger=os.path.join(folder, "b.db"), stream="visits", mechanism="uniform")
    ...     [len(job.releases) for job in jobs], jobs[0].prepared.guarantee.presence
    ([4, 4], 1)
    """
    if settings.get("population") is not None:
        raise InvalidInputError(
            name="population",
            value=settings["population"],
            limit="what one person does in a window of a population may lie in several blocks, and the choices of c "
            "are charged for one",
            outcome="nothing was read",
            next_step="choose c once (veilstream presence choose), and publish one stream of the population",
        )
    length = renewal.block * renewal.blocks
    if calendar.steps < length:
        raise InvalidInputError(
            name="end",
            value=str(calendar.end),
            limit=f"an epoch of {length} steps does not fit into the {calendar.steps} steps from start to end",
            outcome="nothing was read",
        )
    jobs: list[PublishedJob] = []
    c = renewal.first
    for epoch in range(calendar.steps // length):
        here = _part(calendar, epoch * length, length)
        given: Mapping[str, Any] = {"zone": calendar.zone, "allow_empty": True, **settings, "unknown": "drop"}
        jobs.append(
            publish(
                source,
                user=user,
                time=time,
                every=calendar.every,
                start=here.start,
                end=here.end,
                epsilon=str(rational(epsilon, "epsilon")),
                per=renewal.block,
                presence=c,
                ledger=ledger,
                stream=f"{stream}.{epoch}",
                **given,
            )
        )
        read = jobs[-1].prepared.read_options
        c = _chosen(source, renewal, here, user, time, epsilon, ledger, f"{stream}.choice.{epoch}", read)
    return jobs


def renewed_table(jobs: Sequence[PublishedJob], level: float | None = None) -> pl.DataFrame:
    """The releases of all epochs one below the other, steps counted from the first, each with its ``presence``."""
    tables: list[pl.DataFrame] = []
    first = 0
    for job in jobs:
        table = job.to_polars(level)
        later = [pl.col(name) + first for name in ("step", "as_of")]
        tables.append(table.with_columns(*later, presence=pl.lit(job.prepared.guarantee.presence, pl.Int64)))
        first += job.prepared.calendar.steps
    return pl.concat(tables)


def _part(calendar: Calendar, first: int, steps: int) -> Calendar:
    """So many steps of a calendar from ``first`` on."""
    return Calendar(_moment(calendar, first), _moment(calendar, first + steps), calendar.every, calendar.zone)


def _moment(calendar: Calendar, step: int) -> Any:
    """When a step begins, or the calendar ends, as calendars take it."""
    if step == calendar.steps:
        return calendar.end
    return calendar.begins(step) if isinstance(calendar.every, int) else calendar.label(step)


def _times(every: str | int, block: int) -> str | int:
    """The length of a block: what a person does in one step of so long is protected by a choice.

    >>> _times("6h", 4), _times(1, 7)
    ('24h', 7)
    """
    if isinstance(every, int):
        return every * block
    count, unit = parse_duration(every)
    return f"{count * block}{unit}"


def _chosen(
    source: Any,
    renewal: Renewal,
    epoch: Calendar,
    user: str,
    time: str,
    epsilon: Exact,
    ledger: str | Path,
    stream: str,
    options: ReadOptions,
) -> int:
    """The c that the histogram of visits in an epoch asks for; it is published once, and looked up later."""
    with Ledger.open(str(ledger)) as opened:
        known = stream in {spec.name for spec in opened.streams()}
        released = list(opened.releases(stream)) if known else []
        if not released:
            blocks = Calendar(epoch.start, epoch.end, _times(epoch.every, renewal.block), epoch.zone)
            once = Publisher(
                renewal.most, Guarantee(renewal.budget, w=1), Sample(), opened, stream=stream, calendar=blocks
            )
            events = read_events(source, user=user, time=time, by=[], options=options)
            visits = visit_histogram(events, epoch, steps=renewal.block, most=renewal.most, promise=Promise.BLOCK)
            released = [once.feed(visits)]
    return renewal.chosen(released[0].values, epsilon)
