"""Run a job: read and bound everything first, then publish step by step, then write tables from the ledger."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from veilstream.data.readers import require_files
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerError, LedgerMismatchError
from veilstream.jobs.automatic import AUTO, recorded_mechanism
from veilstream.jobs.prepare import PreparedJob, database_file, require_ledger
from veilstream.jobs.rows import open_snapshots
from veilstream.jobs.second import record_source, refuse_second
from veilstream.jobs.summary import Summary, write_outputs
from veilstream.release.publisher import Publisher
from veilstream.storage.keys import StreamKey, begun_path, key_path, load, settle, store
from veilstream.storage.ledger import Ledger
from veilstream.storage.requiring import require_population
from veilstream.storage.resetting import was_reset
from veilstream.trusted.counts import Sealed
from veilstream.values.release import Release

Advance = Callable[[int, int], None]


@dataclass(slots=True)
class _Interrupt:
    asked: bool = False


@contextmanager
def _finish_the_step(say: Callable[[str], None]) -> Generator[_Interrupt]:
    """Let Ctrl-C wait for the end of a step.

    An exception in the middle of a step leaves its charges behind without a release, so it is never raised there.
    """
    state = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield state
        return

    def note(_number: int, _frame: FrameType | None) -> None:
        if not state.asked:
            say("stopping after this step")
        state.asked = True

    former = signal.signal(signal.SIGINT, note)
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, former)


def run(prepared: PreparedJob, say: Callable[[str], None], advance: Advance) -> Summary:
    """Publish what is not published yet.

    ``say`` takes lines for the operator, ``advance`` the number of steps done and of all steps.
    """
    job, steps = prepared.job, prepared.calendar.steps
    url = require_ledger(job)
    database = database_file(url)
    key_file = key_path(database, job.stream, job.key_file)
    prepared = _as_begun(prepared, url, database)
    head = _head(prepared, url, database, key_file)
    before = 0 if head is None else min(head + 1, steps)
    summary = Summary(job.stream, steps, prepared.bins, before, prepared.measure.label)
    if summary.before == summary.steps:
        # Nothing is read any more, but a mistyped name is told all the same.
        require_files(prepared.source)
        with Ledger.open(url) as ledger:
            write_outputs(prepared, ledger, summary)
        return summary
    others: list[str] = []
    if head is None:
        require_population(url, job.population)
        if _there(database):
            with Ledger.open(url) as ledger:
                if job.stream not in [spec.name for spec in ledger.streams()]:
                    others = refuse_second(prepared, ledger, say)
    known = load(key_file, job.stream)
    key = known or load(begun_path(key_file), job.stream) or StreamKey.fresh(job.stream)
    # Every row is read and checked here, before the ledger is touched.
    with open_snapshots(prepared, key, summary, key_file.with_name(f"{key_file.name}.presence")) as snapshots:
        if not prepared.job.allow_empty:
            _refuse_silence(prepared, summary)
        first = known is not None or _is_first(key_file, key)
        if first:
            with Ledger.open(url) as ledger:
                publisher = _publisher(prepared, ledger, key)
                if known is None:
                    settle(key_file)
                record_source(prepared, ledger, others)
                _feed(prepared, publisher, snapshots, summary, say=say, advance=advance)
                write_outputs(prepared, ledger, summary)
            return summary
    # The rows are read anew, bounded by the key of the other run; both go on as two runs of one stream do.
    say(f"stream {job.stream!r}: another run began it meanwhile; going on with it")
    return run(prepared, say, advance)


def _is_first(key_file: Path, key: StreamKey) -> bool:
    """Whether no other run begins the stream with a key of its own at the same time."""
    if store(begun_path(key_file), key) != key:
        return False
    other = load(key_file, key.stream)
    if other is not None and other != key:
        begun_path(key_file).unlink(missing_ok=True)
        return False
    return True


def _refuse_silence(prepared: PreparedJob, summary: Summary) -> None:
    """Refuse steps after the last row: whether nobody came or the file ends there, only the holder knows.

    To publish up to the last row would tell when it happened.
    """
    last = -1 if summary.dropped is None else summary.dropped.last_step
    if last < summary.steps - 1:
        begins = (
            "" if last < 0 else f"the last row lies in step {last}, which begins at {prepared.calendar.label(last)}"
        )
        raise InvalidInputError(
            name="file",
            limit="it has no rows in the last steps of the time range, which would be published as counts of nobody",
            outcome="nothing was released",
            next_step="give an end up to which the data are complete (--end), or say that silence is data "
            "(--allow-empty)",
            operator_note=begins or "no row lies in the time range",
        )


def _as_begun(prepared: PreparedJob, url: str, database: Path | None) -> PreparedJob:
    """The job with what its stream records, if that exists: the mechanism, where the job leaves the choice to us, and
    whether silence is data."""
    job = prepared.job
    if not _there(database):
        return prepared
    with Ledger.open(url) as ledger:
        recorded = {spec.name: spec for spec in ledger.streams()}.get(job.stream)
    if recorded is None:
        return prepared
    if job.mechanism == AUTO and not job.settings and job.histogram is None and job.sums is None:
        mechanism = recorded_mechanism(recorded.mechanism, job.stream, prepared.mechanism)
        prepared = replace(prepared, mechanism=mechanism)
    if recorded.allow_empty is None or recorded.allow_empty == job.allow_empty:
        return prepared
    if job.allow_empty:
        raise LedgerMismatchError(
            name="allow_empty",
            value=True,
            limit=f"stream {job.stream!r} records that steps after the last row of a file are not released",
            next_step="give an end up to which the data are complete (--end)",
        )
    return replace(prepared, job=job.model_copy(update={"allow_empty": True}))


def _there(database: Path | None) -> bool:
    """Whether there is a ledger that can be asked; a server is."""
    try:
        return database is None or database.exists()
    except OSError as error:
        raise LedgerError(
            name="ledger", value=database, limit=f"{error.strerror}", outcome="nothing was opened"
        ) from None


def _head(prepared: PreparedJob, url: str, database: Path | None, key_file: Path) -> int | None:
    """The last released step, after checking that the ledger's stream is this one; nothing is created."""
    stream = prepared.job.stream
    known = load(key_file, stream)
    if not _there(database):
        _refuse_lost_ledger(known, key_file, stream)
        return None
    with Ledger.open(url) as ledger:
        if stream not in [spec.name for spec in ledger.streams()]:
            if known is None or not was_reset(ledger, stream, known):
                _refuse_lost_ledger(known, key_file, stream)
            return None
        # Another process that has just begun the stream may give the key its name between the two looks.
        known = known or load(begun_path(key_file), stream) or load(key_file, stream)
        if known is None:
            raise LedgerError(
                name="key file",
                value=key_file,
                limit=f"missing, but stream {stream!r} is in the ledger; it says which rows count, so "
                "restore it from a backup",
            )
        known.check(prepared.calendar, key_file)
        _publisher(prepared, ledger, known)
        return ledger.head(stream)


