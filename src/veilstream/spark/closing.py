"""Publish the steps that the public clock has closed: one batch job after the other, with the ledger as the checkpoint.

A row counts in a step iff its time lies in the step and it arrived before the step's public end plus a public grace
period. That is a function of the row and the calendar alone. A watermark of Structured Streaming is not: it follows
the newest row, so that one person's row decides whether another's counts. Let streaming land data, never decide.

Which steps were published stands in the ledger. A driver that is killed leaves nothing half done; the next call goes
on after the last committed step, and a step that another driver published meanwhile comes back as it was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from veilstream.data import Calendar, Dropped, Policy
from veilstream.data.bounding.choice import Limit
from veilstream.data.bounding.distinct import movement_of_people
from veilstream.data.bounding.keyed import Key
from veilstream.data.columns import EPOCH
from veilstream.errors import BudgetExceededError, EngineError, InvalidInputError, LedgerMismatchError, VeilstreamError
from veilstream.privacy.durations import MICROSECONDS, parse_duration
from veilstream.release.publisher import Publisher
from veilstream.spark.counting import Settings
from veilstream.spark.jobs import on_cluster, place, plain, require_columns
from veilstream.storage.keys import key_id
from veilstream.storage.ledger.anchor import Anchor
from veilstream.trusted.counts import Sealed
from veilstream.values.release import Release

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint")
Progress: TypeAlias = Callable[[int, int], None]
"""Takes how many steps are done and how many there are."""


class Clock(Protocol):
    """Tells the present, in microseconds since 1970 UTC, or in the numbers of an integer calendar."""

    def now(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ClosedSteps:
    """A stream whose steps are published when the clock has passed them.

    ``arrival`` is the column of the instant at which a row arrived: Kafka's log-append time, an ingest column, or the
    commit time of the file that holds it. ``time`` is the column that says which step a row belongs to, the arrival
    unless given. ``grace`` is how long after its step's end a row may arrive and count; ``settle`` is how long rows
    that have arrived may take to become visible to Spark. ``steps_at_once`` bounds the steps of one job when many are
    due. A person counts in at most ``bins_per_user`` bins and in as many counts as the publisher was promised. What is
    measured of columns is what the publisher measures, and where it was opened with ``distinct`` people are counted
    instead of rows. Rows left out, late ones among them, are added to ``dropped``, for the operator alone.
    """

    publisher: Publisher[Any]
    calendar: Calendar
    user: str
    arrival: str
    key: bytes = field(repr=False)
    time: str | None = None
    grace: str | int = 0
    settle: str | int = 0
    bins_per_user: int = 1
    unknown: Policy = "error"
    missing_value: Policy = "error"
    steps_at_once: int = 24
    buckets: int | None = None
    dropped: Dropped = field(default_factory=Dropped)

    def __post_init__(self) -> None:
        if type(self.steps_at_once) is not int or self.steps_at_once < 1:
            raise InvalidInputError(
                name="steps_at_once", value=self.steps_at_once, limit="a whole number of at least 1 is needed"
            )
        self.settings()
        self.due(0)
        self._check_record()

    def _check_record(self) -> None:
        """Refuse a calendar or a key other than the ledger's: steps would mean other times, and other rows count."""
        recorded = self.publisher.ledger.spec(self.publisher.stream)
        if recorded.anchor != Anchor.of(self.calendar) or recorded.key != key_id(self.key):
            raise LedgerMismatchError(
                name="stream",
                value=self.publisher.stream,
                limit="the ledger holds no calendar and key for it, or others; open the publisher with the calendar "
                "and the key that the steps have",
            )

    def settings(self) -> Settings:
        """What every job counts."""
        domain = self.publisher.domain
        if domain is None:
            raise InvalidInputError("publisher: it was opened with a number of bins; give it the domain instead")
        promise, promised = self.publisher.guarantee, self.publisher.max_contribution
        limit = Limit(self.bins_per_user, promised)
        if self.publisher.distinct is not None:
            self._check_people(self.publisher.distinct, promised, domain.bins)
            limit = Limit(self.bins_per_user, 1)
        return Settings(
            domain,
            self.calendar,
            self.user,
            self.time or self.arrival,
            limit,
            self.unknown,
            buckets=self.buckets,
            presence=None if promise.presence is None else promise,
            measures=self.publisher.measures,
            most=self.publisher.most,
            missing_value=self.missing_value,
            distinct=self.publisher.distinct,
        )

    def _check_people(self, steps: int, promised: int, bins: int) -> None:
        """Refuse a publisher whose promise does not fit numbers of people."""
        moved = movement_of_people(bins, self.bins_per_user, steps)
        if promised != moved:
            raise InvalidInputError(
                name="max_contribution", value=promised, limit=f"one person moves these numbers of people by {moved}"
            )

    def due(self, now: int) -> int:
        """How many steps, from the first, are closed at ``now``."""
        wait = self._ticks("grace", self.grace) + self._ticks("settle", self.settle)
        low, high = 0, self.calendar.steps
        while low < high:
            middle = (low + high) // 2
            if self.ends(middle) + wait <= now:
                low = middle + 1
            else:
                high = middle
        return low

    def begins(self, t: int) -> int:
        """When step ``t`` begins, in ticks of the clock."""
        return _tick(self.calendar.begins(t))

    def ends(self, t: int) -> int:
        """When step ``t`` ends, in ticks of the clock."""
        return _tick(self.calendar.ends(t))

    def deadline(self, t: int) -> int:
        """Rows of step ``t`` count if they arrived before this moment."""
        return self.ends(t) + self._ticks("grace", self.grace)

    def _ticks(self, name: str, given: str | int) -> int:
        if isinstance(given, str) and not isinstance(self.calendar.every, int):
            count, unit = parse_duration(given)
            if unit in MICROSECONDS:
                return count * MICROSECONDS[unit]
        elif isinstance(given, int) and given >= 0:
            return given
        raise InvalidInputError(
            name=name, value=given, limit="0 or a duration of us, ms, s, m, h, d or w is needed; a number for numbers"
        )


