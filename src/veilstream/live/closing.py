"""Close the steps that are due: take the rows, bound them, publish, delete them; a kill at any point is survived.

1. *Freeze*: one commit of the spool says that the step takes no more rows.
2. *Publish*: rows are bounded, which gives the same counts however often it is done, and fed to the publisher. A step
   that was published before a kill returns the stored release.
3. *Forget*: one commit of the spool deletes the rows and says that the step is done.

A kill between any two of these leaves a step that is frozen and not done; it is taken up at 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.data.bounding.choice import Rows, choose
from veilstream.data.bounding.private import cleared_on_error
from veilstream.data.bounding.valued import choose_valued, sums_of_values
from veilstream.data.measures import ValueMeasures
from veilstream.data.values import GRID
from veilstream.errors import BudgetExceededError, ClockJumpError, LedgerMismatchError, VeilstreamError
from veilstream.jobs.automatic import recorded_mechanism
from veilstream.live.clock import Clock, moment
from veilstream.live.definition import StreamDefinition
from veilstream.live.distinct import PeopleBook, people_of_step
from veilstream.live.presence import PresenceBook
from veilstream.live.spool import Spool
from veilstream.live.spool_people import PeopleNotes
from veilstream.live.spool_presence import Present
from veilstream.live.spooled import SpooledStream
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.release.publisher import Publisher
from veilstream.release.together import feed_together
from veilstream.storage.ledger import Ledger
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.measured import seal_measured
from veilstream.values.origin import Origin
from veilstream.values.release import Release

STEPS_AT_ONCE = 256
FEW_STEPS = 2
LONGEST_GAP = 7 * 86_400
"""Seconds after which steps that wait are not closed by the clock alone."""
BINS_TO_A_COMMIT = 1 << 18


class Closer:
    """Publishes the closed steps of one stream. One thread at a time."""

    def __init__(self, spool: Spool, ledger: Ledger, name: str) -> None:
        stream = spool.stream(name)
        assert stream is not None
        self.name, self.definition = name, stream.definition
        self._spool, self.ledger = spool, ledger
        ledger.record_at(name, lambda step: moment(stream.definition.timetable.shown(step)))
        self._publisher: Publisher[Any] = Publisher(
            stream.definition.bound_domain,
            stream.definition.guarantee,
            _mechanism(stream.definition, ledger),
            ledger,
            stream=name,
            max_contribution=stream.definition.max_contribution,
            calendar=stream.definition.timetable.calendar,
            key=stream.key,
            population=stream.definition.population,
            draw=stream.definition.draw,
            unit=stream.definition.unit if stream.definition.population is not None else "people",
            measures=stream.definition.measures,
            most=stream.definition.most,
            distinct=stream.definition.distinct_steps,
        )
        several = stream.definition.distinct_steps not in (None, 1)
        self._presence = None if stream.definition.presence is None else PresenceBook(spool, stream)
        self._people = PeopleBook(spool, stream) if several else None
        refuse_old_copies(stream, ledger.head(name), spool.stream(name))

    def snapshot(self, stream: SpooledStream, step: int) -> Sealed:
        """The bounded counts of a frozen step from the rows of the spool."""
        with cleared_on_error():
            return sealed_step(self._spool, stream, step, self._presence, self._people)

    def present(self, step: int) -> Present | None:
        """Who was present up to ``step``, where that decides about later steps."""
        return None if self._presence is None else self._presence.stored(step)

    def people(self, step: int) -> PeopleNotes | None:
        """Who was there up to ``step``, where later steps count them as well."""
        return None if self._people is None else self._people.stored(step)

    @property
    def full(self) -> bool:
        """Whether who was present should be stored before further steps are taken."""
        return self._presence is not None and self._presence.full

    def publish(self, snapshot: Sealed) -> Release:
        """Publish the counts of a frozen step."""
        try:
            return self._publisher.feed(snapshot)
        except BudgetExceededError:
            # Charges of a failed attempt stay, and others may have drawn on the pool of a population: the step may be
            # beyond the budget, and the last release is repeated.
            return self._publisher.skip()


def refuse_old_copies(before: SpooledStream, head: int | None, after: SpooledStream | None) -> None:
    """Refuse a spool and a ledger of which one is an old copy.

    A step is frozen in the spool, published in the ledger, and done in the spool, in this order. What was ``done``
    ``before`` the ledger was looked at is in it, and what is in it was frozen when the spool was read ``after`` that.
    """
    name = before.definition.name
    if before.done > before.first and (head is None or head < before.done - 1):
        raise LedgerMismatchError(
            name="stream",
            value=name,
            limit=f"the spool has published steps up to {before.done - 1}, the ledger knows {head}; an old copy of "
            "the ledger was put back, and steps would be published twice",
            outcome="nothing was closed",
            next_step="put the latest ledger back, or say where it stands (veilstream restore)",
        )
    if head is not None and (after is None or after.frozen <= head):
        until = "none" if after is None else str(after.frozen - 1)
        raise LedgerMismatchError(
            name="stream",
            value=name,
            limit=f"the ledger has step {head}, the spool has closed steps up to {until}; an old copy of the spool was "
            "put back: rows and batch ids that it took since are not in it, nor who was present in steps since, so "
            "that people could count more often than promised",
            outcome="nothing was closed",
            next_step="put the latest spool back, or go on without what is lost (veilstream restore)",
        )


def _mechanism(definition: StreamDefinition, ledger: Ledger) -> StreamMechanism[Any]:
    """The mechanism of a definition; where that leaves the choice open, the one with which the stream began."""
    made = definition.make_mechanism()
    recorded = {spec.name: spec for spec in ledger.streams()}.get(definition.name) if definition.automatic else None
    return made if recorded is None else recorded_mechanism(recorded.mechanism, definition.name, made)


def sealed_step(
    spool: Spool,
    stream: SpooledStream,
    step: int,
    presence: PresenceBook | None = None,
    people: PeopleBook | None = None,
) -> Sealed:
    """The bounded counts of a step; where people count in few steps, of those who count in this one, and where people
    of the last steps are counted, of them."""
    definition = stream.definition
    bins, rows = definition.bins, spool.rows(stream, step)
    measured = None if definition.measures is None else definition.measures.to_json(definition.most)
    rule = definition.guarantee.presence_rule
    origin = Origin(None, rule, definition.distinct_steps or 1, measured, stream.key.id)
    if presence is not None:
        rows = presence.counting(rows, step)
    rows.cell = rows.cell + step * bins
    if definition.measures is not None:
        return _measured_step(rows, stream, definition.measures, step, origin)
    if people is not None:
        counts = people.counts(people_of_step(rows, stream, step), step)
    elif definition.distinct is not None:
        counts = _binned(people_of_step(rows, stream, step).cell, bins)
    else:
        counts = _binned(choose(rows, bins, definition.limit, stream.key) - step * bins, bins)
    return seal(counts, step, definition.max_contribution, definition.bound_domain.shape or None, origin)


def _binned(cells: NDArray[np.int64], bins: int) -> NDArray[np.int64]:
    return np.bincount(cells, minlength=bins).astype(np.int64, copy=False)


def _measured_step(rows: Rows, stream: SpooledStream, measures: ValueMeasures, step: int, origin: Origin) -> Sealed:
    """The bounded sums of what the values of a step are divided into."""
    definition = stream.definition
    bound = None if definition.most is None else measures.most_steps(definition.most)
    sums = np.zeros((definition.bins, measures.parts), dtype=np.int64)
    if len(rows):
        cells, values = choose_valued(rows, definition.bins, definition.limit, stream.key, bound)
        sums = sums_of_values(cells - step * definition.bins, values, measures, definition.bins)
    l1, l2 = measures.movement(definition.counts_per_user, definition.most)
    shape = (*definition.bound_domain.shape, measures.parts)
    return seal_measured(sums.reshape(-1), step, l1, l2, grid=GRID, shape=shape, origin=origin)


def due(stream: SpooledStream, now: int) -> int:
    """The last step that may be closed at ``now``; below ``stream.done`` if there is none."""
    timetable = stream.definition.timetable
    step = timetable.step_at(now - timetable.grace - timetable.settle) - 1
    return max(step, stream.frozen - 1)


def check_gap(stream: SpooledStream, clock: Clock) -> None:
    """Refuse to close many steps whose time was over long ago: after a week of silence an operator says so."""
    timetable = stream.definition.timetable
    seconds = clock.seconds_since(timetable.closes(stream.done))
    waiting = due(stream, clock.now()) - stream.done + 1
    if stream.definition.clock == "wall" and seconds > LONGEST_GAP and waiting > FEW_STEPS:
        raise ClockJumpError(
            name="clock",
            value=timetable.label(timetable.step_at(clock.now())),
            limit=f"{waiting} steps are due at once, the first for {seconds / 86400:.0f} days",
            next_step="correct the machine's clock; if the time is right, give serve --catch-up or call close_until",
        )


def close_due(
    spool: Spool,
    closers: Mapping[str, Closer],
    now: Mapping[str, int],
    published: Callable[[Release], None] = lambda _release: None,
    failed: Callable[[str, VeilstreamError], None] | None = None,
) -> int:
    """Close all steps of the streams that are due at their ``now``; how many were published.

    Streams that are due together share the commits that freeze, publish and forget; of a stream that is far behind
    some steps are taken at a time. A stream that fails is left for the next call and told to ``failed``; without it
    the error is raised.
    """
    count, waiting = 0, dict(now)
    while True:
        work = {stream.definition.name: stream for stream in _behind(spool, waiting)}
        if not work:
            return count
        last = {name: min(due(stream, now[name]), stream.done + STEPS_AT_ONCE - 1) for name, stream in work.items()}
        spool.freeze(last)
        done: dict[str, int] = {}
        try:
            for step, name, made in _published(closers, work, last):
                if isinstance(made, Release):
                    published(made)
                    done[name] = step
                    count += 1
                elif failed is None:
                    raise made
                else:
                    failed(name, made)
                    del waiting[name]
        finally:
            if done:
                present = {name: found for name, step in done.items() if (found := closers[name].present(step))}
                people = {name: noted for name, step in done.items() if (noted := closers[name].people(step))}
                spool.forget(done, max(now.values()), present, people)


def _published(
    closers: Mapping[str, Closer], work: Mapping[str, SpooledStream], last: Mapping[str, int]
) -> Iterator[tuple[int, str, Release | VeilstreamError]]:
    """The releases of all steps from each stream's next to its ``last``, many to a commit; an error ends its stream.

    It ends earlier where so much is to be remembered of the steps that they should be forgotten first.
    """
    at = {name: stream.done for name, stream in work.items()}
    while behind := [name for name in at if at[name] <= last[name] and not closers[name].full]:
        bins = accumulate(work[name].definition.bins for name in behind)
        names = [name for name, before in zip(behind, chain([0], bins), strict=False) if before < BINS_TO_A_COMMIT]
        # Rows are bounded before the ledger is locked.
        feeds: list[Callable[[], Release]] = []
        for name in names:
            try:
                feeds.append(partial(closers[name].publish, closers[name].snapshot(work[name], at[name])))
            except VeilstreamError as error:
                feeds.append(partial(_fail, error))
        for name, made in zip(names, feed_together(closers[names[0]].ledger, feeds, names), strict=True):
            yield at[name], name, made
            at[name] = at[name] + 1 if isinstance(made, Release) else last[name] + 1


def _fail(error: VeilstreamError) -> Release:
    raise error


def _behind(spool: Spool, now: Mapping[str, int]) -> Iterator[SpooledStream]:
    for name, tick in now.items():
        stream = spool.stream(name)
        if stream is not None and due(stream, tick) >= stream.done:
            yield stream