def _refuse_lost_ledger(known: StreamKey | None, key_file: Path, stream: str) -> None:
    """A key without its stream: the ledger was deleted or moved, and all would be published and paid for again."""
    if known is not None:
        raise LedgerError(
            name="key file",
            value=key_file,
            limit=f"stream {stream!r} was published with it, but the ledger does not know the stream; publishing it "
            "again with fresh noise would cost everybody a second budget",
            next_step="restore the ledger from a backup (veilstream restore); to start over, decide so with "
            f"veilstream ledger reset --stream {stream}",
        )


def _publisher(prepared: PreparedJob, ledger: Ledger, key: StreamKey) -> Publisher[Any]:
    return Publisher(
        prepared.domain,
        prepared.guarantee,
        prepared.mechanism,
        ledger,
        stream=prepared.job.stream,
        max_contribution=prepared.max_contribution,
        calendar=prepared.calendar,
        key=key.secret,
        population=prepared.job.population,
        draw=prepared.job.draw,
        unit=prepared.job.unit,
        allow_empty=prepared.job.allow_empty,
        measures=prepared.measures,
        most=prepared.job.most,
        distinct=prepared.job.distinct_steps,
    )


def _feed(
    prepared: PreparedJob,
    publisher: Publisher[Any],
    snapshots: Iterator[Sealed],
    summary: Summary,
    *,
    say: Callable[[str], None],
    advance: Advance,
) -> None:
    advance(summary.before, summary.steps)
    with _finish_the_step(say) as interrupt:
        for snapshot in snapshots:
            t = snapshot.span.first
            if t < summary.before:
                continue
            release = _publish_or_repeat(publisher, snapshot, prepared.job.exhausted == "repeat")
            summary.published += 1
            summary.fresh += release.fresh
            summary.spent += release.spent
            advance(t + 1, summary.steps)
            if interrupt.asked and t + 1 < summary.steps:
                summary.interrupted = True
                break


def _publish_or_repeat(publisher: Publisher[Any], snapshot: Sealed, repeat: bool) -> Release:
    try:
        return publisher.feed(snapshot)
    except BudgetExceededError:
        if not repeat:
            raise
        return publisher.skip()
