"""Run a job: read and bound everything first, then publish step by step, then write tables from the ledger."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl

from veilstream.data import Dropped, read_counts, read_events
from veilstream.data.bounding import PresenceHistory, bound, load_history, store_history
from veilstream.errors import BudgetExceededError, LedgerError
from veilstream.jobs.prepare import PreparedJob, database_file, require_file, require_ledger
from veilstream.jobs.wording import number
from veilstream.release.plots import MOST_ROWS, plot_releases
from veilstream.release.publisher import Publisher
from veilstream.release.sinks import largest_bins, release_tables, write_table
from veilstream.storage.keys import StreamKey, key_path, load, store
from veilstream.storage.ledger import Ledger
from veilstream.trusted.counts import Sealed
from veilstream.values.release import Release

Advance = Callable[[int, int], None]


@dataclass(slots=True)
class Summary:
    """What a run did: public numbers only, except ``dropped``, which is for the operator."""

    stream: str
    steps: int
    bins: int
    before: int
    published: int = 0
    interrupted: bool = False
    spent: Fraction = Fraction(0)
    left: Fraction | None = None
    noise_std: float | None = None
    outputs: dict[str, int | None] = field(default_factory=dict[str, int | None])
    dropped: Dropped | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "steps": self.steps,
            "bins": self.bins,
            "released_before": self.before,
            "released_now": self.published,
            "spent_now": str(self.spent),
            "left_in_window": None if self.left is None else str(self.left),
            "noise_std": self.noise_std,
            "interrupted": self.interrupted,
            "outputs": list(self.outputs),
        }


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
    url = require_ledger(prepared.job)
    database = database_file(url)
    key_file = key_path(database, prepared.job.stream, prepared.job.key_file)
    head = _head(prepared, url, database, key_file)
    summary = Summary(
        prepared.job.stream,
        prepared.calendar.steps,
        prepared.bins,
        0 if head is None else min(head + 1, prepared.calendar.steps),
    )
    if summary.before == summary.steps:
        with Ledger.open(url) as ledger:
            _write_outputs(prepared, ledger, summary)
        return summary
    key = load(key_file, prepared.job.stream) or StreamKey.fresh(prepared.job.stream, prepared.calendar)
    key.check(prepared.calendar, key_file)
    # Every row is read and checked here, before the ledger is touched.
    with _snapshots(prepared, key, summary, key_file.with_name(f"{key_file.name}.presence")) as snapshots:
        store(key_file, key).check(prepared.calendar, key_file)
        with Ledger.open(url) as ledger:
            _feed(prepared, ledger, snapshots, summary, say=say, advance=advance)
            _write_outputs(prepared, ledger, summary)
    return summary


def _head(prepared: PreparedJob, url: str, database: Path | None, key_file: Path) -> int | None:
    """The last released step, after checking that the ledger's stream is this one; nothing is created."""
    if database is not None and not database.exists():
        return None
    with Ledger.open(url) as ledger:
        if prepared.job.stream not in [spec.name for spec in ledger.streams()]:
            return None
        _publisher(prepared, ledger)
        with ledger.transaction(prepared.job.stream) as transaction:
            head = transaction.head
    known = load(key_file, prepared.job.stream)
    if known is not None:
        known.check(prepared.calendar, key_file)
    elif head is not None:
        raise LedgerError(
            name="key file",
            value=key_file,
            limit=f"missing, but stream {prepared.job.stream!r} has releases; it says which time each step is and "
            "which rows count, so restore it from a backup",
        )
    return head


def _publisher(prepared: PreparedJob, ledger: Ledger) -> Publisher[Any]:
    return Publisher(
        prepared.domain,
        prepared.guarantee,
        prepared.mechanism,
        ledger,
        stream=prepared.job.stream,
        max_contribution=prepared.job.max_contribution,
    )


@contextmanager
def _snapshots(
    prepared: PreparedJob, key: StreamKey, summary: Summary, history_file: Path
) -> Generator[Iterator[Sealed]]:
    """The sealed counts of all steps. Who was present in them is written down once all of them were released."""
    job, source = prepared.job, require_file(prepared.job)
    if job.value is not None:
        summary.dropped = Dropped()
        yield read_counts(
            source,
            time=job.time,
            value=job.value,
            domain=prepared.domain,
            calendar=prepared.calendar,
            max_contribution=job.max_contribution,
            unknown=job.unknown,
            missing_time=job.missing_time,
            dropped=summary.dropped,
            presence=prepared.guarantee,
        )
        return
    assert job.user is not None
    events = read_events(source, user=job.user, time=job.time, by=prepared.domain.names)
    history = None
    if prepared.guarantee.presence is not None:
        history = load_history(history_file, PresenceHistory(prepared.guarantee, key.secret))
    with bound(
        events,
        prepared.domain,
        prepared.calendar,
        bins_per_user=job.bins_per_user,
        counts_per_user=job.counts_per_user,
        key=key.secret,
        unknown=job.unknown,
        missing_time=job.missing_time,
        presence=history,
    ) as bounded:
        summary.dropped = bounded.dropped
        yield bounded.snapshots()
        if bounded.history is not None and not summary.interrupted:
            bounded.history.advance(prepared.calendar.steps)
            store_history(history_file, bounded.history)


def _feed(
    prepared: PreparedJob,
    ledger: Ledger,
    snapshots: Iterator[Sealed],
    summary: Summary,
    *,
    say: Callable[[str], None],
    advance: Advance,
) -> None:
    publisher = _publisher(prepared, ledger)
    advance(summary.before, summary.steps)
    with _finish_the_step(say) as interrupt:
        for snapshot in snapshots:
            t = snapshot.span.first
            if t < summary.before:
                continue
            release = _publish_or_repeat(publisher, snapshot, prepared.job.exhausted == "repeat")
            summary.published += 1
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


def _write_outputs(prepared: PreparedJob, ledger: Ledger, summary: Summary) -> None:
    job = prepared.job
    last = ledger.release_at(job.stream, summary.before + summary.published - 1)
    if last is not None:
        summary.left = last.left
        summary.noise_std = float(np.mean(last.std))
    if job.out is not None:
        tables = release_tables(ledger, job.stream, prepared.domain, prepared.calendar, level=job.level)
        summary.outputs[job.out] = write_table(tables, job.out)
    if job.plot is not None:
        shown_bins = largest_bins(ledger, job.stream, MOST_ROWS)
        drawn = release_tables(ledger, job.stream, prepared.domain, prepared.calendar, level=job.level, bins=shown_bins)
        caption = f"{prepared.guarantee}; noise of standard deviation {number(summary.noise_std or 0.0)} per bin"
        if len(shown_bins) < prepared.bins:
            caption += f"; the {len(shown_bins)} largest of {prepared.bins:,} bins"
        plot_releases(
            pl.concat(drawn), job.plot, title=f"Private releases of '{job.stream}'", subtitle=caption, level=job.level
        )
        summary.outputs[job.plot] = None
