"""Counts that are public already: no seal, no bound on a person, bins and time range from the data themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data.calendar import Calendar
from veilstream.data.counts import whole_counts
from veilstream.data.domain import Domain
from veilstream.data.encoding import Encoder
from veilstream.data.measures import ValueMeasures
from veilstream.data.read_options import ReadOptions
from veilstream.data.readers import AS_FOUND, open_batches
from veilstream.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class PublicCounts:
    """Steps × bins over a domain and a calendar found in the data."""

    counts: NDArray[np.int64]
    domain: Domain
    calendar: Calendar


def read_public_counts(
    source: Any,
    *,
    time: str,
    every: str | int,
    by: Sequence[str] = (),
    value: str | None = None,
    zone: str = "UTC",
    options: ReadOptions = AS_FOUND,
    measures: ValueMeasures | None = None,
) -> PublicCounts:
    """Rows (or the sums of ``value``) per step and bin. For data that their holder has declared public alone.

    With ``measures`` it is what they ask of the column ``value``: a bin has as many numbers as they have parts, in
    multiples of 2⁻¹⁶.

    >>> rows = {"t": [0, 0, 2], "place": ["a", "b", "b"]}
    >>> read_public_counts(rows, time="t", every=1, by=["place"]).counts.tolist()
    [[1, 1], [0, 0], [0, 1]]
    """
    columns = tuple(dict.fromkeys((time, *by, *(() if value is None else (value,)))))
    batches = list(open_batches(source, columns, options, time=time))
    if not any(batch.height for batch in batches):
        raise InvalidInputError("0 rows: there is nothing to compare on")
    rows = pl.concat(batches)
    domain = Domain.from_public_data(rows.select(by).unique(), list(by)) if by else Domain({})
    calendar = Calendar.from_public_data(rows[time].unique(), every, zone)
    steps, flat, _ = Encoder(domain, calendar, time).encode(rows)
    if measures is not None:
        parts = _parts(rows, value, measures, steps * domain.bins + flat, calendar.steps * domain.bins)
        return PublicCounts(parts.reshape(calendar.steps, -1), domain, calendar)
    counts = np.zeros((calendar.steps, domain.bins), dtype=np.int64)
    np.add.at(counts, (steps, flat), 1 if value is None else whole_counts(rows[value]))
    return PublicCounts(counts, domain, calendar)


def _parts(
    rows: pl.DataFrame, value: str | None, measures: ValueMeasures, cells: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """What the values of each of ``size`` cells are divided into."""
    if value is None:
        raise InvalidInputError(
            name="measure",
            value=measures.labels[0],
            limit="it needs a column",
            outcome="nothing was read",
            next_step="name it with --value",
        )
    sums = [column.sums(cells, column.places(rows[value]), size) for column in measures.columns]
    parts = np.concatenate(sums, axis=1)
    if parts.min() < 0:
        raise InvalidInputError(
            name="measure",
            value=measures.labels[0],
            limit="a sum of values below zero is not compared; compare the mean, which is read off the same numbers",
            outcome="nothing was read",
        )
    return parts
