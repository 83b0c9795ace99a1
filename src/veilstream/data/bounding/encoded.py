"""From a batch of events to encoded rows: who, and which cell."""

from __future__ import annotations

import numpy as np
import polars as pl

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.people import identify
from veilstream.data.encoding import Encoder
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import MISSING_VALUE, Places


def encode_rows(
    frame: pl.DataFrame, user: str, encoder: Encoder, people_key: bytes, measures: ValueMeasures | None = None
) -> Rows:
    """The rows of ``frame`` that have a person, a step and a bin; the encoder counts the others by reason.

    With ``measures`` the rows carry values, and those that have none are left out too.
    """
    people = identify(frame[user], people_key, encoder.unknown)
    low, high, present = people.low, people.high, people.present
    if present is not None:
        encoder.dropped.no_user += len(frame) - int(np.count_nonzero(present))
        frame, low = frame.filter(present), low[present]
        high = None if high is None else high[present]
    steps, flat, accepted = encoder.encode(frame)
    values = () if measures is None else _values(frame, encoder, measures)
    rows = Rows(low, high, steps * encoder.domain.bins + flat, values)
    rows = rows if accepted is None else rows.where(accepted)
    if measures is None:
        return rows
    absent = np.stack([column == MISSING_VALUE for column in rows.values])
    encoder.note_missing_values(absent, [column.name for column in measures.columns])
    return rows.where(np.flatnonzero(~absent.all(axis=0)))


def _values(frame: pl.DataFrame, encoder: Encoder, measures: ValueMeasures) -> tuple[Places, ...]:
    return tuple(column.places(frame[column.name], encoder.missing_value) for column in measures.columns)
