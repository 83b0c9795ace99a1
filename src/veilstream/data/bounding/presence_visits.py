"""How often people come: a sealed histogram of visits per person and stretch, from which a presence can be chosen."""

from __future__ import annotations

import os

import numpy as np

from veilstream.data.bounding.encoded import encode_rows
from veilstream.data.bounding.keyed import PEOPLE, Key
from veilstream.data.bounding.private import cleared_on_error
from veilstream.data.bounding.runs import join
from veilstream.data.calendar import Calendar
from veilstream.data.domain import Domain
from veilstream.data.encoding import Encoder
from veilstream.data.events import Events
from veilstream.errors import InvalidInputError
from veilstream.privacy.presence_choice import Promise
from veilstream.trusted.counts import Sealed, seal


def visit_histogram(
    events: Events,
    calendar: Calendar,
    *,
    steps: int,
    most: int = 12,
    promise: Promise | str = Promise.WINDOW,
    ever: bool = False,
) -> Sealed:
    """How many people were present in 1, 2, …, ``most`` or more steps of a stretch of ``steps``, over all stretches.

    The calendar is a public period of trial, cut into stretches from its beginning. What one unit can move:

    * what one person does in a window of ``steps`` steps lies in two stretches, in each of which the person moves from
      one number of visits to another: 4 in total;
    * what one person does in one stretch (a block), or in all of them if there is but one (for ever): 1;
    * with ``ever``, all that one person ever does, an entry of each stretch, and what they do in any window besides:
      4 in at most two stretches, 2 if there is but one.

    Publish it once with a small budget, divide by the number of stretches, and give it to ``presence_curve``. The cost
    comes on top of that of the stream, for all people of the period of trial.

    >>> from veilstream.data import read_events
    >>> rows = {"id": [1, 1, 2, 1], "t": [0, 1, 3, 5]}
    >>> visits = visit_histogram(read_events(rows, user="id", time="t", by=[]), Calendar(0, 6, 1), steps=3, most=4)
    >>> visits.size, visits.l1
    (4, Fraction(4, 1))
    """
    kind = Promise(promise)
    if min(steps, most) < 1 or (kind is Promise.FOR_EVER and steps < calendar.steps and not ever):
        raise InvalidInputError(
            name="steps",
            value=steps,
            limit="at least 1, as is most; for ever, one stretch must be the whole period of trial",
            outcome="nothing was read",
        )
    encoder, key = Encoder(Domain({}), calendar, events.time, "drop", "drop"), Key(os.urandom(32)).derive(PEOPLE)
    with cleared_on_error():
        counts = _counted(events, encoder, key, steps, most)
    if ever:
        stretches = stretches_of(calendar, steps)
        return seal(counts, 0, max_contribution=ever_moves(stretches))
    return seal(counts, 0, max_contribution=4 if kind is Promise.WINDOW else 1)


def ever_moves(stretches: int) -> int:
    """How far the histogram of so many stretches moves if all that one person ever does goes, or what they do in any
    window.

    >>> [ever_moves(stretches) for stretches in (1, 2, 3, 9)]
    [2, 4, 4, 9]
    """
    return max(stretches, min(2 * stretches, 4))


def stretches_of(calendar: Calendar, steps: int) -> int:
    """How many stretches of ``steps`` a period of trial has, a last shorter one included."""
    return -(-calendar.steps // steps)


def _counted(
    events: Events, encoder: Encoder, key: bytes, steps: int, most: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    pieces = [encode_rows(batch, events.user, encoder, key) for batch in events.batches(encoder.dropped)]
    if not pieces:
        return np.zeros(most, dtype=np.int64)
    rows = join(pieces)
    high = np.zeros(len(rows), dtype=np.uint64) if rows.high is None else rows.high
    order = np.lexsort((rows.cell, rows.low, high))
    low, high, step = rows.low[order], high[order], rows.cell[order]
    fresh_person = np.ones(len(order), dtype=np.bool_)
    fresh_person[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    first_of_step = fresh_person.copy()
    first_of_step[1:] |= step[1:] != step[:-1]
    fresh_person, step = np.cumsum(fresh_person)[first_of_step], step[first_of_step]
    starts = np.flatnonzero(np.diff(fresh_person, prepend=0) | np.diff(step // steps, prepend=-1))
    visits = np.minimum(np.diff(starts, append=len(step)), most)
    return np.bincount(visits, minlength=most + 1)[1:].astype(np.int64)
