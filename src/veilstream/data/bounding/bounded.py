"""From events to sealed counts of every step, with every person's contribution bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from veilstream.data.bounding.buckets import chosen_of_part
from veilstream.data.bounding.choice import Limit
from veilstream.data.bounding.distinct import WindowPeople, check_people, movement_of_people, people_of_part
from veilstream.data.bounding.encoded import encode_rows
from veilstream.data.bounding.keyed import PEOPLE, Key
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_runs import PresentRuns
from veilstream.data.bounding.private import Private, cleared_on_error
from veilstream.data.bounding.runs import Runs
from veilstream.data.bounding.valued import sums_of_part
from veilstream.data.calendar import Calendar
from veilstream.data.domain import Domain
from veilstream.data.encoding import Dropped, Encoder, Policy
from veilstream.data.events import Events
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import GRID
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.measured import seal_measured
from veilstream.values.origin import Origin

MEMORY_BYTES = 512 << 20


class Bounded(Private):
    """Events after bounding, not yet counted. It shows nothing of them but what is public.

    Close it, or use it in a ``with`` block, to free memory and disk at once.
    """

    __slots__ = (
        "_dropped",
        "_key",
        "_people",
        "_rule",
        "_runs",
        "calendar",
        "distinct",
        "domain",
        "limit",
        "measures",
        "most",
    )

    def __init__(
        self,
        runs: Runs,
        domain: Domain,
        calendar: Calendar,
        *,
        limit: Limit,
        key: Key,
        dropped: Dropped,
        measures: ValueMeasures | None = None,
        most: Fraction | None = None,
        distinct: int | None = None,
    ) -> None:
        self.domain, self.calendar, self.limit, self.measures, self.most = domain, calendar, limit, measures, most
        self.distinct = distinct
        self._runs, self._key, self._dropped = runs, key, dropped
        self._people: WindowPeople | None = None
        rule = None if self.history is None else self.history.presence_rule
        measured = None if measures is None else measures.to_json(most)
        self._rule = Origin(None, rule, distinct or 1, measured, key.id)

    @property
    def dropped(self) -> Dropped:
        """Exact numbers of rows left out, by reason. FOR THE OPERATOR ALONE: do not publish them."""
        return self._dropped

    def snapshots(self, first_t: int = 0) -> Iterator[Sealed]:
        """The sealed counts of every step of the calendar in order, empty steps included; t starts at
        ``first_t``."""
        for part in range(self._runs.parts):
            if self._runs.closed:
                raise InvalidInputError("bounded events: they were closed, open them again")
            kind = self._sealed if self.measures is None else self._measured
            steps = kind(part, first_t) if self.distinct is None else self._distinct_people(part, first_t)
            while True:
                with cleared_on_error():
                    snapshot = next(steps, None)
                if snapshot is None:
                    break
                yield snapshot

    def _sealed(self, part: int, first_t: int) -> Iterator[Sealed]:
        cells = chosen_of_part(self._runs, part, self.limit, self._key)
        self._dropped.note_bounding(part, self._runs.rows_that_may_count(part), len(cells))
        steps = self._runs.steps_of(part)
        ends = [0, len(cells)]
        if len(steps) > 1:
            cells.sort()
            ends = np.searchsorted(cells, np.array([*steps, steps.stop]) * self.domain.bins).tolist()
        for step, (first, last) in zip(steps, pairwise(ends), strict=True):
            flat = cells[first:last] - step * self.domain.bins
            counts = np.bincount(flat, minlength=self.domain.bins).astype(np.int64, copy=False)
            origin = replace(self._rule, time=self.calendar.step_time(step))
            yield seal(counts, first_t + step, self.limit.counts_per_user, self.domain.shape or None, origin)

    def _distinct_people(self, part: int, first_t: int) -> Iterator[Sealed]:
        assert self.distinct is not None
        bins, most = self.domain.bins, self.limit.bins_per_user
        if part == 0:
            self._people = WindowPeople(self.distinct, bins, most, self._key)
        assert self._people is not None
        moved = movement_of_people(bins, most, self.distinct)
        for step, rows, counted in people_of_part(self._runs, part, most, self._key):
            self._dropped.note_bounding(part, self._runs.rows_that_may_count(part), counted)
            counts = self._people.counts(rows, step)
            origin = replace(self._rule, time=self.calendar.step_time(step))
            yield seal(counts, first_t + step, moved, self.domain.shape or None, origin)

    def _measured(self, part: int, first_t: int) -> Iterator[Sealed]:
        assert self.measures is not None
        l1, l2 = self.measures.movement(self.limit.counts_per_user, self.most)
        shape, total = (*self.domain.shape, self.measures.parts), 0
        for step, sums, counted in sums_of_part(self._runs, part, self.limit, self._key, self.measures, self.most):
            total += counted
            self._dropped.note_bounding(part, self._runs.rows_that_may_count(part), total)
            origin = replace(self._rule, time=self.calendar.step_time(step))
            yield seal_measured(sums, first_t + step, l1, l2, grid=GRID, shape=shape, origin=origin)

    @property
    def history(self) -> PresenceHistory | None:
        """Who was present up to the last snapshot that was taken, for the next day; None without ``presence``."""
        return self._runs.history if isinstance(self._runs, PresentRuns) else None

    def close(self) -> None:
        """Forget the events."""
        self._runs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Bounded({self.domain!r}, {self.calendar.steps} steps, {self.limit!r})"


def bound(
    events: Events,
    domain: Domain,
    calendar: Calendar,
    *,
    bins_per_user: int = 1,
    counts_per_user: int = 1,
    key: bytes | None = None,
    unknown: Policy = "error",
    missing_time: Policy = "error",
    memory_bytes: int = MEMORY_BYTES,
    directory: str | Path | None = None,
    presence: Guarantee | PresenceHistory | None = None,
    first_step: int = 0,
    measures: ValueMeasures | None = None,
    most: Fraction | None = None,
    missing_value: Policy = "error",
    distinct: int | None = None,
) -> Bounded:
    """Read all ``events`` and let each person count in at most k bins and l1 counts per step.

    For neighbouring event sets, which differ in all rows of one person, the counts of each step differ by
    at most ``counts_per_user`` in L1 and in at most ``bins_per_user`` bins. Which rows count is decided by
    a keyed hash: the same key gives the same counts whatever the order of rows, the batches and the kind of
    source; the default key is fresh from the operating system. Rows without a user are dropped and counted.
    Beyond ``memory_bytes`` of encoded rows the rest goes to an unnamed temporary file in ``directory``, and so does
    what is remembered of who was present.

    With ``presence``, a guarantee that has one, people count in few steps (docs/presence.md). For data that come day
    by day it is the history of the days before (``PresenceHistory``), made with the same ``key``, in which the first
    step of the calendar has the number ``first_step``; afterwards ``Bounded.history`` is that of the next day.

    With ``measures`` the values of columns are summed up instead of counting rows (docs/measures.md); ``most`` then
    bounds what one person adds to a sum in a step, and ``missing_value`` decides about rows without a value.

    With ``distinct``, a number of steps, people are counted instead of rows: who was there in that many last steps,
    each once in every one of at most ``bins_per_user`` bins (1: at each step by itself).

    >>> from veilstream.data import Categories
    >>> from veilstream.data import read_events
    >>> rows = {"id": [1, 1, 2], "t": [0, 0, 1], "place": ["a", "a", "b"]}
    >>> places = Domain({"place": Categories(["a", "b"])})
    >>> events = read_events(rows, user="id", time="t", by=["place"])
    >>> with bound(events, places, Calendar(0, 3, 1)) as bounded:
    ...     len(list(bounded.snapshots()))
    3
    """
    limit, secret = Limit(bins_per_user, counts_per_user), Key(os.urandom(32) if key is None else key)
    # A report of a crash may record this function's variables.
    del key
    check_people(distinct, measures, limited=presence is not None)
    if measures is not None:
        measures.movement(counts_per_user, most)
    wanted = (*domain.names, *(() if measures is None else measures.names))
    missing = [name for name in wanted if name not in events.by]
    if missing:
        raise InvalidInputError(
            f"attribute '{missing[0]}': the events were opened with the attributes ({', '.join(events.by)})",
            outcome="nothing was read",
        )
    encoder = Encoder(domain, calendar, events.time, unknown, missing_time, missing_value=missing_value)
    runs = Runs(calendar.steps, domain.bins, memory_bytes, directory)
    if presence is not None:
        history = presence
        if isinstance(history, Guarantee):
            history = PresenceHistory(history, secret, memory_bytes, directory)
        runs = PresentRuns(
            calendar.steps,
            domain.bins,
            memory_bytes,
            directory,
            history=history,
            first_step=first_step,
            dropped=encoder.dropped,
        )
    try:
        with cleared_on_error():
            read_rows(events, encoder, runs, secret, measures)
    except BaseException:
        runs.close()
        raise
    return Bounded(
        runs,
        domain,
        calendar,
        limit=limit,
        key=secret,
        dropped=encoder.dropped,
        measures=measures,
        most=most,
        distinct=distinct,
    )


def read_rows(events: Events, encoder: Encoder, runs: Runs, key: Key, measures: ValueMeasures | None = None) -> None:
    """Encode every event that counts."""
    people_key = key.derive(PEOPLE)
    for batch in events.batches(encoder.dropped if encoder.unknown == "drop" else None):
        runs.add(encode_rows(batch, events.user, encoder, people_key, measures))
    runs.finish()
