"""From a DataFrame of events to sealed counts of every step; nothing in between can be changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from veilstream.data import Calendar, Domain, Dropped, Policy
from veilstream.data.bounding.choice import Integers, Limit
from veilstream.data.bounding.distinct import check_people, movement_of_people
from veilstream.data.bounding.keyed import CHOICE, PEOPLE, Key
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_rows import PresenceLimit
from veilstream.data.bounding.private import cleared_on_error
from veilstream.data.bounding.runs import Runs
from veilstream.data.encoding import Encoder
from veilstream.data.events import read_events
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import GRID
from veilstream.privacy.guarantee import Guarantee
from veilstream.spark.environment import environment
from veilstream.spark.jobs import bucket_count, collected, grouped, mapped, numbered, on_cluster
from veilstream.spark.notes import Note, settle
from veilstream.spark.shipping import ship
from veilstream.spark.worker import COUNTED, DEALT, NOTES, Job, adding, bounding, encoding, payloads, unpacked_run
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.measured import seal_measured
from veilstream.values.origin import Origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MEMORY_BYTES: Final = 256 << 20
"""Rows of one bucket that an executor's task keeps in memory; more go to a temporary file without a name."""
LEAST_PARTS: Final = 16
PART_CELLS: Final = 1 << 22
ANSWER_CELLS: Final = 1 << 25
"""Counts that reach the driver at once."""