def publish_closed(
    df: DataFrame, stream: ClosedSteps, clock: Clock, *, progress: Progress | None = None
) -> list[Release]:
    """Publish every step that is closed and not yet in the ledger, empty ones too; what was released now.

    A step that cannot be paid for repeats the last release, as the server does. ``progress`` is called with the
    number of steps that are in the ledger and of those that are due: at the start and after each commit.
    """
    releases: list[Release] = []
    due = stream.due(clock.now())
    with on_cluster():
        _require_instants(df, stream)
    told = progress or _silent
    told(next_step(stream), max(due, next_step(stream)))
    while (first := next_step(stream)) < due:
        steps = range(first, min(due, first + stream.steps_at_once))
        try:
            for snapshot in _counted(df, stream, steps):
                try:
                    releases.append(stream.publisher.feed(snapshot))
                except BudgetExceededError:
                    releases.append(stream.publisher.skip())
                told(releases[-1].t + 1, due)
        except (EngineError, InvalidInputError) as error:
            if releases:
                _set_outcome(error, f"{len(releases)} steps before it were released and stay so")
            raise
    return releases


def _counted(df: DataFrame, stream: ClosedSteps, steps: range) -> Iterator[Sealed]:
    """One job: the counts of the steps."""
    settings = stream.settings()
    # Where people count in few steps, rows of earlier steps say who was there.
    read = range(min(settings.looks_back_to(t) for t in steps), steps.stop)
    with on_cluster():
        closed = plain(df).where(_rule(df, stream, read)).toDF(*df.columns)
        left_out = _left_out(df, stream, steps)
    snapshots = settings.run(closed, steps, Key(stream.key), 0, stream.dropped)
    # Only now: what a job that failed left out is counted when it runs again.
    stream.dropped.add(left_out)
    return snapshots


def _set_outcome(error: VeilstreamError, outcome: str) -> None:
    """Say of a job that failed after others what the whole call has done."""
    problem = str(error).removesuffix(f"; {error.outcome}")
    error.outcome = outcome
    error.args = (f"{problem}; {outcome}",)


