"""From a batch of events to encoded rows: who, and which cell."""

from __future__ import annotations

import numpy as np
import polars as pl

from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.people import identify
from veilstream.data.encoding import Encoder


def encode_rows(frame: pl.DataFrame, user: str, encoder: Encoder, people_key: bytes) -> Rows:
    """The rows of ``frame`` that have a person, a step and a bin; the encoder counts the others by reason."""
    people = identify(frame[user], people_key)
    low, high, present = people.low, people.high, people.present
    if present is not None:
        encoder.dropped.no_user += len(frame) - int(np.count_nonzero(present))
        frame, low = frame.filter(present), low[present]
        high = None if high is None else high[present]
    steps, flat, accepted = encoder.encode(frame)
    rows = Rows(low, high, steps * encoder.domain.bins + flat)
    return rows if accepted is None else rows.where(accepted)
