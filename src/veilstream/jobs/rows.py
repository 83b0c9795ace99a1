"""From the rows of a job to the sealed counts of its steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import polars as pl

from veilstream.data import Dropped, Events, read_counts, read_events
from veilstream.data.bounding import Bounded, PresenceHistory, bound
from veilstream.data.encoding import left_out
from veilstream.data.readers import open_batches
from veilstream.jobs.prepare import PreparedJob, require_source
from veilstream.jobs.presence import KeptPresence
from veilstream.jobs.summary import Summary
from veilstream.storage.keys import StreamKey
from veilstream.trusted.counts import Sealed

ROW: Final = "veilstream_row"
"""The column of ids where every row is another person."""


@contextmanager
def open_snapshots(
    prepared: PreparedJob, key: StreamKey, summary: Summary, history_file: Path
) -> Generator[Iterator[Sealed]]:
    """The sealed counts of every step; all rows are read and checked when the block begins.

    Where people count in few steps, who was present in a step is written down before it is handed out.
    """
    job, source = prepared.job, require_source(prepared.source)
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
            missing_value=job.missing_value,
            dropped=summary.dropped,
            options=prepared.read_options,
            presence=prepared.guarantee,
        )
        return
    if prepared.guarantee.presence is None:
        with _bounded(prepared, key, summary, None) as bounded:
            yield bounded.snapshots()
        return
    empty = PresenceHistory(prepared.guarantee, key.secret, directory=history_file.parent)
    kept = KeptPresence(history_file, empty, summary.before, all_rows=job.all_rows)
    with kept, _bounded(prepared, key, summary, kept.history) as bounded:
        yield kept.noted(bounded.snapshots())
        if bounded.history is not None and not summary.interrupted:
            kept.store(bounded.history, prepared.calendar.steps)


def _bounded(prepared: PreparedJob, key: StreamKey, summary: Summary, history: PresenceHistory | None) -> Bounded:
    job = prepared.job
    bounded = bound(
        _events(prepared, require_source(prepared.source)),
        prepared.domain,
        prepared.calendar,
        bins_per_user=job.bins_per_user,
        counts_per_user=job.counts_per_user,
        key=key.secret,
        unknown=job.unknown,
        missing_time=job.missing_time,
        presence=history,
        measures=prepared.measures,
        most=job.most,
        missing_value=job.missing_value,
        distinct=job.distinct_steps,
    )
    summary.dropped = bounded.dropped
    return bounded


def _events(prepared: PreparedJob, source: Any) -> Events:
    job, options = prepared.job, prepared.read_options
    attributes = (*prepared.domain.names, *(() if prepared.measures is None else prepared.measures.names))
    if job.user is not None:
        return read_events(source, user=job.user, time=job.time, by=attributes, options=options)
    columns = list(dict.fromkeys((job.time, *attributes)))
    rows = numbered_rows(open_batches(source, columns, options, time=job.time, dropped=left_out(job.unknown)))
    return read_events(rows, user=ROW, time=job.time, by=attributes)


def numbered_rows(batches: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The batches with a column ``ROW`` of numbers, by which every row is another person."""
    seen = 0
    for batch in batches:
        yield batch.with_row_index(ROW, offset=seen)
        seen += batch.height