def _silent(done: int, due: int) -> None:
    """Nobody wants to know."""


def next_step(stream: ClosedSteps) -> int:
    """The first step that is not in the ledger."""
    head = stream.publisher.ledger.head(stream.publisher.stream)
    return 0 if head is None else head + 1


def _rule(df: DataFrame, stream: ClosedSteps, steps: range) -> Column:
    """Which rows count in the steps; they are told by themselves and the calendar."""
    moment = _moments(stream)
    time, arrival = _times(df, stream)
    inside = (time >= moment(stream.begins(steps[0]))) & (time < moment(stream.ends(steps[-1])))
    if stream.time is None or stream.time == stream.arrival:
        rule: Column = inside
        return rule
    in_time = [(time < moment(stream.ends(t))) & (arrival < moment(stream.deadline(t))) for t in steps]
    later = [time >= moment(stream.begins(t)) for t in steps]
    each = [after & before for after, before in zip(later, in_time, strict=True)]
    both: Column = inside & reduce(lambda one, other: one | other, each)
    return both


def _left_out(df: DataFrame, stream: ClosedSteps, steps: range) -> Dropped:
    """The rows that arrived while the steps were open and count in none, by reason. For the operator alone.

    Every row arrived between two successive deadlines, so the jobs of a stream count each such row once.
    """
    if stream.time is None or stream.time == stream.arrival:
        return Dropped()
    functions: Any = import_module("pyspark.sql.functions")
    moment = _moments(stream)
    time, arrival = _times(df, stream)
    arrived = arrival < moment(stream.deadline(steps[-1]))
    if steps[0] > 0:
        arrived &= arrival >= moment(stream.deadline(steps[0] - 1))
    outside = (time < moment(stream.begins(0))) | (time >= moment(stream.ends(stream.calendar.steps - 1)))
    closed = [(arrival >= moment(stream.deadline(t - 1))) & (time < moment(stream.ends(t - 1))) for t in steps if t > 0]
    late = reduce(lambda one, other: one | other, closed, functions.lit(False)) & ~outside
    reasons = [functions.count_if(reason) for reason in (time.isNull(), outside, late)]
    found: Any = plain(df).where(arrived).agg(*reasons).collect()[0]
    return Dropped(missing_time=found[0], outside_time=found[1], late=found[2])


def _moments(stream: ClosedSteps) -> Any:
    """A function from ticks of the clock to what columns are compared with."""
    functions: Any = import_module("pyspark.sql.functions")

    def moment(tick: int) -> Any:
        number = functions.lit(tick).cast("bigint")
        return number if isinstance(stream.calendar.every, int) else functions.timestamp_micros(number)

    return moment


def _times(df: DataFrame, stream: ClosedSteps) -> tuple[Any, Any]:
    """The columns of the time and of the arrival, of the DataFrame under plain names."""
    functions: Any = import_module("pyspark.sql.functions")
    return functions.col(place(df, stream.time or stream.arrival)), functions.col(place(df, stream.arrival))


def _require_instants(df: DataFrame, stream: ClosedSteps) -> None:
    """Only instants can be compared with the clock: a time without a zone would be read in the session's."""
    require_columns(df, {stream.time or stream.arrival, stream.arrival})
    kinds = {entry.name: entry.dataType.simpleString() for entry in df.schema.fields}
    wanted = WHOLE_NUMBERS if isinstance(stream.calendar.every, int) else ("timestamp",)
    for column in (stream.time or stream.arrival, stream.arrival):
        if kinds[column] not in wanted:
            raise InvalidInputError(
                name=f"column '{column}' of type",
                value=kinds[column],
                limit=f"{' or '.join(wanted)} is needed to compare it with the clock; cast it, naming its zone",
                outcome="nothing was read",
            )


def _tick(moment: datetime | int) -> int:
    return moment if isinstance(moment, int) else (moment - EPOCH) // timedelta(microseconds=1)
