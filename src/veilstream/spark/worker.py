"""What executors do: encode rows, bound every bucket of people, add up the counts.

Rows leave a task packed, a few large values per batch and bucket, so that the cluster moves and sorts few rows. Of
veilstream this imports ``environment.modules`` alone. An unexpected error leaves without its message,
which may quote a row and would reach the cluster's logs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl

from veilstream.data.arrow_frames import frame_from_arrow
from veilstream.data.bounding.buckets import (
    deal,
    lighten,
    pack_rows,
    parts_of_bucket,
    unpack_rows,
)
from veilstream.data.bounding.choice import Integers, Limit, Rows, choose, prune
from veilstream.data.bounding.counted import Run, counted, merged
from veilstream.data.bounding.distinct import changes_of_people
from veilstream.data.bounding.encoded import encode_rows
from veilstream.data.bounding.keyed import KeyedHash
from veilstream.data.bounding.packing import pack, unpack
from veilstream.data.bounding.presence_rows import PresenceLimit, rows_that_count
from veilstream.data.bounding.valued import choose_valued, run_of_sums
from veilstream.data.calendar import Calendar
from veilstream.data.domain import Domain
from veilstream.data.encoding import Dropped, Encoder, Policy
from veilstream.data.measures import ValueMeasures
from veilstream.errors import InvalidInputError, VeilstreamError
from veilstream.spark.environment import Versions, difference, environment
from veilstream.spark.notes import Note, described

FLUSH_ROWS: Final = 1 << 20
"""Rows that a task encodes together."""
FLUSH_BYTES: Final = 128 << 20
"""Bytes of rows from which on a task encodes them, however few: texts may be long."""
PIECE_CELLS: Final = 1 << 20
"""Cells of a run that travel in one value."""
NOTES: Final = -1
"""The bucket and the part that notes travel in."""
DEALT: Final = "bucket int, payload binary"
COUNTED: Final = "part int, payload binary"

arrow: Any = import_module("pyarrow")
Batch: TypeAlias = Any
"""A record batch of Arrow, which has no types of its own."""
Batches: TypeAlias = Iterator[Batch]


@dataclass(frozen=True, slots=True)
class Job:
    """All that executors get to know. The two keys are derived from the stream's key, which stays with the driver.

    Only ``steps`` of the calendar are counted. With ``presence`` rows of earlier steps are among the events, to say who
    was there; else none of others are.
    """

    domain: Domain
    calendar: Calendar
    user: str
    time: str
    limit: Limit
    unknown: Policy
    missing_time: Policy
    steps: range
    buckets: int
    parts: int
    memory_bytes: int
    expected: Versions
    people_key: bytes = field(repr=False)
    choice_key: bytes = field(repr=False)
    presence: PresenceLimit | None = None
    measures: ValueMeasures | None = None
    most: Fraction | None = None
    missing_value: Policy = "error"
    distinct: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the events, in the order in which they come."""
        measured = () if self.measures is None else self.measures.names
        return tuple(dict.fromkeys((self.user, self.time, *self.domain.names, *measured)))

    @property
    def values(self) -> int:
        """Columns of values that rows carry between tasks; the last says how often a row comes."""
        return 0 if self.measures is None else len(self.measures.columns) + 1

    @property
    def width(self) -> int:
        """Numbers of a step."""
        return self.domain.bins * (1 if self.measures is None else self.measures.parts)

    @property
    def bound(self) -> Limit:
        """How much of a person's rows counts: of distinct people one row in each bin."""
        return self.limit if self.distinct is None else Limit(self.limit.bins_per_user, 1)

    def first_step(self, part: int) -> int:
        """The step at which a part begins; part ``parts`` begins at the end."""
        return self.steps.start - (-part * len(self.steps) // self.parts)


def encoding(job: Job) -> Any:
    """For ``mapInArrow``: from events to packed rows by bucket."""

    def encode_events(batches: Batches) -> Batches:
        with without_message():
            yield from _encoded(job, batches)

    return encode_events


def bounding(job: Job) -> Any:
    """For ``applyInArrow`` on a bucket: from packed rows to runs of counts by part of the steps."""

    def bound_bucket(bucket: int, batches: Batches) -> Batches:
        return passed(batches) if bucket == NOTES else _bounded(job, batches)

    return by_group(bound_bucket)


def adding() -> Any:
    """For ``applyInArrow`` on a part: one run of counts out of those of all buckets."""

    def add_counts(part: int, batches: Batches) -> Batches:
        return passed(batches) if part == NOTES else _added(part, batches)

    return by_group(add_counts)


def by_group(function: Callable[[int, Batches], Batches]) -> Any:
    """A function of a group's number and its batches as Spark takes it; annotations say that batches are streamed."""

    def on_group(key: tuple[Any, ...], batches: Batches) -> Batches:
        with without_message():
            yield from function(key[0].as_py(), batches)

    stream = Iterator[arrow.RecordBatch]
    on_group.__annotations__ = {"key": tuple[arrow.Scalar, ...], "batches": stream, "return": stream}
    return on_group


@contextmanager
def without_message() -> Generator[None]:
    """Let an unexpected error out by its type alone."""
    try:
        yield
    except (GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        kind = type(error).__name__
        raise RuntimeError(f"veilstream: {kind} in a task; its message is withheld, as it may quote a row") from None


def unpacked_run(packed: Any) -> Run:
    """Cells in order, and their counts."""
    cells, counts = unpack(packed)
    return cells, counts


def payloads(batches: Iterable[Batch]) -> Iterator[Any]:
    """The packed values of all batches, as buffers."""
    for batch in batches:
        for value in batch.column("payload"):
            yield value.as_buffer()


def mismatch(expected: Versions) -> InvalidInputError | None:
    """Why this process must not take part."""
    found = difference(expected, environment())
    if found is None:
        return None
    name, driver, executor = found
    return InvalidInputError(
        name=f"{name} of an executor",
        value=executor,
        limit=f"the driver has {driver}, and both must read ids alike; install the same version on both",
        outcome="nothing was read",
    )


def frames(batches: Iterable[Batch], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows in frames of about ``FLUSH_ROWS`` or ``FLUSH_BYTES``, with the columns' own names."""
    waiting: list[Batch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= FLUSH_ROWS or size >= FLUSH_BYTES:
            yield _frame(waiting, columns)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _frame(waiting, columns)


def note_batch(column: str, note: Note) -> Batch:
    """A note among the rows."""
    return number_batch(column, [(NOTES, note.to_bytes())])


def _frame(batches: list[Batch], columns: Sequence[str]) -> pl.DataFrame:
    return frame_from_arrow(arrow.Table.from_batches(batches).rename_columns(list(columns)))


def number_batch(column: str, rows: list[tuple[int, bytes]]) -> Batch:
    numbers = arrow.array([number for number, _ in rows], type=arrow.int32())
    return arrow.RecordBatch.from_arrays(
        [numbers, arrow.array([value for _, value in rows], type=arrow.binary())], [column, "payload"]
    )


def _encoded(job: Job, batches: Batches) -> Batches:
    stranger = mismatch(job.expected)
    if stranger is not None:
        yield note_batch("bucket", Note(Dropped(), error=described(stranger)))
        return
    encoder = Encoder(
        job.domain, job.calendar, job.time, job.unknown, job.missing_time, missing_value=job.missing_value
    )
    choice = KeyedHash(job.choice_key)
    try:
        for frame in frames(batches, job.columns):
            rows = encode_rows(frame, job.user, encoder, job.people_key, job.measures)
            light = lighten(rows, job.domain.bins, job.bound, choice)
            yield number_batch("bucket", [(bucket, pack_rows(part)) for bucket, part in deal(light, job.buckets)])
    except VeilstreamError as error:
        yield note_batch("bucket", Note(Dropped(), error=described(error)))
        return
    yield note_batch("bucket", Note(encoder.dropped))


def _bounded(job: Job, batches: Batches) -> Batches:
    pieces = (unpack_rows(value, job.values) for value in payloads(batches))
    edges = np.array([job.first_step(part) * job.width for part in range(job.parts + 1)])
    # Who counts at a step may depend on all steps of a person.
    by_person = job.presence is not None or job.distinct not in (None, 1)
    bins, steps = job.domain.bins, job.calendar.steps
    key = KeyedHash(job.choice_key)
    for rows in parts_of_bucket(pieces, steps, bins, job.memory_bytes, by_person=by_person):
        counting = rows if job.presence is None else rows_that_count(rows, bins, job.presence)
        for cells, numbers in _runs(job, counting, key):
            ends = np.searchsorted(cells, edges).tolist()
            for part in range(job.parts):
                mine = slice(ends[part], ends[part + 1])
                if mine.stop > mine.start:
                    yield number_batch("part", [(part, piece) for piece in _pieces(cells[mine], numbers[mine])])


def _runs(job: Job, rows: Rows, key: KeyedHash) -> Iterator[Run]:
    """The numbers of the rows that count, each run with its cells in order."""
    bins = job.domain.bins
    if job.measures is not None:
        most = None if job.most is None else job.measures.most_steps(job.most)
        cells, values = choose_valued(rows, bins, job.limit, key, most, folded=True)
        yield from run_of_sums(cells, values, job.measures)
    elif job.distinct is None:
        yield counted(choose(rows, bins, job.limit, key))
    elif job.distinct == 1:
        yield counted(prune(rows, bins, job.bound, key).cell)
    else:
        yield changes_of_people(rows, bins, job.limit.bins_per_user, job.distinct, job.steps, key)


def _added(part: int, batches: Batches) -> Batches:
    cells, counts = merged(unpacked_run(value) for value in payloads(batches))
    yield number_batch("part", [(part, piece) for piece in _pieces(cells, counts)])


def _pieces(cells: Integers, counts: Integers) -> Iterator[bytes]:
    for first in range(0, len(cells), PIECE_CELLS):
        piece = slice(first, first + PIECE_CELLS)
        yield pack([cells[piece], counts[piece]])


def passed(batches: Batches) -> Batches:
    for batch in batches:
        values = batch.column("payload").cast(arrow.binary())
        yield arrow.RecordBatch.from_arrays(
            [arrow.array([NOTES] * batch.num_rows, type=arrow.int32()), values], ["part", "payload"]
        )
