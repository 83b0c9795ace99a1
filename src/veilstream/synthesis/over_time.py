"""A table with times: a model for every step of a calendar, on one ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from veilstream.data import Calendar, Domain, Policy
from veilstream.data.encoding import left_out
from veilstream.data.read_options import ReadOptions
from veilstream.data.readers import open_batches
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.storage.ledger import Ledger
from veilstream.synthesis.domain import table_domain
from veilstream.synthesis.fitting import TablePublisher
from veilstream.synthesis.kinds import TableMechanism, TableModel, refreshed
from veilstream.synthesis.rows import read_rows
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.rows import SealedRows


@hide_frames
def fit_over_time(
    table: Any,
    domain: Domain,
    guarantee: Guarantee,
    calendar: Calendar,
    time: str,
    mechanism: TableMechanism | None = None,
    ledger: str | Path | Ledger | None = None,
    *,
    name: str = "table",
    user: str | None = None,
    rows_per_user: int = 1,
    unknown: Policy = "error",
    options: ReadOptions | None = None,
    population: str | Population | Membership | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> list[TableModel]:
    """A private model of the rows of every step of ``calendar``, within one guarantee for any window of steps.

    A row belongs to the step of its value in the column ``time``; nobody has more than ``rows_per_user`` rows in a
    step. Every model rests on the last one (``MarginalStream``; a copula is made anew at every step). All rows are
    read before the first step is released. Steps that the ledger holds are given back and cost nothing, so that a
    calendar with a later end goes on where the last one ended. A calendar that ends after the last row is refused:
    whether nobody came or the file ends there, only its holder knows.

    >>> import numpy as np
    >>> from veilstream.data import Categories
    >>> from veilstream.synthesis import TableDomain
    >>> x = np.arange(3000) % 4
    >>> visits = {"week": np.arange(3000) // 1000, "x": x, "y": (x + 1) % 4}
    >>> places = TableDomain({name: Categories(range(4)) for name in "xy"})
    >>> models = fit_over_time(visits, places, Guarantee(2, w=2), Calendar(0, 3, 1), "week")
    >>> [str(model.spent) for model in models]
    ['1', '1', '1']
    """
    steps = read_steps(
        table,
        domain,
        calendar,
        time,
        user=user,
        rows_per_user=rows_per_user,
        unknown=unknown,
        options=options,
    )
    models: list[TableModel] = []
    with TablePublisher(
        domain,
        guarantee,
        refreshed,
        mechanism,
        ledger,
        name=name,
        rows_per_user=rows_per_user,
        population=population,
        calendar=calendar,
    ) as publisher:
        for t, rows in enumerate(steps):
            models.append(publisher.model(publisher.publisher.feed(publisher.layout.seal(rows), t)))
            if advance is not None:
                advance(t + 1, len(steps))
    return models


def sealed_steps(table: Any) -> list[SealedRows] | None:
    """Rows that were sealed step by step before; None for a table that is still to be read."""
    if not isinstance(table, list):
        return None
    parts: list[Any] = [*cast("Any", table)]
    return parts if all(isinstance(part, SealedRows) for part in parts) else None


@hide_frames
def read_steps(
    table: Any,
    domain: Domain,
    calendar: Calendar,
    time: str,
    *,
    user: str | None = None,
    rows_per_user: int = 1,
    unknown: Policy = "error",
    options: ReadOptions | None = None,
) -> list[SealedRows]:
    """The rows of every step of a calendar, sealed; rows that are sealed step by step already stay as they are."""
    sealed = sealed_steps(table)
    if sealed is not None:
        return sealed
    schema = table_domain(domain)
    if time in schema.names or time == user:
        raise InvalidInputError(
            name="time", value=time, limit="it is an attribute or the person's id too", outcome="nothing was read"
        )
    wanted: list[str] = [time, *schema.names] if user is None else [time, *schema.names, user]
    columns = list(dict.fromkeys(wanted))
    dropped = left_out(unknown)
    parts = list(open_batches(table, columns, options or ReadOptions(), time=time, user=user, dropped=dropped))
    each = [calendar.place(calendar.read(part[time])) for part in parts]
    steps = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *each]))
    if unknown == "error" and (steps < 0).any():
        raise InvalidInputError(
            name="time",
            value=time,
            limit="a row has none, or one outside the time range",
            outcome="nothing was released",
            next_step="widen --start and --end, or leave such rows out with --unknown drop",
        )
    if calendar.steps - 1 not in steps:
        raise InvalidInputError(
            name="file",
            limit="it has no rows in the last step of the time range, which would be published as a table of nobody",
            outcome="nothing was released",
            next_step="give an end up to which the data are complete (--end)",
        )
    return [
        read_rows(
            [part.filter(pl.Series(step == t)) for part, step in zip(parts, each, strict=True)],
            schema,
            user=user,
            rows_per_user=rows_per_user,
            unknown=unknown,
            t=t,
        )
        for t in range(calendar.steps)
    ]
