"""Counts that somebody has aggregated before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.calendar import Calendar
from veilstream.data.columns import as_integers, as_text
from veilstream.data.domain import Domain
from veilstream.data.encoding import Dropped, Encoder, Policy, left_out
from veilstream.data.read_options import ReadOptions
from veilstream.data.readers import AS_FOUND, open_batches
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed, seal
from veilstream.values.origin import Origin

NOTHING: Final = ("", "nan", "na", "n/a", "null", "none")
"""How files write a count that is missing."""


def read_counts(
    source: Any,
    *,
    time: str,
    value: str,
    domain: Domain,
    calendar: Calendar,
    max_contribution: int,
    unknown: Policy = "error",
    missing_time: Policy = "error",
    missing_value: Policy = "error",
    first_t: int = 0,
    dropped: Dropped | None = None,
    options: ReadOptions = AS_FOUND,
    presence: Guarantee | None = None,
) -> Iterator[Sealed]:
    """Sealed counts of every step from rows (time, attributes, count).

    ``l1`` is the holder's word that one person moves the counts of one step by at most that much in total;
    nothing here can check it. A bin without a row counts zero. All rows are read and checked before this
    returns. ``presence`` is the holder's word that people count in no more steps than this guarantee says. Rows left
    out are added to ``dropped``, for the operator alone: with ``missing_value="drop"`` those without a count, whose bin
    then counts zero. ``options`` say how files are written.

    >>> from veilstream.data import Categories
    >>> places = Domain({"place": Categories(["a", "b"])})
    >>> rows = {"t": [0, 2], "place": ["a", "b"], "n": [3, 4]}
    >>> steps = read_counts(rows, time="t", value="n", domain=places, calendar=Calendar(0, 3, 1), max_contribution=1)
    >>> len(list(steps))
    3
    """
    if max_contribution < 1:
        raise InvalidInputError(
            name="max_contribution",
            value=max_contribution,
            limit="one person must be allowed at least 1 count",
            outcome="nothing was read",
        )
    columns = tuple(dict.fromkeys((time, *domain.names, value)))
    encoder = Encoder(domain, calendar, time, unknown, missing_time, dropped or Dropped())
    cells: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    counts: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for frame in open_batches(source, columns, options, time=time, dropped=left_out(unknown)):
        steps, flat, keep = encoder.encode(frame)
        cell, column = steps * domain.bins + flat, frame[value]
        if keep is not None:
            cell, column = cell[keep], column.filter(pl.Series(keep))
        if missing_value == "drop":
            there = _is_there(column)
            encoder.dropped.missing_value += int((~there).sum())
            cell, column = cell[there.to_numpy()], column.filter(there)
        cells.append(cell)
        counts.append(whole_counts(column))
    cell, count = np.concatenate(cells), np.concatenate(counts)
    order = np.argsort(cell, kind="stable")
    cell, count = cell[order], count[order]
    if (cell[1:] == cell[:-1]).any():
        raise InvalidInputError(
            f"column '{value}': a time and bin has more than one row, one is the limit",
            name=value,
            next_step="add them up first, or publish rows of people with --user instead",
        )
    rule = None if presence is None else presence.presence_rule
    return _snapshots(
        cell, count, domain, calendar, max_contribution=max_contribution, first_t=first_t, presence_rule=rule
    )


def _snapshots(
    cell: NDArray[np.int64],
    count: NDArray[np.int64],
    domain: Domain,
    calendar: Calendar,
    *,
    max_contribution: int,
    first_t: int,
    presence_rule: str | None,
) -> Iterator[Sealed]:
    ends = np.searchsorted(cell, np.arange(calendar.steps + 1) * domain.bins)
    for step in range(calendar.steps):
        rows = slice(ends[step], ends[step + 1])
        dense = np.zeros(domain.bins, dtype=np.int64)
        dense[cell[rows] - step * domain.bins] = count[rows]
        origin = Origin(calendar.step_time(step), presence_rule)
        yield seal(dense, first_t + step, max_contribution, domain.shape or None, origin)


def whole_counts(column: pl.Series) -> NDArray[np.int64]:
    numbers, whole = as_integers(column)
    if not whole.all():
        raise InvalidInputError(
            f"column '{column.name}': a count is missing, fractional or not a number, whole numbers are needed",
            name=column.name,
            next_step="fill such rows, or leave those without a count out (--missing-value drop)",
        )
    if numbers.min(initial=0) < 0:
        raise InvalidInputError(f"column '{column.name}': a count is negative, 0 is the limit", name=column.name)
    return numbers


def _is_there(column: pl.Series) -> pl.Series:
    """Which rows have a count, or anything that may be meant as one."""
    return as_text(column).str.strip_chars().str.to_lowercase().fill_null("").is_in(NOTHING).not_()