def snapshots(
    df: DataFrame,
    *,
    domain: Domain,
    calendar: Calendar,
    user: str,
    time: str,
    key: bytes | None = None,
    bins_per_user: int = 1,
    counts_per_user: int = 1,
    unknown: Policy = "error",
    missing_time: Policy = "error",
    first_t: int = 0,
    buckets: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    dropped: Dropped | None = None,
    presence: Guarantee | None = None,
    measures: ValueMeasures | None = None,
    most: Fraction | None = None,
    missing_value: Policy = "error",
    distinct: int | None = None,
) -> Iterator[Sealed]:
    """The sealed counts of every step, bounded and counted on the cluster: the same as on one machine.

    With the same ``key`` each count equals that of :func:`veilstream.data.bounding.bound`, whatever the partitions,
    the number of executors, and the tasks that failed and ran again. All rows are read and checked before this
    returns. ``buckets`` is the number of groups of people that are bounded apart (by default as many as
    ``spark.sql.shuffle.partitions``). Rows left out are added to ``dropped``, for the operator alone. With
    ``presence``, a guarantee that has one, people count in few steps (docs/presence.md). ``measures``, ``most``,
    ``missing_value`` and ``distinct`` are those of ``bound``: sums of values, or people instead of rows.
    """
    settings = Settings(
        domain,
        calendar,
        user,
        time,
        Limit(bins_per_user, counts_per_user),
        unknown=unknown,
        missing_time=missing_time,
        buckets=buckets,
        memory_bytes=memory_bytes,
        presence=presence,
        measures=measures,
        most=most,
        missing_value=missing_value,
        distinct=distinct,
    )
    secret = Key(os.urandom(32) if key is None else key)
    # A report of a crash may record this function's variables.
    del key
    return settings.run(df, range(calendar.steps), secret, first_t, Dropped() if dropped is None else dropped)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is counted and how, but for the key."""

    domain: Domain
    calendar: Calendar
    user: str
    time: str
    limit: Limit
    unknown: Policy = "error"
    missing_time: Policy = "error"
    buckets: int | None = None
    memory_bytes: int = MEMORY_BYTES
    presence: Guarantee | None = None
    measures: ValueMeasures | None = None
    most: Fraction | None = None
    missing_value: Policy = "error"
    distinct: int | None = None

    def __post_init__(self) -> None:
        # The checks of columns and policies are those of the other sources.
        measured = () if self.measures is None else self.measures.names
        read_events((), user=self.user, time=self.time, by=(*self.domain.names, *measured))
        Encoder(
            self.domain, self.calendar, self.time, self.unknown, self.missing_time, missing_value=self.missing_value
        )
        check_people(self.distinct, self.measures, limited=self.presence is not None)
        if self.measures is not None:
            self.measures.movement(self.limit.counts_per_user, self.most)
        # Made for its check: executors would find out late.
        Runs(self.calendar.steps, self.domain.bins, self.memory_bytes)
        if self.presence is not None:
            # Its checks are those of the other sources.
            PresenceHistory(self.presence, bytes(16))

    def run(self, df: DataFrame, steps: range, key: Key, first_t: int, dropped: Dropped) -> Iterator[Sealed]:
        """The sealed counts of ``steps`` of the calendar; of other steps only rows from ``looks_back_to`` are there."""
        job = Job(
            domain=self.domain,
            calendar=self.calendar,
            user=self.user,
            time=self.time,
            limit=self.limit,
            unknown=self.unknown,
            missing_time=self.missing_time,
            steps=steps,
            buckets=bucket_count(df, self.buckets),
            parts=_parts(len(steps), self.domain.bins * (1 if self.measures is None else self.measures.parts)),
            memory_bytes=self.memory_bytes,
            expected=environment(),
            people_key=key.derive(PEOPLE),
            choice_key=key.derive(CHOICE),
            presence=self._presence_limit(first_t),
            measures=self.measures,
            most=self.most,
            missing_value=self.missing_value,
            distinct=self.distinct,
        )
        limited = None if self.presence is None else self.presence.presence_rule
        measured = None if self.measures is None else self.measures.to_json(self.most)
        rule = Origin(None, limited, self.distinct or 1, measured, key.id)
        with cleared_on_error(), on_cluster():
            answer = _run(df, job, dropped)
        return _sealed(answer, job, first_t, rule)

    def _presence_limit(self, first_t: int) -> PresenceLimit | None:
        if self.presence is None or self.presence.presence is None:
            return None
        since = tuple(self.looks_back_to(step, first_t) for step in range(self.calendar.steps))
        return PresenceLimit(self.presence.presence, since)

    def looks_back_to(self, step: int, first_t: int = 0) -> int:
        """The first step whose rows decide who counts at ``step``."""
        promise = self.presence
        if promise is None:
            return max(0, step + 1 - (self.distinct or 1))
        if promise.per is not None:
            return max(0, promise.per.first_of(first_t + step) - first_t)
        return 0 if promise.w is None else max(0, step - promise.w + 1)


def _parts(steps: int, bins: int) -> int:
    return min(steps, max(LEAST_PARTS, -(-steps * bins // PART_CELLS)))


@dataclass(frozen=True, slots=True)
class _Answer:
    """Counts on the cluster, taken over in ranges of parts, or in one piece that is here already."""

    counts: DataFrame
    ranges: list[range]
    first: Any

    def tables(self) -> Iterator[tuple[range, Any]]:
        if self.first is not None:
            yield self.ranges[0], self.first
            return
        try:
            for parts in self.ranges:
                with on_cluster():
                    wanted = f"part between {parts.start} and {parts.stop - 1}"
                    table = collected(self.counts.where(wanted))
                yield parts, table
        finally:
            self.counts.unpersist()


def _run(df: DataFrame, job: Job, dropped: Dropped) -> _Answer:
    rows = numbered(df, job.columns)
    ship(df.sparkSession)
    dealt = mapped(rows, encoding(job), DEALT)
    counts = grouped(grouped(dealt, "bucket", bounding(job), COUNTED), "part", adding(), COUNTED)
    at_once = max(1, ANSWER_CELLS * job.parts // (len(job.steps) * job.width))
    ranges = [range(first, min(first + at_once, job.parts)) for first in range(0, job.parts, at_once)]
    if len(ranges) == 1:
        table = collected(counts)
    else:
        counts = counts.persist()
        table = collected(counts.where(f"part = {NOTES}"))
    notes = table.filter(np.asarray(table.column("part")) == NOTES)
    settle((Note.from_bytes(value.to_pybytes()) for value in payloads(notes.to_batches())), dropped)
    return _Answer(counts, ranges, table if len(ranges) == 1 else None)


def _sealed(answer: _Answer, job: Job, first_t: int, rule: Origin) -> Iterator[Sealed]:
    tables = answer.tables()
    before: Integers = np.zeros(job.width, dtype=np.int64)
    while True:
        with cleared_on_error():
            found = next(tables, None)
        if found is None:
            return
        parts, table = found
        number = np.asarray(table.column("part"))
        for part in parts:
            with cleared_on_error():
                found_steps = _steps_of(table.filter(number == part), job, part, before)
                steps = [_seal(numbers, job, step, first_t, rule) for step, numbers in found_steps]
            yield from steps


def _steps_of(table: Any, job: Job, part: int, numbers: Integers) -> Iterator[tuple[int, Integers]]:
    """The numbers of the steps of a part; of people of the last steps the cluster says how ``numbers`` change."""
    width = job.width
    runs = [unpacked_run(value) for value in payloads(table.to_batches())]
    for step in range(job.first_step(part), job.first_step(part + 1)):
        if job.distinct in (None, 1):
            numbers[:] = 0
        for cells, found in runs:
            first, last = np.searchsorted(cells, [step * width, (step + 1) * width]).tolist()
            numbers[cells[first:last] - step * width] += found[first:last]
        yield step, numbers


def _seal(numbers: Integers, job: Job, step: int, first_t: int, rule: Origin) -> Sealed:
    t, shape, origin = first_t + step, job.domain.shape, replace(rule, time=job.calendar.step_time(step))
    if job.measures is not None:
        l1, l2 = job.measures.movement(job.limit.counts_per_user, job.most)
        return seal_measured(numbers, t, l1, l2, grid=GRID, shape=(*shape, job.measures.parts), origin=origin)
    moved = job.limit.counts_per_user
    if job.distinct is not None:
        moved = movement_of_people(job.domain.bins, job.limit.bins_per_user, job.distinct)
    return seal(numbers, t, moved, shape or None, origin)
